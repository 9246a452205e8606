"""Peers that come and go: a graph of which, in every round, only some are there.

Who is absent trains nothing, says nothing and hears nothing; when it is back it goes on with what it had. An edge with
an absent end is not used, and its weight goes to one of its ends, so that what the graph declares holds without it:

    rows sum to one (pulled)        to the receiver    it keeps its own in the place of what it does not hear
    columns sum to one (pushed)     to the sender      it keeps the share that it cannot hand over: mass stays
    both, symmetric                 to both            each end keeps the weight that it gave the other
    both, directed (exponential)    to the sender      rows sum to one no longer: for push-sum, whose mass undoes that
    a server                        –                  it samples among those who are there, as many as there are

Where nobody is there, nothing changes. The rows of a server's absent peers hold the server's model, as those of peers
that were not sampled do; what is their own (heads, counters) stays as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from covey import per_peer
from covey.errors import BadInput
from covey.graphs.graph import Graph, Round
from covey.graphs.weights import Sparse, Weights
from covey.per_peer import Numbers
from covey.randomness import key, uniform

Who = Callable[[int, int], Tensor]  # (seed, round) -> bool [n]: who is there


def absent(graph: Graph, who: Numbers, seed: int | None = None) -> Graph:
    """`graph` with peers that are absent: each in each round with probability `who`, or by a trace.

    A trace is a table [rounds, peers] of 1 (there) and 0 (absent), and begins again where a run is longer. Without a
    seed, the run's.
    """
    if isinstance(who, int | float):
        if not 0.0 <= who < 1.0:
            raise BadInput(f"A peer is absent with a probability of at least 0 and below 1, not {who}.")
        return _with(graph, f"absent:{float(who)}", partial(_at_random, graph.n, float(who)), seed, "")
    value = per_peer.checked("The trace of who is there, with …,", who, lambda v: (v == 0) | (v == 1), "1 and 0")
    there = per_peer.table("The trace of who is there", value, graph.n) > 0
    digest = hashlib.blake2b(there.numpy().tobytes(), digest_size=8).hexdigest()
    return _with(graph, "absent:trace", partial(_by_trace, there), seed, digest)


def _with(graph: Graph, name: str, who: Who, seed: int | None, digest: str) -> Graph:
    own = graph.seed if seed is None else seed
    there = partial(who, own or 0)
    rows = graph.symmetric or graph.hub or not graph.column_stochastic
    return replace(
        graph,
        name=f"{graph.name}:{name}",
        draw=partial(_some, graph, there),
        row_stochastic=graph.row_stochastic and rows,
        column_stochastic=graph.column_stochastic and not graph.hub,
        symmetric=graph.symmetric and not graph.hub,
        fixed=False,
        lattice=None,
        seed=own,
        bind=partial(_bound, graph, name, who, seed, digest) if own is None or graph.bind is not None else None,
        among=partial(_some_among, graph, there),
        fingerprint=graph.fingerprint + digest,
    )


def _bound(graph: Graph, name: str, who: Who, own: int | None, digest: str, seed: int, sizes: Tensor) -> Graph:
    return _with(graph.bound(seed, sizes), name, who, seed if own is None else own, digest)


def _at_random(n: int, p: float, seed: int, t: int) -> Tensor:
    return uniform(key(seed, "absent", t, torch.arange(n)), 1)[:, 0] >= p


def _by_trace(there: Tensor, seed: int, t: int) -> Tensor:
    return there[t % len(there)]


def _some(graph: Graph, there: Callable[[int], Tensor], t: int) -> Round:
    return only(graph, t, there(t))


def _some_among(graph: Graph, there: Callable[[int], Tensor], t: int, others: Tensor) -> Round:
    return only(graph, t, there(t) & others)


def only(graph: Graph, t: int, there: Tensor) -> Round:
    """Round t of the graph when only these are there."""
    if graph.among is not None:
        return graph.among(t, there)
    now = graph.round(t)
    if now.hub:
        raise BadInput(f"Graph '{graph.name}' must say whom its server asks when some are absent (`Graph.among`).")
    return Round(_without_edges(now.weights, there, graph.column_stochastic), now.active & there)


def _without_edges(weights: Weights, there: Tensor, columns: bool) -> Sparse:
    """The absent keep exactly their own; the weight of a lost edge goes to its sender (`columns`) or receiver."""
    receiver, sender, value = weights.entries()
    whole = there[receiver] & there[sender]
    owner = sender if columns else receiver
    back = ~whole & there[owner]
    gone = (~there).nonzero()[:, 0]
    return Sparse(
        weights.n,
        torch.cat([receiver[whole], owner[back], gone]),
        torch.cat([sender[whole], owner[back], gone]),
        torch.cat([value[whole], value[back], torch.ones(len(gone), dtype=torch.float64)]),
    )
