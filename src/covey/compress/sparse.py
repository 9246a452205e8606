"""Compressors that say something of a few numbers, and nothing of the others.

    TopK       the k largest in magnitude, as they are                              ω = k / d
    RandK      k at random, as they are (not scaled by d / k: that would expand)    ω = k / d in the mean
    SignTopK   the k largest, as ± their mean magnitude                             ω = min(1 / k, k / d) at worst
    QTopK      the k largest, rounded at random to s levels (see QSGD)              ω = k / (d (1 + β_k))

S. U. Stich, J.-B. Cordonnier, M. Jaggi, *Sparsified SGD with memory*, 2018; D. Basu, D. Data, C. Karakus, S. Diggavi,
*Qsparse-local-SGD*, 2019. Of equal magnitudes the one with the lower position is chosen, whatever the machine. k is a
number for the whole vector (`k`), or a share of each tensor, rounded down but at least one (`fraction`).

SignTopK keeps ‖T‖₁² / (k ‖x‖₂²) of the energy, T being the k largest. For a given sum that is least where one of T is
large and all other numbers of x are c times it: (1 + (k − 1) c)² / (k (1 + (d − 1) c²)), which rises and then falls
between 1 / k at c = 0 and k / d at c = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from covey.compress.compressor import Compressor, some_of
from covey.compress.dense import levels, require_levels, signs, spread
from covey.compress.forms import Chosen, Floats, Inner
from covey.errors import BadInput
from covey.randomness import uniform

_LONG = 1 << 15  # numbers from which looking for candidates first is faster (measured on a processor)
_STRIDE = 64


@dataclass(frozen=True)
class TopK(Compressor):
    """The k largest in magnitude."""

    k: int | float | None = None  # a whole number, or the share itself
    fraction: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.k, float) and self.fraction is None:
            object.__setattr__(self, "fraction", self.k)
            object.__setattr__(self, "k", None)
        some_of(self.k, self.fraction, type(self).__name__)

    @property
    def whole(self) -> bool:
        return self.k is not None

    @property
    def everything(self) -> bool:
        return False

    def shrunk(self, d: int, size: int) -> TopK:
        return self if self.k is None else replace(self, k=max(1, round(self.k * size / d)))

    def require_fits(self, d: int) -> None:
        if self.k is not None and self.k > d:
            raise BadInput(f"{type(self).__name__}(k={self.k}) keeps more than the {d} numbers that are shared.")

    def count(self, d: int) -> int:
        """k of d numbers."""
        self.require_fits(d)
        if self.fraction is None:
            return int(self.k or 0)
        return max(1, math.floor(self.fraction * d + 1e-9))  # 0.29 · 100 is 28.999…96 in floating point

    def form(self, x: Tensor, keys: Tensor) -> Chosen:
        index = self.choose(x, keys)
        return Chosen(index, self.inner(x.gather(1, index), keys), x.shape[1])

    def choose(self, x: Tensor, keys: Tensor) -> Tensor:
        """Which ones: positions [m, k], ascending."""
        return largest(x, self.count(x.shape[1]))

    def inner(self, chosen: Tensor, keys: Tensor) -> Inner:
        """How the chosen ones are said."""
        return Floats(chosen)

    def omega(self, d: int) -> float:
        return self.count(d) / d

    def formula(self, d: int) -> float:
        return self.count(d) * (32.0 + position_bits(d))


@dataclass(frozen=True)
class RandK(TopK):
    """k of them at random."""

    def choose(self, x: Tensor, keys: Tensor) -> Tensor:
        draw = uniform(keys.to(x.device), x.shape[1])
        return draw.topk(self.count(x.shape[1]), dim=1).indices.sort(dim=1).values


@dataclass(frozen=True)
class SignTopK(TopK):
    """The k largest, as a sign each and their mean magnitude."""

    def inner(self, chosen: Tensor, keys: Tensor) -> Inner:
        return signs(chosen)

    def omega(self, d: int) -> float:
        return min(1.0 / self.count(d), self.count(d) / d)

    def formula(self, d: int) -> float:
        return self.count(d) * (1.0 + position_bits(d)) + 32.0


@dataclass(frozen=True)
class QTopK(TopK):
    """The k largest, each rounded at random to one of `levels` steps."""

    levels: int = 15

    def __post_init__(self) -> None:
        super().__post_init__()
        require_levels(self.levels, "QTopK")

    def inner(self, chosen: Tensor, keys: Tensor) -> Inner:
        return levels(chosen, keys, self.levels)

    def omega(self, d: int) -> float:
        k = self.count(d)
        return k / (d * (1.0 + spread(k, self.levels)))

    def formula(self, d: int) -> float:
        return self.count(d) * (1.0 + math.ceil(math.log2(self.levels + 1)) + position_bits(d)) + 32.0


def position_bits(d: int) -> int:
    return math.ceil(math.log2(d)) if d > 1 else 0


def largest(x: Tensor, k: int) -> Tensor:
    """Positions of the k largest in magnitude of each row, ascending; of equal ones the first."""
    d = x.shape[1]
    if k >= d:
        return torch.arange(d, device=x.device).expand(len(x), -1)
    if x.device.type == "cpu" and len(x) and d >= _LONG and 8 * k <= d:
        return torch.stack([_among_candidates(row.abs(), k) for row in x])
    return _sorted_out(x.abs(), k)


def _among_candidates(size: Tensor, k: int) -> Tensor:
    """The same for one long row: every 64th number tells a threshold that slightly more than k numbers are likely to
    reach, and only those are sorted. Where fewer reach it, all are; so the answer is exact in any case."""
    sample = size[::_STRIDE]
    wanted = k / _STRIDE
    rank = math.ceil(wanted + 4.0 * math.sqrt(wanted)) + 1  # of the sample; 4 deviations: short once in 30000 times
    if rank > len(sample):
        return _sorted_out(size[None], k)[0]
    candidates = (size >= sample.topk(rank).values[-1]).nonzero()[:, 0]
    if len(candidates) <= k:
        return candidates if len(candidates) == k else _sorted_out(size[None], k)[0]
    return candidates[_sorted_out(size[candidates][None], k)[0]]


def _sorted_out(size: Tensor, k: int) -> Tensor:
    value, index = size.topk(k + 1, dim=1)
    index = index[:, :k].sort(dim=1).values
    tied = value[:, k - 1] == value[:, k]  # only then does it matter which of equal ones are taken
    if bool(tied.any()):
        rows = size[tied]
        least = value[tied, k - 1 : k]
        equal = rows == least
        room = k - (rows > least).sum(1, keepdim=True)
        taken = (rows > least) | (equal & (equal.cumsum(1) <= room))
        index[tied] = taken.nonzero()[:, 1].view(-1, k)
    return index
