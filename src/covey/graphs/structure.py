"""What holds of mixing matrices, and who reaches whom in how many hops. How fast differences shrink: `spectrum`.

Edges are (receiver, sender) pairs: what the sender says reaches the receiver in one hop.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from covey.graphs.weights import SameRow, Weights

TOLERANCE = 1e-6  # of sums and symmetry: what matrices given in float32 keep
EXACT = 1500  # above this many peers n x n work takes minutes, and other ways are taken
_SWEEPS = 16


def sums_to_one(weights: Weights) -> tuple[bool, bool]:
    """Whether all rows do, and all columns."""
    if isinstance(weights, SameRow):
        rows, columns = weights.row.sum(), weights.row * weights.n
    else:
        receiver, sender, value = weights.entries()
        rows = torch.bincount(receiver, value, minlength=weights.n)
        columns = torch.bincount(sender, value, minlength=weights.n)
    return bool(((rows - 1).abs() < TOLERANCE).all()), bool(((columns - 1).abs() < TOLERANCE).all())


def symmetric(weights: Weights) -> bool:
    """Whether W is its own transpose."""
    if isinstance(weights, SameRow):
        return bool(((weights.row - weights.row[0]).abs() < TOLERANCE).all())
    receiver, sender, value = weights.entries()
    order = torch.argsort(sender * weights.n + receiver)
    same = torch.equal(sender[order], receiver) and torch.equal(receiver[order], sender)
    return same and bool(((value[order] - value).abs() < TOLERANCE).all())


def hops(n: int, receiver: Tensor, sender: Tensor, source: int = 0) -> Tensor:
    """Hops that a message of `source` needs to each peer, int64 [n]; -1 where it never arrives."""
    # In numpy: on a ring there are thousands of tiny steps, each of which costs torch ten times as much.
    order = np.argsort(sender.numpy(), kind="stable")
    hearers = receiver.numpy()[order]
    count = np.bincount(sender.numpy(), minlength=n)
    start = np.cumsum(count) - count
    distance = np.full(n, -1)
    distance[source] = 0
    front, step = np.array([source]), 0
    while len(front) > 0:
        many = count[front]
        first = np.repeat(start[front] - (np.cumsum(many) - many), many)
        heard = hearers[first + np.arange(len(first))]
        heard = heard[distance[heard] < 0]
        step += 1
        distance[heard] = step
        front = np.unique(heard)
    return torch.from_numpy(distance)


def strongly_connected(n: int, receiver: Tensor, sender: Tensor) -> bool:
    """Whether everybody's words reach everybody: peer 0 reaches all, and all reach peer 0."""
    lonely = torch.bincount(receiver, minlength=n).eq(0) | torch.bincount(sender, minlength=n).eq(0)
    if n > 1 and bool(lonely.any()):
        return False
    return not bool((hops(n, receiver, sender) < 0).any()) and not bool((hops(n, sender, receiver) < 0).any())


def union_connected(rounds: list[Weights]) -> bool:
    """Whether the graphs of these rounds, laid over each other, are strongly connected."""
    n = rounds[0].n
    if all(isinstance(weights, SameRow) for weights in rounds):
        return bool(_heard(rounds).any(0).all())
    edges = [weights.entries() for weights in rounds]
    receiver = torch.cat([edge[0] for edge in edges])
    sender = torch.cat([edge[1] for edge in edges])
    other = receiver != sender
    return strongly_connected(n, receiver[other], sender[other])


def horizon(first: Weights) -> int:
    """How many rounds of a changing graph to look at: enough for a server to have asked everybody, if that is cheap."""
    return 200 if isinstance(first, SameRow) else 40


def window(rounds: list[Weights]) -> int | None:
    """The smallest B such that any B consecutive ones of these rounds are strongly connected together."""
    if all(isinstance(weights, SameRow) for weights in rounds):
        # Whoever is heard at all is heard by everybody: one more than the longest silence of a peer.
        silence, longest = torch.zeros(rounds[0].n, dtype=torch.int64), 0
        for heard in _heard(rounds):
            silence = (silence + 1) * ~heard
            longest = max(longest, int(silence.max()))
        return longest + 1 if longest < len(rounds) else None
    for length in range(1, len(rounds) + 1):
        starts = range(len(rounds) - length + 1)
        if all(union_connected(rounds[start : start + length]) for start in starts):
            return length
    return None


def diameter(weights: Weights, lattice: tuple[int, ...] | None = None) -> tuple[int | None, bool]:
    """The largest number of hops between two peers, None if some pair cannot speak; and whether that is exact.

    Above 1500 peers it is a bound from below, unless the peers of a `lattice` all see the same.
    """
    n = weights.n
    if not union_connected([weights]):
        return None, True
    if n == 1 or isinstance(weights, SameRow):
        return min(n - 1, 1), True
    receiver, sender, _ = weights.entries()
    if lattice is not None:
        return int(hops(n, receiver, sender).max()), True
    if n <= EXACT:
        return _diameter_by_doubling(n, receiver, sender), True
    return _diameter_by_sweeps(n, receiver, sender), False


def _heard(rounds: list[Weights]) -> Tensor:
    return torch.stack([weights.row != 0 for weights in rounds if isinstance(weights, SameRow)])


def _diameter_by_doubling(n: int, receiver: Tensor, sender: Tensor) -> int:
    # (I + A)^h is positive everywhere from h = diameter on: square until it is, then search h bit by bit.
    step = torch.eye(n)
    step[receiver, sender] = 1.0
    powers = [step]
    while not bool((powers[-1] > 0).all()):
        powers.append((powers[-1] @ powers[-1]).clamp_(max=1.0))
    reach, hops_left = torch.eye(n), 0
    for exponent in reversed(range(len(powers))):
        further = (reach @ powers[exponent]).clamp_(max=1.0)
        if not bool((further > 0).all()):
            reach, hops_left = further, hops_left + 2**exponent
    return hops_left + 1


def _diameter_by_sweeps(n: int, receiver: Tensor, sender: Tensor) -> int:
    # From the peer that is farthest to the one farthest from it, to and fro: exact on trees and grids.
    source, largest = 0, 0
    for _ in range(_SWEEPS):
        distance = hops(n, receiver, sender, source)
        source, largest = int(distance.argmax()), max(largest, int(distance.max()))
        receiver, sender = sender, receiver
    return largest
