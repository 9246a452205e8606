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

import torch
from torch import Tensor

_GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_MIX_1 = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_MIX_2 = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB


def _scramble(x: Tensor) -> Tensor:
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * _MIX_1  # torch shifts arithmetically; the mask makes it logical
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


def key(*parts: int | str | Tensor) -> Tensor:
    """One key (or, where a part is a tensor of ids, a tensor of keys) for the draw that `parts` name."""
    state = torch.zeros((), dtype=torch.int64)
    for part in parts:
        if isinstance(part, str):
            part = int.from_bytes(hashlib.blake2b(part.encode(), digest_size=7).digest(), "big")
        part = torch.as_tensor(part, dtype=torch.int64)
        device = state.device if part.device.type == "cpu" else part.device  # an accelerator, once one part lies there
        state = _scramble(state.to(device) * 3 + _GOLDEN + _scramble(part.to(device) + _GOLDEN))
    return state


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
