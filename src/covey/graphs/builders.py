"""Graphs that stay the same in every round."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.graphs import rules
from covey.graphs.graph import Graph, Round, always, everybody
from covey.graphs.structure import strongly_connected
from covey.graphs.weights import SameRow, Sparse, Weights
from covey.randomness import key, uniform

_DRAWS = 100  # of a random graph, in search of a connected one
_BLOCK = 2**22  # random numbers at a time


def full(n: int) -> Graph:
    """everybody hears everybody: one round gives consensus"""
    at_least_one(n)
    return _symmetric(n, "full", SameRow(torch.full((n,), 1.0 / n, dtype=torch.float64)), (n,))


def ring(n: int) -> Graph:
    """each hears both neighbours on a circle, weights 1/3

    Two peers have one neighbour each, so weights 1/2.
    """
    at_least_one(n)
    offsets = {1: (0,), 2: (0, 1)}.get(n, (-1, 0, 1))
    return _symmetric(n, "ring", _circulant(n, offsets), (n,))


def torus(a: int, b: int) -> Graph:
    """each hears four neighbours on an a x b grid whose ends meet, weights 1/5

    Both sides are at least 3: with 2, left and right neighbour are the same peer, and no weights are agreed upon.
    """
    if min(a, b) < 3:
        raise BadInput(f"A torus needs two sides of at least 3, not {a} x {b}; ring or grid take any number of peers.")
    n = a * b
    row, column = torch.arange(n) // b, torch.arange(n) % b
    senders = [torch.arange(n)]
    for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        senders.append((row + down) % a * b + (column + right) % b)
    fifth = torch.full((5 * n,), 0.2, dtype=torch.float64)
    return _symmetric(n, f"torus:{a}x{b}", Sparse(n, torch.arange(n).repeat(5), torch.cat(senders), fifth), (a, b))


def grid(a: int, b: int, weights: str = "metropolis") -> Graph:
    """each hears its neighbours on an a x b grid with edges; Metropolis weights, or `row`: 1/(degree + 1)"""
    if min(a, b) < 1:
        raise BadInput(f"A grid needs two sides of at least 1, not {a} x {b}.")
    rule = rules.chosen(weights, rules.UNDIRECTED)
    place = torch.arange(a * b).reshape(a, b)
    one = torch.cat([place[:-1].flatten(), place[:, :-1].flatten()])
    other = torch.cat([place[1:].flatten(), place[:, 1:].flatten()])
    mixing = rule(a * b, *rules.both_ways(one, other))
    name = f"grid:{a}x{b}"
    if weights == "metropolis":
        return _symmetric(a * b, name, mixing)
    now = partial(always, everybody(mixing))
    return Graph(a * b, f"{name}:{weights}", now, True, column_stochastic=False, symmetric=False, fixed=True)


def exponential(n: int) -> Graph:
    """each hears those 1, 2, 4, 8, ... further, equal weights; directed"""
    at_least_one(n)
    weights = _circulant(n, (0, *doublings(n)))
    now = partial(always, everybody(weights))
    return Graph(n, "exponential", now, True, column_stochastic=True, symmetric=n <= 3, fixed=True, lattice=(n,))


def isolated(n: int) -> Graph:
    """nobody hears anybody"""
    at_least_one(n)
    return _symmetric(n, "isolated", _circulant(n, (0,)), (n,))


def centre(n: int) -> Graph:
    """peer 0 alone takes part, and everybody takes over what it has: for one model that is trained in one place"""
    at_least_one(n)
    first = torch.arange(n) == 0
    draw = partial(always, Round(SameRow(first.double()), first))
    return Graph(n, "centre", draw, True, column_stochastic=n == 1, symmetric=n == 1, fixed=True)


def erdos_renyi(n: int, p: float, seed: int | None = None, weights: str = "metropolis") -> Graph:
    """each pair is joined with probability p, drawn until connected, then fixed; Metropolis weights or `row`

    Without a seed, the run's.
    """
    at_least_one(n)
    if not 0.0 < p <= 1.0:
        raise BadInput(f"The probability of an edge is above 0 and at most 1, not p={p}.")
    rule = rules.chosen(weights, rules.UNDIRECTED)
    metropolis = weights == "metropolis"
    graph = Graph(
        n,
        f"erdos_renyi:{float(p)}" + ("" if metropolis else f":{weights}"),
        partial(_erdos_renyi, n, p, seed or 0, rule),
        row_stochastic=True,
        column_stochastic=metropolis,
        symmetric=metropolis,
        fixed=True,
        seed=seed,
        bind=with_seed(seed, partial(erdos_renyi, n, p, weights=weights)),
    )
    if seed is not None:
        graph.round(0)  # so that a graph that cannot be drawn is refused here
    return graph


def random_doubly_stochastic(n: int, seed: int | None = None) -> Graph:
    """everybody hears everybody with random weights, symmetric doubly stochastic, drawn once

    Made from a symmetric matrix of uniform numbers by Sinkhorn's scaling D A D. It has n x n weights: for some thousand
    peers at most. Without a seed, the run's.
    """
    at_least_one(n)
    return Graph(
        n,
        "random_doubly_stochastic",
        partial(_sinkhorn, n, seed or 0),
        row_stochastic=True,
        column_stochastic=True,
        symmetric=True,
        fixed=True,
        seed=seed,
        bind=with_seed(seed, partial(random_doubly_stochastic, n)),
    )


def at_least_one(n: int) -> None:
    """Refuse an empty graph before its numbers are made."""
    if n < 1:
        raise BadInput(f"A graph needs at least one peer, not n={n}.")


def doublings(n: int) -> list[int]:
    """1, 2, 4, ... below n."""
    return [2**step for step in range((n - 1).bit_length())]


def with_seed(seed: int | None, build: Callable[..., Graph]) -> Callable[[int, Tensor], Graph] | None:
    """The `bind` of a graph that lacks nothing but, perhaps, a seed."""
    return partial(_seeded, build) if seed is None else None


def _seeded(build: Callable[..., Graph], seed: int, sizes: Tensor) -> Graph:
    return build(seed=seed)


def _symmetric(n: int, name: str, weights: Weights, lattice: tuple[int, ...] | None = None) -> Graph:
    now = partial(always, everybody(weights))
    return Graph(n, name, now, True, column_stochastic=True, symmetric=True, fixed=True, lattice=lattice)


def _circulant(n: int, offsets: tuple[int, ...]) -> Sparse:
    receiver = torch.arange(n).repeat(len(offsets))
    sender = (receiver + torch.tensor(offsets).repeat_interleave(n)) % n
    return Sparse(n, receiver, sender, torch.full((len(receiver),), 1.0 / len(offsets), dtype=torch.float64))


def _erdos_renyi(n: int, p: float, seed: int, rule: Callable[[int, Tensor, Tensor], Sparse], t: int) -> Round:
    for attempt in range(_DRAWS):
        one, other = _pairs(n, p, key(seed, "graph", "erdos_renyi", attempt, torch.arange(n)))
        receiver, sender = rules.both_ways(one, other)
        if strongly_connected(n, receiver, sender):
            return everybody(rule(n, receiver, sender))
    usual = math.log(n) / n
    raise BadInput(
        f"None of {_DRAWS} random graphs of {n} peers with p={p} was connected; "
        f"above p = ln(n)/n = {usual:.3g} most are: take a larger p or another seed."
    )


def _pairs(n: int, p: float, keys: Tensor) -> tuple[Tensor, Tensor]:
    found: list[Tensor] = []
    for rows in torch.arange(n).split(max(1, _BLOCK // n)):
        joined = (uniform(keys[rows], n) < p) & (torch.arange(n) > rows[:, None])
        pair = joined.nonzero()
        found.append(pair + torch.tensor([int(rows[0]), 0]))
    pairs = torch.cat(found)
    return pairs[:, 0], pairs[:, 1]


def _sinkhorn(n: int, seed: int, t: int) -> Round:
    upper = uniform(key(seed, "graph", "doubly stochastic", torch.arange(n)), n).triu()
    matrix = upper + upper.triu(1).T + 1e-3  # positive, so that the scaling exists
    scale = matrix.sum(1).rsqrt()
    for _ in range(1000):
        rows = scale * (matrix @ scale)
        if float((rows - 1.0).abs().max()) < 1e-14:
            break
        scale = scale / rows.sqrt()
    matrix = matrix * (scale[:, None] * scale[None, :])
    matrix.diagonal().add_(1.0 - matrix.sum(1))  # the last rounding error; keeps the symmetry
    receiver, sender = matrix.nonzero().unbind(1)
    return everybody(Sparse(n, receiver, sender, matrix[receiver, sender]))
