"""What a peer does on its own data: the configuration of one local phase, and one step of it.

g  = ∇F(x; ξ)                        SAM: ∇F(x + ρ g/‖g‖; ξ), same batch, norm per peer over the trained columns
g  = g · min(1, clip/‖g‖)            per peer
g  = g + wd·x + plus + λ(x − centre)
v  = β v + g                         rescale: v = β (η_before / η) v + g, so that η v follows a steady recursion
x  = x − η v                         Nesterov: x − η (g + β v)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.errors import BadInput


@dataclass(frozen=True)
class SGD:
    """One local phase of stochastic gradient descent: `steps` mini-batches, or `epochs` over the peer's own data.

    lr: the rate, or a function of the peer's own global step (an int). A round t multiplies it by decay^t.
    batch: samples per mini-batch, None for all the peer has.
    clip: the largest norm of a peer's gradient; sam: the radius ρ, 0 for plain SGD.
    Momentum starts at zero in every round unless the method keeps it (`memory` of `Peers.train`).
    rescale: momentum that was gathered at another rate counts by what it moved; `memory` then holds η v.
    """

    lr: float | Callable[[int], float]
    steps: int | None = None
    epochs: int | None = None
    batch: int | None = None
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    clip: float | None = None
    sam: float = 0.0
    decay: float = 1.0
    rescale: bool = False

    def __post_init__(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise BadInput(f"SGD takes steps or epochs, not both (steps={self.steps}, epochs={self.epochs}).")
        if self.steps is None and self.epochs is None:
            object.__setattr__(self, "steps", 1)
        problems = {
            "lr": not callable(self.lr) and not 0 <= self.lr < float("inf"),
            "steps": self.steps is not None and self.steps < 0,
            "epochs": self.epochs is not None and self.epochs < 0,
            "batch": self.batch is not None and self.batch < 1,
            "momentum": not 0 <= self.momentum < 1,
            "weight_decay": self.weight_decay < 0,
            "clip": self.clip is not None and self.clip <= 0,
            "sam": self.sam < 0,
            "decay": not 0 < self.decay <= 1,
        }
        for name, wrong in problems.items():
            if wrong:
                raise BadInput(f"SGD({name}={getattr(self, name)}) is out of range; {_RANGES[name]}.")
        if self.nesterov and not self.momentum:
            raise BadInput("SGD(nesterov=True) needs momentum above 0.")

    @property
    def work(self) -> int:
        """Steps or epochs of a round, whichever the phase counts."""
        return self.epochs if self.epochs is not None else self.steps or 0

    def rate(self, round: int, step: int = 0) -> float:
        """η in this round at a peer's global step."""
        return (self.lr(step) if callable(self.lr) else self.lr) * self.decay**round

    def rates(self, round: int, taken: Tensor | int) -> float | Tensor:
        """η for peers that have taken `taken` steps: a number where it is the same for all, else a column."""
        if isinstance(taken, int) or not callable(self.lr):
            return self.rate(round, taken if isinstance(taken, int) else 0)
        steps, which = torch.unique(taken, return_inverse=True)
        rates = [self.rate(round, int(step)) for step in steps]
        return rates[0] if len(rates) == 1 else torch.tensor(rates, dtype=torch.float64)[which][:, None]

    def limit(self, gradient: Tensor) -> Tensor:
        """The gradient of each peer, clipped in place to norm `clip`."""
        if self.clip is not None:
            norm = gradient.norm(dim=1, keepdim=True)
            gradient.mul_((self.clip / (norm + 1e-6)).clamp(max=1.0))
        return gradient

    def step(self, x: Tensor, gradient: Tensor, velocity: Tensor | None, lr: float | Tensor) -> None:
        """Move the trained columns x [rows, width] in place; `gradient` is used up."""
        if self.weight_decay:
            gradient.add_(x, alpha=self.weight_decay)
        if velocity is None:
            x.sub_(gradient.mul_(lr.to(x)) if isinstance(lr, Tensor) else gradient, alpha=_one_or(lr))
            return
        if self.rescale:  # in terms of u = η v: u = β u + η g;  x = x − u, Nesterov: x − (η g + β u)
            gradient, lr = gradient.mul_(lr.to(x) if isinstance(lr, Tensor) else lr), 1.0
        velocity.mul_(self.momentum).add_(gradient)
        gradient = gradient.add_(velocity, alpha=self.momentum) if self.nesterov else velocity
        x.sub_(gradient * lr.to(x) if isinstance(lr, Tensor) else gradient, alpha=_one_or(lr))


def _one_or(lr: float | Tensor) -> float:
    """What remains to multiply by where a rate per peer has been multiplied in already."""
    return 1.0 if isinstance(lr, Tensor) else lr


_RANGES = {
    "lr": "a rate is a finite number of at least 0, such as 0.1",
    "steps": "use 0 or more steps",
    "epochs": "use 0 or more epochs",
    "batch": "use at least 1 sample, or None for all",
    "momentum": "use a value in [0, 1)",
    "weight_decay": "use 0 or more, such as 5e-4",
    "clip": "use a norm above 0, or None",
    "sam": "the radius is 0 or more",
    "decay": "use a factor in (0, 1], such as 0.99",
}
