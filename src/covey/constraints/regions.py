"""The convex set X in which each peer's point stays, and its projection Π.

    ball(r)             ‖x‖ ≤ r
    box(low, high)      low ≤ x ≤ high, numbers or one for each coordinate
    region(project, …)  any convex set, given by its projection and a ball that lies in it

Two-point feedback asks for values at x ± ζu, which must lie in X, too: `shrunk(ζ)` is the set of the points for which
they do, X̃ = (1 − ζ/r) X + (ζ/r) y₀, where the ball of radius r around y₀ lies in X.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.errors import BadInput

Numbers = float | tuple[float, ...]


@dataclass(frozen=True)
class Region(ABC):
    """Frozen configuration."""

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """Π of each vector of x [..., d]."""

    @property
    @abstractmethod
    def inside(self) -> tuple[Numbers, float]:
        """y₀ and r of a ball that lies in the set."""

    def farthest(self, direction: Tensor) -> Tensor | None:
        """max over y ∈ X of ⟨direction, y⟩ for each row; None where that is not known."""
        return None

    def require_fits(self, d: int) -> None:
        """Refuse a set that has not d dimensions."""

    def shrunk(self, zeta: float) -> Region:
        """The points around which the sphere of radius ζ lies in the set."""
        _, radius = self.inside
        if not zeta < radius:
            raise BadInput(
                f"zeta={zeta:g} is too large for {self}: of the ball of radius {radius:g} in it nothing would be "
                "left; use a smaller zeta, or a larger set."
            )
        return Shrunk(self, zeta)


@dataclass(frozen=True)
class Ball(Region):
    """See `ball`. An infinite radius bounds nothing."""

    radius: float

    def project(self, x: Tensor) -> Tensor:
        if self.radius == math.inf:
            return x
        return x * (self.radius / x.norm(dim=-1, keepdim=True)).clamp_(max=1.0)

    @property
    def inside(self) -> tuple[Numbers, float]:
        return 0.0, self.radius

    def farthest(self, direction: Tensor) -> Tensor | None:
        return self.radius * direction.norm(dim=1)


@dataclass(frozen=True)
class Box(Region):
    """See `box`."""

    low: Numbers
    high: Numbers

    def project(self, x: Tensor) -> Tensor:
        return x.clamp(*self._sides(x))

    @property
    def inside(self) -> tuple[Numbers, float]:
        low, high = (torch.tensor(side, dtype=torch.float64) for side in (self.low, self.high))
        middle = (low + high) / 2
        centre = tuple(middle.tolist()) if middle.dim() else float(middle)
        return centre, float((high - low).min()) / 2

    def farthest(self, direction: Tensor) -> Tensor | None:
        low, high = self._sides(direction)
        return torch.maximum(direction * low, direction * high).sum(1)

    def _sides(self, like: Tensor) -> tuple[Tensor, Tensor]:
        return like.new_tensor(self.low), like.new_tensor(self.high)

    def require_fits(self, d: int) -> None:
        sizes = {len(side) for side in (self.low, self.high) if isinstance(side, tuple)}
        if sizes - {d}:
            raise BadInput(f"The box has {sizes.pop()} sides, but {d} numbers are shared.")


@dataclass(frozen=True)
class UserRegion(Region):
    """See `region`."""

    projection: Callable[[Tensor], Tensor]
    centre: Numbers
    radius: float

    def project(self, x: Tensor) -> Tensor:
        return self.projection(x.flatten(0, -2)).view_as(x)

    @property
    def inside(self) -> tuple[Numbers, float]:
        return self.centre, self.radius


@dataclass(frozen=True)
class Shrunk(Region):
    """X̃ = (1 − ζ/r) X + (ζ/r) y₀; with s = 1 − ζ/r, its projection is s Π_X((x − (1 − s) y₀) / s) + (1 − s) y₀."""

    whole: Region
    zeta: float

    def project(self, x: Tensor) -> Tensor:
        centre, radius = self.whole.inside
        if radius == math.inf:
            return x
        s = 1.0 - self.zeta / radius
        if centre == 0.0:
            return s * self.whole.project(x / s)
        rest = (1.0 - s) * x.new_tensor(centre)
        return s * self.whole.project((x - rest) / s) + rest

    @property
    def inside(self) -> tuple[Numbers, float]:
        centre, radius = self.whole.inside
        return centre, radius - self.zeta

    def farthest(self, direction: Tensor) -> Tensor | None:
        far = self.whole.farthest(direction)
        centre, radius = self.whole.inside
        if far is None or radius == math.inf:
            return far
        s = 1.0 - self.zeta / radius
        return s * far + (1.0 - s) * (direction * direction.new_tensor(centre)).sum(1)

    def require_fits(self, d: int) -> None:
        self.whole.require_fits(d)


def ball(radius: float) -> Ball:
    """‖x‖ ≤ radius."""
    if not radius > 0:
        raise BadInput(f"ball({radius}) holds no point to learn; use a radius above 0.")
    return Ball(float(radius))


def within(radius: float | Region, margin: float = 0.0) -> Region:
    """A set, or a ball of so large a radius; with a margin, the points around which its sphere lies in the set."""
    whole = radius if isinstance(radius, Region) else ball(radius)
    return whole.shrunk(margin) if margin else whole


def box(low: float | Sequence[float], high: float | Sequence[float]) -> Box:
    """low ≤ x ≤ high in every coordinate."""
    lower, upper = _numbers(low), _numbers(high)
    if not bool((torch.tensor(lower) < torch.tensor(upper)).all()):
        raise BadInput(f"box({low}, {high}) is empty or flat; every low must lie below its high.")
    return Box(lower, upper)


def region(
    project: Callable[[Tensor], Tensor], inside: float | Sequence[float] = 0.0, radius: float = 0.0
) -> UserRegion:
    """A convex set by its projection, rows [rows, d] to rows. `inside` and `radius`: a ball that lies in it, which only
    two-point feedback needs."""
    return UserRegion(project, _numbers(inside), radius)


def _numbers(given: float | Sequence[float]) -> Numbers:
    return float(given) if isinstance(given, int | float) else tuple(float(one) for one in given)
