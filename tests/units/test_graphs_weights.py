"""Mixing: fast and exact agree with each other and with numpy; what is not finite stays where it has weight."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covey import graphs
from covey.errors import BadInput
from covey.graphs import structure
from covey.graphs.weights import SameRow, Sparse, Weights

TEXTS = ["ring", "full", "grid", "exponential", "random_directed:2", "random_directed:2:pull", "server:0.5", "isolated"]


def rows(n: int, d: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(n, d))).to(dtype)


def naive(weights: Weights, x: torch.Tensor) -> torch.Tensor:
    """Neighbour after neighbour, ascending, zero weights skipped; product and sum rounded apart."""
    W, y = weights.dense().to(x.dtype), torch.zeros_like(x)
    for i in range(len(x)):
        for j in W[i].nonzero().flatten().tolist():
            y[i] += W[i, j] * x[j]
    return y


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_fast_and_exact(text: str, dtype: torch.dtype) -> None:
    now = graphs.parse(text, 12).round(3)
    x = rows(12, 7, dtype)
    for weights in (now.weights, now.weights.off_diagonal()):
        exact = weights.apply(x, exact=True)
        assert torch.equal(exact, naive(weights, x))
        assert torch.allclose(weights.apply(x), exact, atol=1e-5 if dtype == torch.float32 else 1e-13)
    assert torch.allclose(now.weights.off_diagonal().dense() + now.weights.diagonal().diag(), now.weights.dense())


@pytest.mark.parametrize("n", [600, 2500])
def test_many_peers_take_the_sparse_way(n: int) -> None:
    weights = graphs.random_directed(n, 3, 0).round(0).weights
    x = rows(n, 3)
    receiver, sender, value = weights.entries()
    expected = torch.zeros_like(x).index_add_(0, receiver, value[:, None] * x[sender])
    assert torch.allclose(weights.apply(x), expected)
    assert torch.allclose(weights.apply(x, exact=True), expected)
    assert torch.allclose(pickle.loads(pickle.dumps(weights)).apply(x), expected)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("n", [12, 600])
def test_what_is_not_finite_reaches_only_those_who_weigh_it(text: str, bad: float, n: int) -> None:
    now = graphs.parse(text, n).round(1)
    x = rows(n, 3, torch.float32)
    x[5] = bad
    for weights in (now.weights, now.weights.off_diagonal()):
        receiver, sender, _ = weights.entries()
        hit = torch.zeros(n, dtype=torch.bool)
        hit[receiver[sender == 5]] = True
        for exact in (False, True):
            assert torch.equal(~weights.apply(x, exact=exact).isfinite().all(1), hit)


@pytest.mark.parametrize("text", TEXTS)
def test_senders(text: str) -> None:
    weights = graphs.parse(text, 12).round(2).weights
    ids, values = weights.senders()
    W = weights.dense().fill_diagonal_(0.0)
    for i in range(12):
        heard = W[i].nonzero().flatten()
        assert ids[i][ids[i] >= 0].tolist() == heard.tolist()
        assert torch.equal(values[i][ids[i] >= 0], W[i][heard])
        assert not bool(values[i][ids[i] < 0].any())
    now = graphs.Round(weights, torch.ones(12, dtype=torch.bool))
    assert torch.equal(now.in_degree(), (W > 0).sum(1))
    assert torch.equal(now.out_degree(), (W > 0).sum(0))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([-1.0, 0.0, 0.5, 1.0])), max_size=40))
def test_entries_are_added_up_sorted_and_without_zeros(edges: list[tuple[int, int, float]]) -> None:
    ends = torch.tensor([edge[:2] for edge in edges], dtype=torch.int64).reshape(-1, 2)
    weights = Sparse(6, ends[:, 0], ends[:, 1], torch.tensor([edge[2] for edge in edges], dtype=torch.float64))
    expected = np.zeros((6, 6))
    for i, j, w in edges:
        expected[i, j] += w
    assert np.array_equal(weights.dense().numpy(), expected)
    receiver, sender, value = weights.entries()
    assert (receiver * 6 + sender).tolist() == np.flatnonzero(expected).tolist()
    assert bool((value != 0).all())


def test_wrong_shape_is_refused() -> None:
    for weights in (graphs.ring(4).round(0).weights, SameRow(torch.full((4,), 0.25))):
        with pytest.raises(BadInput, match="4 rows"):
            weights.apply(torch.ones(3, 2))
        assert weights.apply(torch.ones(4, 0)).shape == (4, 0)


def test_half_precision_mixes() -> None:
    x = rows(8, 5, torch.bfloat16)
    for text in ("ring", "full"):
        y = graphs.parse(text, 8).round(0).weights.apply(x)
        assert y.dtype == torch.bfloat16
        assert torch.allclose(y.double(), graphs.parse(text, 8).round(0).weights.dense() @ x.double(), atol=0.03)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 14), p=st.floats(0.05, 0.6), seed=st.integers(0, 10**6))
def test_hops_connection_and_diameter_agree_with_networkx(n: int, p: float, seed: int) -> None:
    import networkx as nx

    theirs = nx.gnp_random_graph(n, p, seed=seed, directed=True)
    ends = torch.tensor([(v, u) for u, v in theirs.edges()], dtype=torch.int64).reshape(-1, 2)  # u -> v: v receives
    weights = Sparse(n, ends[:, 0], ends[:, 1], torch.ones(len(ends), dtype=torch.float64))
    reached = nx.single_source_shortest_path_length(theirs, 0)
    assert structure.hops(n, ends[:, 0], ends[:, 1]).tolist() == [reached.get(v, -1) for v in range(n)]
    connected = nx.is_strongly_connected(theirs)
    assert structure.union_connected([weights]) == connected
    assert structure.diameter(weights) == (nx.diameter(theirs) if connected else None, True)
