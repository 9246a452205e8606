"""Which weights a peer has at all: sparse from the start, and moved about while the number stays.

A mask is bool [rows, width], over all columns of the rows; statistics are always kept. Of each tensor every peer keeps
equally many numbers, so messages are equally long and a row of the mask never grows.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import torch
from torch import Tensor

from covey.compress.sparse import largest
from covey.randomness import key, uniform
from covey.rows import Field


def erk(fields: Collection[Field], density: float) -> list[int]:
    """How many numbers of each tensor are kept, by the Erdős–Rényi-kernel rule (Evci et al., *RigL*, 2020): a share of
    ε Σ shape / Π shape, where ε makes the whole `density`, and tensors whose share would exceed 1 are kept whole."""
    sizes = [math.prod(field.shape) for field in fields]
    sums = [max(1, sum(field.shape)) for field in fields]
    dense: set[int] = set()
    while True:
        rest = [i for i in range(len(sizes)) if i not in dense]
        wanted = density * sum(sizes) - sum(sizes[i] for i in dense)
        epsilon = wanted / sum(sums[i] for i in rest) if rest else 0.0
        full = max((sums[i] / sizes[i] for i in rest), default=0.0)
        if epsilon * full <= 1:
            break
        dense |= {i for i in rest if sums[i] / sizes[i] == full}
    return [size if i in dense else max(1, round(epsilon * sums[i])) for i, size in enumerate(sizes)]


def drawn(fields: Collection[Field], density: float, width: int, keys: Tensor) -> Tensor:
    """A random mask for each key."""
    mask = torch.ones(len(keys), width, dtype=torch.bool, device=keys.device)
    for place, (field, kept) in enumerate(zip(fields, erk(fields, density), strict=True)):
        size = field.columns.stop - field.columns.start
        chosen = largest(uniform(key(keys, place), size), kept)
        mask[:, field.columns] = torch.zeros_like(mask[:, field.columns]).scatter_(1, chosen, True)
    return mask


def renewed(mask: Tensor, fields: Collection[Field], weight: Tensor, score: Tensor, share: float) -> Tensor:
    """Of each tensor a share of what is kept, the smallest in magnitude, is given up, and as many of the others are
    taken in, those of the largest score. Of equals it is the lower column."""
    mask = mask.clone()
    for part in (field.columns for field in fields):
        own = mask[:, part]
        kept = int(own[0].sum())
        moved = min(int(share * kept), own.shape[1] - kept)
        if moved:
            weakest = largest((-weight[:, part].abs()).masked_fill(~own, -math.inf), moved)
            best = largest(score[:, part].masked_fill(own, -math.inf), moved)
            mask[:, part] = own.scatter(1, weakest, False).scatter(1, best, True)
    return mask
