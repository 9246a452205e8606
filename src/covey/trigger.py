"""When a peer speaks: triggers look at how far a model is from what its neighbours think it is.

    always, never
    every(h)      in every h-th round
    norm(c)       ‖x − x̂‖² > c_t η_t²      t: the peer's number of local steps so far, η_t: its last rate

c is a number, `piecewise(start, add, every, most)` (start, plus `add` after each so many steps, at most `most`), or
`power(c0, eps)`: c₀ / η^{1−ε}. With `cap` c_t is at most 1/η_t, as SQuARM-SGD's theory wants. In the first round
everybody speaks (`first`), so that nobody is taken for the zero vector. `per` says whether the whole model or each of
its tensors is looked at, each against the same threshold.

N. Singh, D. Data, J. George, S. Diggavi, *SPARQ-SGD*, 2019, and *SQuARM-SGD*, 2020.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from covey.errors import BadInput

Schedule = Callable[[Tensor, Tensor], Tensor]  # (t, η) -> c, a column each


@dataclass(frozen=True)
class Trigger(ABC):
    """Frozen configuration."""

    per: Literal["model", "tensor"] = "model"

    @abstractmethod
    def __call__(self, gap: Tensor, round: int, t: Tensor, lr: Tensor) -> Tensor:
        """Who speaks: bool [rows, tensors], from ‖x − x̂‖² of each tensor (or of the model: one column)."""

    @property
    def asks(self) -> bool:
        """Whether it looks at the gap, so that receivers must be told, by one bit, if anything is said."""
        return True


@dataclass(frozen=True)
class Always(Trigger):
    def __call__(self, gap: Tensor, round: int, t: Tensor, lr: Tensor) -> Tensor:
        return torch.ones_like(gap, dtype=torch.bool)

    @property
    def asks(self) -> bool:
        return False


@dataclass(frozen=True)
class Never(Trigger):
    def __call__(self, gap: Tensor, round: int, t: Tensor, lr: Tensor) -> Tensor:
        return torch.zeros_like(gap, dtype=torch.bool)

    @property
    def asks(self) -> bool:
        return False


@dataclass(frozen=True)
class Every(Trigger):
    """In the h-th round, the 2h-th, …: known to everybody, so no bit is spent on it."""

    h: int = 1

    def __post_init__(self) -> None:
        if self.h < 1 or self.h != int(self.h):
            raise BadInput(f"trigger.every({self.h}) is out of range; use a whole number of rounds, 1 or more.")

    def __call__(self, gap: Tensor, round: int, t: Tensor, lr: Tensor) -> Tensor:
        return torch.full_like(gap, (round + 1) % self.h == 0, dtype=torch.bool)

    @property
    def asks(self) -> bool:
        return False


@dataclass(frozen=True)
class Norm(Trigger):
    threshold: float | Schedule = 0.0
    cap: bool = False
    first: bool = True

    def __post_init__(self) -> None:
        if not callable(self.threshold) and not 0 <= self.threshold < float("inf"):
            raise BadInput(f"trigger.norm({self.threshold}) is out of range; a threshold is finite and 0 or more.")

    def __call__(self, gap: Tensor, round: int, t: Tensor, lr: Tensor) -> Tensor:
        if round == 0 and self.first:
            return torch.ones_like(gap, dtype=torch.bool)
        c = self.threshold(t, lr) if callable(self.threshold) else torch.full_like(lr, self.threshold)
        if self.cap:
            c = torch.minimum(c, 1.0 / lr)
        return gap > torch.where(lr > 0, c * lr.square(), 0.0)  # who took no step has no rate yet


@dataclass(frozen=True)
class Piecewise:
    start: float
    add: float
    every: int
    most: float = float("inf")

    def __post_init__(self) -> None:
        if not (0 <= self.start < float("inf") and 0 <= self.add < float("inf") and self.start <= self.most):
            raise BadInput(f"{self} is no schedule: start and add are finite, 0 or more; most is at least start.")
        if self.every < 1 or self.every != int(self.every):
            raise BadInput(f"{self} is no schedule: every is a whole number of steps, 1 or more.")

    def __call__(self, t: Tensor, lr: Tensor) -> Tensor:
        return (self.start + self.add * torch.div(t, self.every, rounding_mode="floor")).clamp(max=self.most)


@dataclass(frozen=True)
class Power:
    c0: float
    eps: float

    def __post_init__(self) -> None:
        if not 0 <= self.c0 < float("inf") or not 0 < self.eps < 1:
            raise BadInput(f"{self} is no schedule: c0 is finite and 0 or more, eps lies between 0 and 1.")

    def __call__(self, t: Tensor, lr: Tensor) -> Tensor:
        return self.c0 / lr.pow(1.0 - self.eps)


always, never = Always(), Never()
piecewise, power = Piecewise, Power


def every(h: int) -> Every:
    """In every h-th round."""
    return Every(h=h)


def norm(threshold: float | Schedule, *, cap: bool = False, first: bool = True,
         per: Literal["model", "tensor"] = "model") -> Norm:  # fmt: skip
    """Where a model has moved far from what its neighbours think it is."""
    return Norm(per, threshold, cap, first)
