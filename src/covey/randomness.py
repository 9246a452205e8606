"""Random numbers that depend on a key and on nothing else.

A key is made from whatever names a draw, `key(seed, "batches", round, peer)`; the numbers drawn from it are a hash of
(key, position). So a peer draws the same batches, graphs and compressions whatever the order of execution, the chunk
size, the number of processes or the device, and reading them disturbs no generator. Everything here is vectorised:
a tensor of keys gives a row of numbers per key.

The hash is the finaliser of splitmix64 (Steele, Lea and Flood, 2014), applied to a Weyl sequence.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

_GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_MIX_1 = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_MIX_2 = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB
_WORD = 1 << 64
_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # pyright: ignore  (under vmap there is no numpy)
_FEW = 1 << 14  # numbers for which numpy is faster


def _mix(x: Any) -> Any:
    """The finaliser, of anything that holds signed 64-bit numbers and lets them overflow."""
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * _MIX_1  # the mask makes the arithmetic shift logical
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


def _scramble(x: Tensor) -> Tensor:
    if x.is_cpu and x.dim() > 0 and x.numel() < _FEW and not _wrapped(x):
        return torch.from_numpy(_mix(x.numpy()))  # its calls cost less, and the numbers are the same
    return _mix(x)


def _scramble_number(x: int) -> int:
    x = _signed(x)
    x = _signed((x ^ ((x >> 30) & 0x3FFFFFFFF)) * _MIX_1)
    x = _signed((x ^ ((x >> 27) & 0x1FFFFFFFFF)) * _MIX_2)
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


def _signed(x: int) -> int:
    return (x + _WORD // 2) % _WORD - _WORD // 2


@lru_cache(maxsize=1024)
def _named(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "big")


def key(*parts: int | str | Tensor) -> Tensor:
    """One key (or, where a part is a tensor of ids, a tensor of keys) for the draw that `parts` name."""
    state: Tensor | int = 0  # a Python number until the first tensor: that is 50 times as fast
    for part in parts:
        part = _named(part) if isinstance(part, str) else part
        if isinstance(part, Tensor):
            if isinstance(state, Tensor) and part.is_cpu:
                part = part.to(state.device)  # an accelerator, once one part lies there
            so_far = state.to(part.device) * 3 + _GOLDEN if isinstance(state, Tensor) else _signed(state * 3 + _GOLDEN)
            state = _scramble(_scramble(part.long() + _GOLDEN) + so_far)
        elif isinstance(state, Tensor):
            state = _scramble(state * 3 + _signed(_GOLDEN + _scramble_number(int(part) + _GOLDEN)))
        else:
            state = _scramble_number(state * 3 + _GOLDEN + _scramble_number(int(part) + _GOLDEN))
    return state if isinstance(state, Tensor) else torch.tensor(state)


def bits(keys: Tensor, count: int) -> Tensor:
    """64 random bits, `count` times per key: int64 [*keys.shape, count]."""
    position = torch.arange(1, count + 1, device=keys.device)
    return _scramble(keys[..., None] + position * _GOLDEN)


def uniform(keys: Tensor, count: int) -> Tensor:
    """Numbers in [0, 1), float64 [*keys.shape, count]."""
    return ((bits(keys, count) >> 11) & 0x1FFFFFFFFFFFFF).double() * 2.0**-53


def normal(keys: Tensor, count: int) -> Tensor:
    """Standard normal numbers, float64 [*keys.shape, count], by Box and Muller."""
    u = uniform(keys, 2 * count)
    radius = (-2.0 * torch.log1p(-u[..., :count])).sqrt()
    return radius * torch.cos(2.0 * math.pi * u[..., count:])


def integers(keys: Tensor, high: int, count: int) -> Tensor:
    """Integers in [0, high), int64 [*keys.shape, count]."""
    return (uniform(keys, count) * high).long()


def permutations(keys: Tensor, sizes: Tensor) -> Tensor:
    """For each key a random order of range(size), one after another: int64 [sizes.sum()].

    One sort over all segments, so very unequal sizes cost what their sum costs.
    """
    segment = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    start = torch.cumsum(sizes, 0) - sizes
    position = torch.arange(len(segment), device=sizes.device) - start[segment]
    draw = _scramble(keys[segment] + (position + 1) * _GOLDEN)
    order = torch.argsort((segment << 40) | ((draw >> 24) & 0xFFFFFFFFFF), stable=True)
    return position[order]


def choose(keys: Tensor, n: int, k: int) -> Tensor:
    """k different integers of range(n) per key, uniformly: int64 [*keys.shape, k]; Floyd's method, all keys at once."""
    if not 0 <= k <= n:
        raise ValueError(f"cannot choose {k} different integers from {n}")
    u = uniform(keys, k)
    chosen = torch.empty((*keys.shape, k), dtype=torch.int64, device=keys.device)
    for s, top in enumerate(range(n - k, n)):
        candidate = (u[..., s] * (top + 1)).long()
        taken = (chosen[..., :s] == candidate[..., None]).any(-1)
        chosen[..., s] = torch.where(taken, top, candidate)
    return chosen
