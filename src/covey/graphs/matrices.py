"""Your own graph: from its mixing matrix, or from networkx."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.graphs import rules, structure
from covey.graphs.graph import Graph, always, everybody
from covey.graphs.weights import Sparse

_DIRECTED: dict[str, Callable[[int, Tensor, Tensor], Sparse]] = {
    "push": rules.push,
    "pull": rules.pull,
    "uniform": rules.pull,
    "row": rules.pull,
}


class Networkx(Protocol):
    """What is asked of a networkx graph; so networkx itself is never imported."""

    @property
    def nodes(self) -> Any: ...
    @property
    def edges(self) -> Any: ...
    def is_directed(self) -> bool: ...


def from_matrix(W: object, name: str = "matrix") -> Graph:
    """A graph with these weights in every round: a row receives.

    Rows or columns (or both) sum to one, to 1e-6; what holds is found out and declared.
    """
    matrix = _numbers(W)
    return _stated(Sparse(len(matrix), *_entries(matrix)), name, pull=False)


def from_networkx(g: Networkx, weights: str | None = None, name: str = "networkx") -> Graph:
    """The edges of a networkx graph; u -> v in a directed one means that u sends to v.

    weights: undirected `metropolis` (default), or `uniform`: 1/(degree + 1); directed `push` (default: the sender
    splits, columns sum to one) or `pull` (the receiver averages, rows do); `given`: the edges' attribute `weight`, with
    self-loops as one's own weight or, where there are none at all, what rows lack to one.
    Node i is peer i if the nodes are 0..n-1; else peers are in the order of the nodes.
    """
    nodes = list(g.nodes)
    n = len(nodes)
    if n < 1:
        raise BadInput("A graph needs at least one peer; this networkx graph has no nodes.")
    if set(nodes) == set(range(n)):
        nodes.sort()
    peer = {node: i for i, node in enumerate(nodes)}
    directed = g.is_directed()
    if weights == "given":
        return _given(
            n, ((peer[u], peer[v], _weight(u, v, about)) for u, v, about in g.edges(data=True)), directed, name
        )
    known = _DIRECTED if directed else rules.UNDIRECTED
    rule = rules.chosen(weights or next(iter(known)), known | {"given": rules.pull})
    edges = {(peer[v], peer[u]) for u, v in g.edges() if u != v}
    if not directed:
        edges |= {(u, v) for v, u in edges}
    ends = torch.tensor(sorted(edges), dtype=torch.int64).reshape(-1, 2)
    return _stated(rule(n, ends[:, 0], ends[:, 1]), name, pull=weights == "pull")


def _numbers(W: object) -> Tensor:
    try:
        matrix = W.to_dense() if isinstance(W, Tensor) else torch.as_tensor(W, dtype=torch.float64)
        matrix = matrix.detach().to("cpu", torch.float64, copy=True)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise BadInput(f"A mixing matrix is a square array of numbers; this is none: {problem}.") from problem
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
        raise BadInput(f"A mixing matrix is square, a row and a column per peer, not of shape {tuple(matrix.shape)}.")
    return matrix


def _entries(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    receiver, sender = matrix.nonzero().unbind(1)
    return receiver, sender, matrix[receiver, sender]


def _stated(weights: Sparse, name: str, pull: bool) -> Graph:
    receiver, sender, value = weights.entries()
    if not bool(value.isfinite().all()):
        raise BadInput("Every weight of a mixing matrix is a finite number; some of these are not.")
    if bool((value < 0).any()):
        worst = int(value.argmin())
        where = f"W[{int(receiver[worst])}, {int(sender[worst])}] = {float(value[worst]):g}"
        raise BadInput(f"The weights of a mixing matrix are not negative, but {where}.")
    row, column = structure.sums_to_one(weights)
    if not (row or column):
        sums = torch.bincount(receiver, value, minlength=weights.n)
        raise BadInput(
            f"Neither the rows nor the columns of this mixing matrix sum to one (its rows sum to {float(sums.min()):g} "
            f"to {float(sums.max()):g}); divide each row, or each column, by its sum."
        )
    return Graph(
        weights.n,
        name,
        partial(always, everybody(weights)),
        row_stochastic=row,
        column_stochastic=column,
        symmetric=structure.symmetric(weights),
        fixed=True,
        pull=pull,
        fingerprint=_fingerprint(weights.entries()),
    )


def _fingerprint(numbers: Iterable[Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in numbers:
        digest.update(part.numpy().tobytes())
    return digest.hexdigest()


def _weight(u: object, v: object, about: dict[str, Any]) -> float:
    if "weight" not in about:
        raise BadInput(f"weights='given' needs the attribute 'weight' on every edge; {u!r} to {v!r} has none.")
    return float(about["weight"])


def _given(n: int, edges: Iterable[tuple[int, int, float]], directed: bool, name: str) -> Graph:
    entries = [(v, u, w) for u, v, w in edges]
    if not directed:
        entries += [(u, v, w) for v, u, w in entries if u != v]
    receiver = torch.tensor([v for v, _, _ in entries], dtype=torch.int64)
    sender = torch.tensor([u for _, u, _ in entries], dtype=torch.int64)
    value = torch.tensor([w for _, _, w in entries], dtype=torch.float64)
    if not bool((receiver == sender).any()):
        own = 1.0 - torch.bincount(receiver, value, minlength=n)
        peers = torch.arange(n)
        receiver, sender, value = torch.cat([receiver, peers]), torch.cat([sender, peers]), torch.cat([value, own])
    return _stated(Sparse(n, receiver, sender, value), name, pull=False)
