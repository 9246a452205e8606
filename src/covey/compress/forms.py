"""The forms in which numbers are said, each with its exact size in bytes.

    Floats   every number as it is
    Signs    a scale and a bit per number                                  ± scale
    Levels   a norm, and a sign and a whole number 0 … s per number        ± norm · level / (s · (1 + β))
    Chosen   which of many numbers are meant, and those in another form; all others are zero

A form holds what is sent and nothing else, for several peers at once (rows first), and `values` makes numbers of it.
Sender and receivers call the same `values`, so they add the same numbers to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Floats:
    """Every number as it is."""

    value: Tensor  # [m, d]

    def values(self) -> Tensor:
        return self.value

    def size(self) -> Tensor:
        """Bytes of each row's payload."""
        return torch.full((len(self.value),), float(self.value.shape[1] * self.value.element_size()))


@dataclass(frozen=True)
class Signs:
    """± scale. Zero counts as positive: a bit has no third value."""

    scale: Tensor  # [m, 1]
    negative: Tensor  # bool [m, d]

    def values(self) -> Tensor:
        return torch.where(self.negative, -self.scale, self.scale)

    def size(self) -> Tensor:
        return torch.full((len(self.scale),), float(self.scale.element_size() + in_bytes(self.negative.shape[1])))


@dataclass(frozen=True)
class Levels:
    """± norm · level / (s · (1 + β)) with whole levels 0 … s."""

    norm: Tensor  # [m, 1]
    negative: Tensor  # bool [m, d]
    level: Tensor  # uint8 or int32 [m, d]
    s: int
    beta: float

    def values(self) -> Tensor:
        size = self.norm * (self.level / (self.s * (1.0 + self.beta)))
        return torch.where(self.negative, -size, size).to(self.norm.dtype)

    @property
    def bits(self) -> int:
        """Bits of one level."""
        return max(1, math.ceil(math.log2(self.s + 1)))

    def size(self) -> Tensor:
        d = self.level.shape[1]
        return torch.full((len(self.norm),), float(self.norm.element_size() + in_bytes(d) + in_bytes(d * self.bits)))


Inner = Floats | Signs | Levels


@dataclass(frozen=True)
class Chosen:
    """Some of `width` numbers, by their positions; the others are zero."""

    index: Tensor  # int64 [m, k], ascending
    inner: Inner  # of the k chosen ones
    width: int

    def size(self) -> Tensor:
        return index_size(self.index, self.width) + self.inner.size()


Form = Floats | Signs | Levels | Chosen


def joined(forms: Sequence[Form]) -> Form:
    """Forms of one kind and width, of some peers after others, as one."""
    first = forms[0]
    if len(forms) == 1:
        return first
    if isinstance(first, Chosen):
        chosen = [form for form in forms if isinstance(form, Chosen)]
        inner = joined([form.inner for form in chosen])
        assert not isinstance(inner, Chosen)
        return Chosen(torch.cat([form.index for form in chosen]), inner, first.width)
    if isinstance(first, Floats):
        return Floats(torch.cat([form.value for form in forms if isinstance(form, Floats)]))
    if isinstance(first, Signs):
        own = [form for form in forms if isinstance(form, Signs)]
        return Signs(torch.cat([form.scale for form in own]), torch.cat([form.negative for form in own]))
    levels = [form for form in forms if isinstance(form, Levels)]
    norm, negative = torch.cat([form.norm for form in levels]), torch.cat([form.negative for form in levels])
    return Levels(norm, negative, torch.cat([form.level for form in levels]), first.s, first.beta)


def in_bytes(bits: int) -> int:
    """Bits, filled up to whole bytes."""
    return (bits + 7) // 8


def rice_bits(k: int, width: int) -> tuple[int, int]:
    """Two candidates for the number of low bits that a Rice code writes as they are: k positions spread evenly among
    `width` have gaps of width / k in the mean, for which about log2(ln 2 · width / k) low bits are best."""
    best = max(0, math.floor(math.log2(max(1.0, math.log(2) * width / k))))
    return best, best + 1


def index_size(index: Tensor, width: int) -> Tensor:
    """Bytes that positions [m, k] take in the shortest of three codes, with one byte that says which."""
    return 1.0 + torch.stack(index_sizes(index, width)).min(0).values


def index_sizes(index: Tensor, width: int) -> list[Tensor]:
    """Bytes in each code: a bitmap, fixed width, and Rice codes of the gaps (for each candidate of low bits)."""
    m, k = index.shape
    fixed = max(1, math.ceil(math.log2(width)))
    sizes = [torch.full((m,), float(in_bytes(bits))) for bits in (width, k * fixed)]
    gaps = torch.diff(index, dim=1, prepend=index.new_full((m, 1), -1)) - 1
    for low in rice_bits(k, width):
        unary = (gaps >> low).sum(1) + k
        sizes.append((in_bytes(k * low) + (unary + 7) // 8).cpu())
    return [size.double() for size in sizes]
