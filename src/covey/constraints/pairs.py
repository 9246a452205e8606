"""Constraints on pairs of neighbours, g_ij(x_i, x_j) ≤ 0 on every edge.

    proximity(c)   ‖x_i − x_j‖² ≤ c_ij           c: a number, or a symmetric matrix
    pairwise(g)    g(x_a, x_b) ≤ 0               g: any torch function of two vectors, differentiated by autograd

Both ends of an edge evaluate it apart and must get the same bits, or their multipliers would part. So g takes its
operands in the order of the peers' ids, a < b, at both ends. (It then need not be symmetric.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.func import vmap

from covey.errors import BadInput


@dataclass(frozen=True)
class Constraint(ABC):
    """Frozen configuration."""

    @abstractmethod
    def __call__(self, x: Tensor, others: Tensor, ids: Tensor, neighbours: Tensor) -> tuple[Tensor, Tensor]:
        """g_ij [rows, slots] and ∇_{x_i} g_ij [rows, slots, d], both 0 in empty slots.

        x           [rows, d]         each peer's own point
        others      [rows, slots, d]  its neighbours'
        ids         int64 [rows]      who they are; neighbours: int64 [rows, slots], −1 where a slot is empty
        """

    def require_fits(self, n: int) -> None:
        """Refuse what does not fit n peers."""


@dataclass(frozen=True)
class Proximity(Constraint):
    """See `proximity`."""

    c: float | tuple[tuple[float, ...], ...]

    def __call__(self, x: Tensor, others: Tensor, ids: Tensor, neighbours: Tensor) -> tuple[Tensor, Tensor]:
        there = neighbours >= 0
        gap = (x[:, None] - others).mul_(there[..., None])
        bound = self._bounds[ids[:, None], neighbours.clamp(min=0)].to(x) if isinstance(self.c, tuple) else self.c
        return (gap.square().sum(-1) - bound).mul_(there), gap.mul_(2.0)  # (−a)² = a²: the same at both ends

    @cached_property
    def _bounds(self) -> Tensor:
        return torch.tensor(self.c, dtype=torch.float64)

    def require_fits(self, n: int) -> None:
        if isinstance(self.c, tuple) and len(self.c) != n:
            raise BadInput(f"proximity(c) has bounds for {len(self.c)} peers, but there are {n}.")


def proximity(c: float | Tensor | Sequence[Sequence[float]]) -> Proximity:
    """‖x_i − x_j‖² ≤ c_ij; only the entries of c that belong to edges are read, and inf bounds nothing."""
    bounds = torch.as_tensor(c, dtype=torch.float64)
    if bounds.dim() not in (0, 2) or (bounds.dim() == 2 and not torch.equal(bounds, bounds.T)):
        raise BadInput(
            f"proximity(c) takes a number or a symmetric matrix, not numbers of shape {tuple(bounds.shape)}."
        )
    if not bool((bounds >= 0).all()):
        place = (~(bounds >= 0)).nonzero()[0].tolist()
        which = f"c[{place[0]}][{place[1]}]={bounds[tuple(place)]:g}" if place else f"c={float(bounds):g}"
        raise BadInput(f"proximity({which}) cannot be met: no squared distance is below 0; use 0 or more.")
    return Proximity(float(bounds) if bounds.dim() == 0 else tuple(tuple(row) for row in bounds.tolist()))


@dataclass(frozen=True)
class Pairwise(Constraint):
    """See `pairwise`."""

    g: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, x: Tensor, others: Tensor, ids: Tensor, neighbours: Tensor) -> tuple[Tensor, Tensor]:
        row, slot = (neighbours >= 0).nonzero(as_tuple=True)
        own, other = x[row], others[row, slot]
        first = (ids[row] < neighbours[row, slot]).to(x.device)[:, None]
        with torch.enable_grad():
            a = torch.where(first, own, other).requires_grad_()
            b = torch.where(first, other, own).requires_grad_()
            value = self._of_edges(a, b)
            by_a, by_b = torch.autograd.grad(value.sum(), (a, b), allow_unused=True, materialize_grads=True)
        g, slope = x.new_zeros(neighbours.shape), torch.zeros_like(others)
        g[row, slot] = value.detach()
        slope[row, slot] = torch.where(first, by_a, by_b)
        return g, slope

    def _of_edges(self, a: Tensor, b: Tensor) -> Tensor:
        value = vmap(self.g)(a, b)
        if value.shape != (len(a),) or not value.requires_grad:
            raise BadInput(
                "pairwise(g) needs g(x_i, x_j) to return one number that depends on them; here "
                f"it gives shape {tuple(value.shape[1:])}{'' if value.requires_grad else ', without a gradient'}."
            )
        return value


def pairwise(g: Callable[[Tensor, Tensor], Tensor]) -> Pairwise:
    """g(x_a, x_b) ≤ 0 on every edge; both are vectors of all that is shared, a is the peer with the lower id."""
    if not callable(g):
        raise BadInput(f"pairwise(g) takes a function of two vectors, not {g!r:.40}.")
    return Pairwise(g)
