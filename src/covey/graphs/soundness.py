"""Whether a graph is what a method assumes: refused with the remedy, or allowed and on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from covey.errors import UnknownName, UnsoundGraph
from covey.graphs.graph import Graph
from covey.graphs.weights import SameRow

Needs = Literal[
    "any",
    "row",
    "changing",
    "column",
    "column-or-pull",
    "doubly",
    "symmetric",
    "symmetric-fixed",
    "column-fixed",
    "server",
    "centre",
]

_DOUBLY = "full, ring, torus, grid, exponential, random_undirected:K or server:1.0"
_PUSH = "random_directed:K (push)"

# What is assumed in words, whether it holds, and graphs for which it does.
_ASSUMED: dict[str, tuple[str, Callable[[Graph], bool], str]] = {
    "any": ("nothing", lambda g: True, "any"),
    "row": ("weights whose rows sum to one", lambda g: g.row_stochastic, f"{_DOUBLY}, or random_directed:K:pull"),
    "changing": (
        "weights whose rows sum to one and that are drawn anew in every round",
        lambda g: g.row_stochastic and not g.fixed,
        "epidemic:K, or random_undirected:K",
    ),
    "column": ("weights whose columns sum to one", lambda g: g.column_stochastic, f"{_PUSH}, {_DOUBLY}"),
    "column-or-pull": (
        "weights whose columns sum to one (or, asked for by name, pulled ones)",
        lambda g: g.column_stochastic or (g.pull and g.row_stochastic),
        f"{_PUSH}, random_directed:K:pull, {_DOUBLY}",
    ),
    "doubly": ("doubly stochastic weights", lambda g: g.doubly_stochastic, _DOUBLY),
    "symmetric": (
        "symmetric doubly stochastic weights",
        lambda g: g.doubly_stochastic and g.symmetric,
        "full, ring, torus, grid, erdos_renyi:P or random_undirected:K",
    ),
    "symmetric-fixed": (
        "symmetric doubly stochastic weights that never change",
        lambda g: g.doubly_stochastic and g.symmetric and g.fixed,
        "full, ring, torus, grid, erdos_renyi:P or random_undirected:K:fixed (what changes: --feedback)",
    ),
    "column-fixed": (
        "weights whose columns sum to one and that never change",
        lambda g: g.column_stochastic and g.fixed,
        "exponential, ring, torus, full or random_directed:K:fixed",
    ),
    "server": (
        "a server, or the complete graph in its place",
        lambda g: g.hub or (g.fixed and isinstance(g.round(0).weights, SameRow)),
        "server, server:0.1 or full",
    ),
    "centre": ("one place where all data are", lambda g: g.name == "centre", "centre"),
}


def check(graph: Graph, needs: Needs, method_name: str, allow_unsound: bool = False) -> str | None:
    """Nothing if the graph is what the method assumes; else refuse it, or return the sentence to put on record.

    Push-sum on a pulled graph is no error, but a sentence for the record all the same: its mass stays one, and the
    mean of the peers moves (D-01).
    """
    if needs not in _ASSUMED:
        raise UnknownName("assumption on a graph", needs, _ASSUMED)
    assumed, holds, remedies = _ASSUMED[needs]
    of_time = (
        ("" if needs != "changing" else " and never changes") if graph.fixed else " and changes from round to round"
    )
    kind = graph.stochasticity + of_time
    if holds(graph):
        if needs == "column-or-pull" and not graph.column_stochastic:
            return f"Graph '{graph.name}' is {kind}: push-sum's mass stays 1 and the mean of the peers moves (D-01)."
        return None
    broken = f"{method_name} assumes {assumed}; graph '{graph.name}' is {kind}"
    if allow_unsound:
        return f"{broken}, allowed on request."
    raise UnsoundGraph(f"{broken}; take {remedies}, or insist with --allow-unsound (allow_unsound=True).")
