"""Compressors that say something of every number.

    Identity   C(x) = x                                                                        ω = 1
    Sign       C(x) = (‖x‖₁ / d) · sign(x)                                                     ω = 1 / d at worst
    QSGD       C(x) = ‖x‖₂ · sign(x) · ⌊s|x|/‖x‖₂ + r⌋ / (s (1 + β)),  r uniform in [0, 1)      ω = 1 / (1 + β)
               β = min(d / s², √d / s)

D. Alistarh et al., *QSGD*, 2017; S. P. Karimireddy et al., *Error feedback fixes SignSGD*, 2019. On a vector x, Sign
has ω = ‖x‖₁² / (d ‖x‖₂²), 0.64 for normal numbers. QSGD is divided by 1 + β so that it contracts; undivided it is
unbiased and may expand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from covey.compress.compressor import Compressor
from covey.compress.forms import Floats, Levels, Signs
from covey.errors import BadInput
from covey.randomness import uniform


@dataclass(frozen=True)
class Identity(Compressor):
    """Everything is said as it is."""

    def form(self, x: Tensor, keys: Tensor) -> Floats:
        return Floats(x)

    def omega(self, d: int) -> float:
        return 1.0

    def formula(self, d: int) -> float:
        return 32.0 * d


@dataclass(frozen=True)
class Sign(Compressor):
    """A bit per number, and the mean magnitude."""

    def form(self, x: Tensor, keys: Tensor) -> Signs:
        return signs(x)

    def omega(self, d: int) -> float:
        return 1.0 / d

    def formula(self, d: int) -> float:
        return d + 32.0


@dataclass(frozen=True)
class QSGD(Compressor):
    """Random rounding to `levels` steps of the norm."""

    levels: int

    def __post_init__(self) -> None:
        require_levels(self.levels, "QSGD")

    def form(self, x: Tensor, keys: Tensor) -> Levels:
        return levels(x, keys, self.levels)

    def omega(self, d: int) -> float:
        return 1.0 / (1.0 + spread(d, self.levels))

    def formula(self, d: int) -> float:
        return d * (1.0 + math.ceil(math.log2(self.levels + 1))) + 32.0


def signs(x: Tensor) -> Signs:
    return Signs(x.abs().mean(1, keepdim=True), x < 0)


def levels(x: Tensor, keys: Tensor, s: int) -> Levels:
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float64).to(x)  # squares may leave float32
    ratio = torch.where(norm > 0, x.abs() / norm, 0.0)
    draw = uniform(keys.to(x.device), x.shape[1])
    level = (ratio.double() * s + draw).floor().clamp(max=s)  # in float64: rounding must not lift a level past s
    return Levels(norm, x < 0, level.to(torch.uint8 if s < 256 else torch.int32), s, spread(x.shape[1], s))


def spread(d: int, s: int) -> float:
    """β: the variance of the rounding is at most β ‖x‖²."""
    return min(d / s**2, math.sqrt(d) / s)


def require_levels(s: int, name: str) -> None:
    if not isinstance(cast(object, s), int) or not 1 <= s < 1 << 16:
        raise BadInput(f"{name}(levels={s}) is out of range; use a whole number from 1 to 65535.")
