"""Graphs of your own, graphs by name, what is refused, and what methods assume."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from covey import graphs
from covey.errors import BadInput, UnknownName, UnsoundGraph


def matrix(graph: graphs.Graph) -> np.ndarray:
    return graph.round(0).weights.dense().numpy()


# --- your own


def test_from_matrix_finds_out_what_holds() -> None:
    P = np.array([[1 / 3, 0, 1 / 2], [1 / 3, 1 / 2, 0], [1 / 3, 1 / 2, 1 / 2]])
    push, pull = graphs.from_matrix(P), graphs.from_matrix(P.T.tolist())
    assert (push.row_stochastic, push.column_stochastic, push.symmetric) == (False, True, False)
    assert (pull.row_stochastic, pull.column_stochastic, pull.symmetric) == (True, False, False)
    assert push != pull
    assert np.array_equal(matrix(push), P)
    lazy = graphs.from_matrix(torch.tensor([[0.75, 0.25], [0.25, 0.75]]), name="lazy")
    assert lazy.stochasticity == "symmetric doubly stochastic"
    assert lazy.name == "lazy"
    circle = graphs.from_matrix(np.roll(np.eye(5), 1, 1) * 0.5 + np.eye(5) * 0.5)
    assert circle.stochasticity == "doubly stochastic"


def test_from_networkx() -> None:
    ring = nx.cycle_graph(6)
    assert np.allclose(matrix(graphs.from_networkx(ring)), matrix(graphs.ring(6)))
    star = nx.star_graph(4)
    W = matrix(graphs.from_networkx(star, weights="uniform"))
    assert W[0] == pytest.approx([0.2] * 5)
    assert W[1] == pytest.approx([0.5, 0.5, 0, 0, 0])
    directed = nx.DiGraph([(0, 1), (0, 2), (1, 2), (2, 0)])
    P = np.array([[1 / 3, 0, 1 / 2], [1 / 3, 1 / 2, 0], [1 / 3, 1 / 2, 1 / 2]])
    assert np.allclose(matrix(graphs.from_networkx(directed)), P)
    pulled = graphs.from_networkx(directed, weights="pull")
    assert matrix(pulled)[2] == pytest.approx([1 / 3] * 3)
    assert pulled.pull
    weighted = nx.DiGraph()
    weighted.add_weighted_edges_from([("b", "a", 0.25), ("a", "b", 0.5), ("b", "b", 0.5), ("a", "a", 0.75)])
    assert matrix(graphs.from_networkx(weighted, weights="given")).tolist() == [[0.5, 0.5], [0.25, 0.75]]
    completed = nx.Graph()
    completed.add_edge(0, 1, weight=0.3)
    assert np.allclose(matrix(graphs.from_networkx(completed, weights="given")), [[0.7, 0.3], [0.3, 0.7]])
    shuffled = nx.Graph([(2, 1), (1, 0)])
    assert matrix(graphs.from_networkx(shuffled))[0, 2] == 0


def test_own_schedule_is_verified() -> None:
    lying = graphs.Graph(3, "mine", half_a_round, row_stochastic=True, column_stochastic=True, symmetric=False)
    with pytest.raises(BadInput, match="rows that sum to one"):
        lying.round(0)


def half_a_round(t: int) -> graphs.Round:
    return graphs.everybody(graphs.SameRow(torch.full((3,), 0.5)))


# --- names


@pytest.mark.parametrize(
    ("text", "n", "same"),
    [
        ("ring", 5, graphs.ring(5)),
        ("torus:8x8", 64, graphs.torus(8, 8)),
        ("torus", 60, graphs.torus(6, 10)),
        ("grid", 7, graphs.grid(1, 7)),
        ("grid:6x10:row", 60, graphs.grid(6, 10, "row")),
        ("grid:row", 60, graphs.grid(6, 10, "row")),
        ("random_directed:10", 20, graphs.random_directed(20, 10)),
        ("random_directed:10:pull", 20, graphs.random_directed(20, 10, weights="pull")),
        ("erdos_renyi:0.3", 20, graphs.erdos_renyi(20, 0.3)),
        ("erdos_renyi:0.3:row", 20, graphs.erdos_renyi(20, 0.3, weights="row")),
        ("server:0.1", 20, graphs.server(20, 0.1)),
        ("server:3:size", 20, graphs.server(20, 3, "size")),
        ("server", 20, graphs.server(20)),
    ],
)
def test_names(text: str, n: int, same: graphs.Graph) -> None:
    graph = graphs.parse(text, n)
    assert graph == same
    assert graphs.parse(graph.name, n) == graph
    assert hash(graph) == hash(same)


def test_every_name_is_listed_with_a_line() -> None:
    for usage, line in graphs.NAMES:
        name = usage.split("[")[0].split(":")[0]
        assert callable(getattr(graphs, name))
        assert line
        assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "n", "said"),
    [
        ("rinf", 5, "did you mean 'ring'"),
        ("torus:8x8", 60, "64 peers, not 60"),
        ("torus", 7, "cannot form a torus"),
        ("torus:2x5", 10, "at least 3"),
        ("torus:8", 8, "written 8x8"),
        ("ring:3", 5, "should be written ring"),
        ("random_directed", 5, "random_directed:K"),
        ("random_directed:x", 5, "whole number"),
        ("random_directed:2.5", 5, "whole number"),
        ("random_directed:5", 5, "k=5"),
        ("random_undirected:0", 5, "k=0"),
        ("random_directed:2:both", 5, "'push' or 'pull'"),
        ("erdos_renyi:0", 5, "p=0"),
        ("erdos_renyi:1.5", 5, "p=1.5"),
        ("erdos_renyi:nan", 5, "p=nan"),
        ("grid:wide", 6, "'metropolis', 'uniform' or 'row'"),
        ("server:0", 5, "not 0"),
        ("server:0.0", 5, "not 0.0"),
        ("server:6", 5, "1 to 5 of 5"),
        ("ring", 0, "at least one peer"),
    ],
)
def test_refused_in_one_sentence(text: str, n: int, said: str) -> None:
    with pytest.raises(BadInput) as refusal:
        graphs.parse(text, n)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_unknown_name_has_its_own_error() -> None:
    with pytest.raises(UnknownName):
        graphs.parse("rign", 5)


@pytest.mark.parametrize(
    ("W", "said"),
    [
        ([[1.0, 0.0]], "square"),
        (np.zeros((0, 0)), "square"),
        ([[1.5, -0.5], [0.0, 1.0]], "not negative"),
        ([[float("nan"), 1.0], [0.0, 1.0]], "finite"),
        ([[0.5, 0.6], [0.5, 0.5]], "sum to one"),
        ("ring", "array of numbers"),
    ],
)
def test_matrices_refused(W: object, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        graphs.from_matrix(W)


def test_hopeless_random_graph_is_refused_at_once() -> None:
    with pytest.raises(BadInput, match=r"ln\(n\)/n"):
        graphs.erdos_renyi(50, 0.001, seed=0)
    assert graphs.erdos_renyi(50, 0.001).seed is None  # the run's seed comes later


# --- soundness

GRAPHS = {
    "ring": graphs.ring(8),
    "exponential": graphs.exponential(8),
    "undirected": graphs.random_undirected(8, 3),
    "push": graphs.random_directed(8, 3),
    "pull": graphs.random_directed(8, 3, weights="pull"),
    "row": graphs.grid(2, 4, "row"),
    "server": graphs.server(8),
    "sampled": graphs.server(8, 0.5),
}
SOUND = {
    "any": set(GRAPHS),
    "row": set(GRAPHS) - {"push"},
    "column": {"ring", "exponential", "undirected", "push", "server"},
    "column-or-pull": {"ring", "exponential", "undirected", "push", "server", "pull"},
    "doubly": {"ring", "exponential", "undirected", "server"},
    "symmetric": {"ring", "undirected", "server"},
    "symmetric-fixed": {"ring", "server"},
    "server": {"server", "sampled"},
}


@pytest.mark.parametrize("needs", list(SOUND))
def test_soundness(needs: graphs.Needs) -> None:
    for name, graph in GRAPHS.items():
        if name in SOUND[needs]:
            record = graphs.check(graph, needs, "SGP")
            assert (record is not None) == (needs == "column-or-pull" and name == "pull")
        else:
            with pytest.raises(UnsoundGraph, match="allow_unsound=True"):
                graphs.check(graph, needs, "SGP")
            record = graphs.check(graph, needs, "SGP", allow_unsound=True)
            assert record is not None
            assert graph.name in record
