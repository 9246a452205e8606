"""Graphs that change from round to round: directed, undirected, and a server that asks some of the peers.

What round t looks like depends on (graph, seed, t) and on nothing else; the draws are keyed by peer where a peer draws.
Without a seed a graph takes the run's (`Graph.bound`); used outside of a run it draws as with seed 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count as counted

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.graphs import rules
from covey.graphs.builders import at_least_one, doublings, with_seed
from covey.graphs.graph import Graph, Round, always, everybody
from covey.graphs.structure import union_connected
from covey.graphs.weights import SameRow, Sparse, unchanged
from covey.randomness import bits, choose, key, permutations

_TRIES = 64  # to repair a pair before all pairs are drawn anew; to find a connected round


def one_peer_exponential(n: int) -> Graph:
    """in turn each hears the one 1, 2, 4, ... further, weights 1/2; directed, time-varying"""
    at_least_one(n)
    draw = partial(_one_further, n)
    return Graph(n, "one_peer_exponential", draw, True, column_stochastic=True, symmetric=n <= 2, lattice=(n,))


def random_directed(n: int, k: int, seed: int | None = None, weights: str = "push") -> Graph:
    """k random neighbours each, anew in every round; `push` (columns sum to one) or `pull` (rows do)

    push: the sender draws k out-neighbours and splits its own among them and itself. pull: the receiver draws k
    in-neighbours and averages; then push-sum does nothing (D-01).
    """
    _few_enough(n, k)
    pull = rules.chosen(weights, {"push": False, "pull": True})
    return Graph(
        n,
        f"random_directed:{k}" + (":pull" if pull else ""),
        partial(_directed, n, k, seed or 0, pull),
        row_stochastic=pull or k == n - 1,
        column_stochastic=not pull or k == n - 1,
        symmetric=k == n - 1,
        pull=pull,
        seed=seed,
        bind=with_seed(seed, partial(random_directed, n, k, weights=weights)),
    )


def epidemic(n: int, k: int | None = None, seed: int | None = None) -> Graph:
    """each sends to k random others, anew in every round, and averages what it happens to hear; k is ⌈log₂ n⌉ or given

    The sender draws and the receiver averages uniformly, so rows sum to one, and columns do in the mean over rounds
    only: EL-Local of epidemic learning. EL-Oracle, where everybody hears k as well, is `random_undirected`.
    """
    k = min(max(1, math.ceil(math.log2(max(n, 2)))), max(n - 1, 1)) if k is None else k
    _few_enough(n, k)
    return Graph(
        n,
        f"epidemic:{k}",
        partial(_spread, n, k, seed or 0),
        row_stochastic=True,
        column_stochastic=k == n - 1,
        symmetric=k == n - 1,
        seed=seed,
        bind=with_seed(seed, partial(epidemic, n, k)),
    )


def random_undirected(n: int, k: int, seed: int | None = None) -> Graph:
    """k random neighbours each, both ways, anew in every round: a random k-regular graph, weights 1/(k + 1)

    So it costs what `random_directed(n, k)` costs. If n k is odd one peer has one neighbour more or less; the weights
    are Metropolis weights, symmetric doubly stochastic in any case.
    """
    _few_enough(n, k)
    return Graph(
        n,
        f"random_undirected:{k}",
        partial(_undirected, n, k, seed or 0),
        row_stochastic=True,
        column_stochastic=True,
        symmetric=True,
        seed=seed,
        bind=with_seed(seed, partial(random_undirected, n, k)),
    )


def fixed(graph: Graph) -> Graph:
    """The first connected round of a changing graph, in every round: public copies need a graph that stays."""
    if graph.fixed:
        return graph
    bind = None if graph.bind is None else partial(_bind_and_fix, graph.bind)
    return replace(graph, name=f"{graph.name}:fixed", draw=partial(_first_of, graph.draw), fixed=True, bind=bind)


def _bind_and_fix(bind: Callable[[int, Tensor], Graph], seed: int, sizes: Tensor) -> Graph:
    return fixed(bind(seed, sizes))


def _first_of(draw: Callable[[int], Round], t: int) -> Round:
    for now in map(draw, range(_TRIES)):
        if union_connected([now.weights]):
            return now
    raise BadInput(f"None of {_TRIES} rounds of the graph is connected by itself; give each peer more neighbours.")


def server(n: int, sample: float = 1.0, weights: str = "equal", seed: int | None = None) -> Graph:
    """a server averages those it samples (a share like 0.1, or a count); weights `equal` or by `size` of their data

    The weights write the new model into every row; only the sampled are active and pay. A share is rounded down, one
    peer at least. `sample=1` is one peer, `sample=1.0` all.
    """
    at_least_one(n)
    by_size = rules.chosen(weights, {"equal": False, "size": True})
    return _server(n, sample, by_size, seed, None)


def _server(n: int, sample: float, by_size: bool, seed: int | None, sizes: Tensor | None) -> Graph:
    if isinstance(sample, int):
        several = sample
        if not 1 <= several <= n:
            raise BadInput(f"A server can ask 1 to {n} of {n} peers, not {sample}; a share is written 0.1 or 1.0.")
    else:
        if not 0.0 < sample <= 1.0:
            raise BadInput(f"A server asks a share above 0 and at most 1.0 of the peers, not {sample}.")
        several = max(1, math.floor(sample * n + 1e-9))  # 0.29 * 100 is 28.999...
    if by_size and sizes is None:
        draw = _sizes_missing
    elif several == n:
        draw = partial(always, _ask(n, torch.arange(n), sizes))
    else:
        draw = partial(_sampled, n, several, seed or 0, sizes)
    open_end = seed is None or (by_size and sizes is None)
    among = None if by_size and sizes is None else partial(_sampled_among, n, several, seed or 0, sizes)
    return Graph(
        n,
        f"server:{sample}" + (":size" if by_size else ""),
        draw,
        row_stochastic=True,
        column_stochastic=several == n and not by_size,
        symmetric=several == n and not by_size,
        fixed=several == n,
        hub=True,
        seed=seed,
        bind=partial(_bound_server, n, sample, by_size, seed) if open_end else None,
        among=among,
    )


def _bound_server(n: int, sample: float, by_size: bool, own: int | None, seed: int, sizes: Tensor) -> Graph:
    if by_size and (sizes.shape != (n,) or bool((sizes < 0).any())):
        raise BadInput(f"server(weights='size') needs {n} numbers of samples, one per peer and none negative.")
    return _server(n, sample, by_size, seed if own is None else own, sizes if by_size else None)


def _sizes_missing(t: int) -> Round:
    raise BadInput(
        "server(weights='size') weighs peers by their numbers of samples, which a run supplies; "
        "outside of a run call graph.bound(seed, sizes)."
    )


def _sampled(n: int, several: int, seed: int, sizes: Tensor | None, t: int) -> Round:
    return _sampled_among(n, several, seed, sizes, t, torch.ones(n, dtype=torch.bool))


def _sampled_among(n: int, several: int, seed: int, sizes: Tensor | None, t: int, there: Tensor) -> Round:
    lots = bits(key(seed, "graph", t, torch.arange(n)), 1).squeeze(1)
    order = lots.argsort(stable=True)
    return _ask(n, order[there[order]][:several], sizes)


def _ask(n: int, peers: Tensor, sizes: Tensor | None) -> Round:
    if len(peers) == 0:  # nobody is there
        return Round(unchanged(n), torch.zeros(n, dtype=torch.bool), hub=True)
    share = torch.ones(n, dtype=torch.float64) if sizes is None else sizes.cpu().double()
    if float(share[peers].sum()) == 0.0:  # nobody asked has data
        share = torch.ones(n, dtype=torch.float64)
    row = torch.zeros(n, dtype=torch.float64)
    row[peers] = share[peers] / share[peers].sum()
    active = torch.zeros(n, dtype=torch.bool)
    active[peers] = True
    return Round(SameRow(row), active, hub=True)


def _one_further(n: int, t: int) -> Round:
    peers = torch.arange(n)
    steps = doublings(n)
    further = (peers + (steps[t % len(steps)] if steps else 0)) % n
    half = torch.full((2 * n,), 0.5, dtype=torch.float64)
    return everybody(Sparse(n, peers.repeat(2), torch.cat([peers, further]), half))


def _few_enough(n: int, k: int) -> None:
    at_least_one(n)
    if not 1 <= k < n:
        raise BadInput(f"Each of {n} peers can draw 1 to {n - 1} others, not k={k}; full({n}) joins all.")


def _directed(n: int, k: int, seed: int, pull: bool, t: int) -> Round:
    drawer, others = _drawn(n, k, seed, t)
    return everybody(rules.pull(n, drawer, others) if pull else rules.push(n, others, drawer))


def _spread(n: int, k: int, seed: int, t: int) -> Round:
    drawer, others = _drawn(n, k, seed, t)
    return everybody(rules.pull(n, others, drawer))


def _drawn(n: int, k: int, seed: int, t: int) -> tuple[Tensor, Tensor]:
    """Who draws whom: each k of the n - 1 others, oneself left out."""
    peers = torch.arange(n)
    drawn = choose(key(seed, "graph", t, peers), n - 1, k)
    return peers.repeat_interleave(k), (drawn + (drawn >= peers[:, None])).flatten()


def _undirected(n: int, k: int, seed: int, t: int) -> Round:
    sparser = min(k, n - 1 - k)  # a dense regular graph is what a sparse one leaves out
    attempts = (_regular(n, sparser, key(seed, "graph", "regular", t, attempt)) for attempt in counted())
    pairs = next(found for found in attempts if found is not None)
    one, other = pairs[:, 0], pairs[:, 1]
    if sparser != k:
        missing = torch.ones(n, n, dtype=torch.bool).triu(1)
        missing[torch.minimum(one, other), torch.maximum(one, other)] = False
        one, other = missing.nonzero().unbind(1)
    return everybody(rules.metropolis(n, *rules.both_ways(one, other)))


def _regular(n: int, k: int, keys: Tensor) -> Tensor | None:
    """Pairs of a random k-regular graph: k ends per peer paired at random, bad pairs repaired by switching ends.

    A pair (a, b) that is a loop or a repetition and a good one (c, d) become (a, d) and (c, b) if both are new. None if
    some pair resists.
    """
    ends = permutations(keys[None], torch.tensor([n * k])) % n
    pairs = ends[: n * k // 2 * 2].reshape(-1, 2)
    if len(pairs) == 0:
        return pairs
    names = pairs.min(1).values * n + pairs.max(1).values
    order = names.argsort(stable=True)
    bad = pairs[:, 0] == pairs[:, 1]
    bad[order[1:]] |= names[order[1:]] == names[order[:-1]]
    known = set(names[~bad].tolist())
    resisting = dict.fromkeys(bad.nonzero().squeeze(1).tolist())
    lots = bits(key(keys, "switch"), _TRIES * len(resisting)).reshape(-1, _TRIES)
    listed: list[list[int]] = pairs.tolist()
    for place, lot in zip(list(resisting), lots.tolist(), strict=True):
        if not any(_switch(listed, known, resisting, place, one, n) for one in lot):
            return None
    return torch.tensor(listed)


def _switch(pairs: list[list[int]], known: set[int], resisting: dict[int, None], place: int, lot: int, n: int) -> bool:
    partner = (lot >> 1) % len(pairs)
    if partner in resisting:
        return False
    (a, b), (c, d) = pairs[place], pairs[partner]
    old = min(c, d) * n + max(c, d)
    if lot & 1:
        c, d = d, c
    first, second = min(a, d) * n + max(a, d), min(c, b) * n + max(c, b)
    if a == d or c == b or first == second or first in known or second in known:
        return False
    known.remove(old)
    known.update((first, second))
    pairs[place], pairs[partner] = [a, d], [c, b]
    del resisting[place]
    return True
