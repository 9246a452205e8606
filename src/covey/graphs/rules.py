"""How edges become weights. Edges are (receiver, sender) pairs without repetition and without self-loops.

- `metropolis`  W_ij = 1 / (1 + max(d_i, d_j)), the rest on oneself: symmetric doubly stochastic on undirected edges
- `pull`        the receiver averages what it hears and its own: rows sum to one
- `push`        the sender splits its own among its out-neighbours and itself: columns sum to one
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.graphs.weights import Sparse

T = TypeVar("T")


def metropolis(n: int, receiver: Tensor, sender: Tensor) -> Sparse:
    degree = torch.bincount(receiver, minlength=n)
    value = 1.0 / (1 + torch.maximum(degree[receiver], degree[sender])).double()
    own = 1.0 - torch.bincount(receiver, value, minlength=n)
    return _with_own(n, receiver, sender, value, own)


def pull(n: int, receiver: Tensor, sender: Tensor) -> Sparse:
    share = 1.0 / (1 + torch.bincount(receiver, minlength=n)).double()
    return _with_own(n, receiver, sender, share[receiver], share)


def push(n: int, receiver: Tensor, sender: Tensor) -> Sparse:
    share = 1.0 / (1 + torch.bincount(sender, minlength=n)).double()
    return _with_own(n, receiver, sender, share[sender], share)


def both_ways(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Undirected edges as (receiver, sender) pairs: each in both directions."""
    return torch.cat([one, other]), torch.cat([other, one])


def chosen(weights: str, rules: dict[str, T]) -> T:
    """The rule of that name."""
    if weights not in rules:
        raise BadInput(f"weights={weights!r} is not known here; choose {_listed(rules)}.")
    return rules[weights]


UNDIRECTED: dict[str, Callable[[int, Tensor, Tensor], Sparse]] = {
    "metropolis": metropolis,
    "uniform": pull,  # 1 / (degree + 1), as papers ran it: rows sum to one, columns do not (D-18, D-32)
    "row": pull,
}


def _with_own(n: int, receiver: Tensor, sender: Tensor, value: Tensor, own: Tensor) -> Sparse:
    peers = torch.arange(n)
    return Sparse(n, torch.cat([receiver, peers]), torch.cat([sender, peers]), torch.cat([value, own]))


def _listed(names: Iterable[str]) -> str:
    *most, last = [repr(name) for name in names]
    return f"{', '.join(most)} or {last}" if most else last
