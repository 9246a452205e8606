"""What mixing does in the long run: contraction at the second eigenvalue, push-sum's limit, uniform draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from covey import graphs
from covey.graphs import spectrum, structure


def disagreement(x: torch.Tensor) -> float:
    return float((x - x.mean(0)).square().sum())


def rate(graph: graphs.Graph, rounds: int, skip: int) -> float:
    """Regressed factor per round of the disagreement of 8 columns, after `skip` rounds."""
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(graph.n, 8)))
    mean, logs = x.mean(0), list[float]()
    for t in range(rounds):
        x = graph.round(t).weights.apply(x)
        logs.append(math.log(disagreement(x)))
        if graph.column_stochastic:
            assert torch.allclose(x.mean(0), mean, atol=1e-12)
    return math.exp(np.polyfit(range(skip, rounds), logs[skip:], 1)[0])


@pytest.mark.parametrize("text", ["ring", "torus:4x5", "grid:4x5", "erdos_renyi:0.3", "random_doubly_stochastic"])
def test_gossip_contracts_at_the_square_of_the_second_eigenvalue(text: str) -> None:
    graph = graphs.parse(text, 20).bound(2, torch.ones(20))
    modulus = np.sort(np.abs(np.linalg.eigvalsh(graph.round(0).weights.dense().numpy())))[-2]
    rounds = min(300, int(-24 / math.log(modulus)))  # stay above the rounding
    assert rate(graph, rounds, rounds // 2) == pytest.approx(modulus**2, rel=0.02)
    assert graph.describe()["spectral_gap"] == pytest.approx(1 - modulus, abs=1e-9)


def test_one_step_never_does_worse_than_the_bound() -> None:
    for text in ("ring", "torus", "exponential", "grid"):
        graph = graphs.parse(text, 16)
        bound = np.linalg.svd(graph.round(0).weights.dense().numpy() - 1 / 16, compute_uv=False)[0]
        x = torch.randn(16, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        y = graph.round(0).weights.apply(x)
        before, after = (x - x.mean(0)).square().sum(0), (y - y.mean(0)).square().sum(0)
        assert bool((after <= bound**2 * before * (1 + 1e-12)).all())


@pytest.mark.parametrize("k", [2, 5, 10])
def test_random_rows_shrink_variance_by_their_length(k: int) -> None:
    """A row averages k + 1 of n values, a finite sample: E|Wx|^2 = |x|^2 / (k + 1) * (n - k - 1) / (n - 1)."""
    n = 40
    expected = math.sqrt((n - k - 1) / (n - 1) / (k + 1))
    graph = graphs.random_directed(n, k, seed=3, weights="pull")
    estimate = spectrum.mean_square_rate([graph.round(t).weights for t in range(400)], columns=False)
    # W'(I - J)W drops the part of W x along the mean, of which E is 1/n of the whole.
    assert estimate == pytest.approx(expected * math.sqrt(1 - 1 / n), rel=0.05)
    key = "spectral_gap_in_mean_square_over_40_rounds"
    assert 1 - float(graph.describe()[key] or 0) == pytest.approx(estimate, rel=0.15)


def test_mean_square_rate_of_a_fixed_graph_is_its_eigenvalue() -> None:
    weights = graphs.torus(4, 5).round(0).weights
    modulus = 1 - float(graphs.torus(4, 5).describe()["spectral_gap"] or 0)
    assert spectrum.mean_square_rate([weights] * 4, columns=False) == pytest.approx(modulus, abs=1e-6)


def test_one_peer_exponential_agrees_after_log_n_rounds() -> None:
    x = torch.arange(16.0, dtype=torch.float64)[:, None]
    for t in range(3, 7):  # any four rounds in a row
        x = graphs.one_peer_exponential(16).round(t).weights.apply(x)
    assert torch.allclose(x, torch.full_like(x, 7.5))


PUSH = [
    [1 / 3, 0, 1 / 2],
    [1 / 3, 1 / 2, 0],
    [1 / 3, 1 / 2, 1 / 2],
]  # 1 -> 2, 1 -> 3, 2 -> 3, 3 -> 1 (docs/papers.md, 3.3)
PULL = [[1 / 2, 0, 1 / 2], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]]


def test_push_sum_finds_the_mean_and_pulling_does_not() -> None:
    push, pull = graphs.from_matrix(PUSH), graphs.from_matrix(PULL)
    x = torch.tensor([[0.0, 1.0], [3.0, 1.0], [6.0, 1.0]], dtype=torch.float64)  # values and mass
    expected = {1: [(3, 1.5, 4.5), (5 / 6, 5 / 6, 4 / 3), (3.6, 1.8, 3.375)],
                2: [(3.25, 1.75, 4), (0.944444, 0.694444, 1.361111), (3.441176, 2.52, 2.938776)]}  # fmt: skip
    for t in range(1, 81):
        x = push.round(t).weights.apply(x)
        assert x.sum(0).tolist() == pytest.approx([9, 3])
        if t in expected:
            for got, wanted in zip((x[:, 0], x[:, 1], x[:, 0] / x[:, 1]), expected[t], strict=True):
                assert got.tolist() == pytest.approx(wanted, abs=1e-6)
    assert x[:, 1].tolist() == pytest.approx([1, 2 / 3, 4 / 3])
    assert (x[:, 0] / x[:, 1]).tolist() == pytest.approx([3] * 3)
    y = torch.tensor([[0.0, 1.0], [3.0, 1.0], [6.0, 1.0]], dtype=torch.float64)
    for t in range(80):
        y = pull.round(t).weights.apply(y)
    assert y[:, 0].tolist() == pytest.approx([8 / 3] * 3)
    assert y[:, 1].tolist() == pytest.approx([1] * 3)


def test_push_sum_on_a_changing_graph() -> None:
    graph = graphs.random_directed(20, 2, seed=4)
    x = torch.stack([torch.arange(20.0), torch.ones(20)], 1).double()
    for t in range(80):
        x = graph.round(t).weights.apply(x)
    assert torch.allclose(x[:, 0] / x[:, 1], torch.full((20,), 9.5, dtype=torch.float64), atol=1e-9)
    assert float(x[:, 1].min()) < 0.8  # the mass is not one, or nothing was tested


@pytest.mark.parametrize(
    ("text", "share"),
    [("random_directed:3", 3 / 9), ("random_directed:3:pull", 3 / 9), ("random_undirected:3", 3 / 9),
     ("random_undirected:6", 6 / 9), ("server:0.3", None)],
)  # fmt: skip
def test_draws_are_uniform(text: str, share: float | None) -> None:
    """Chi-square of how often each pair (for a server: each peer) was drawn, seed fixed; 4 sigma allowed."""
    n, rounds = 10, 400
    graph = graphs.parse(text, n).bound(11, torch.ones(n))
    if share is None:
        counts = sum(graph.round(t).active.double() for t in range(rounds)).numpy()
        # k of n are drawn: the counts spread evenly in the n - 1 directions that keep their sum
        probability, freedom = 0.3, n - 1
    else:
        seen = sum((graph.round(t).weights.dense() > 0).double() for t in range(rounds))
        pairs = ~torch.eye(n, dtype=torch.bool)
        if graph.symmetric:
            pairs = pairs.triu()
        counts = seen[pairs].numpy()
        # every row of pairs keeps its sum
        probability, freedom = share, len(counts) - n
    expected = rounds * probability
    assert counts.mean() == pytest.approx(expected)
    chi = ((counts - expected) ** 2).sum() / (rounds * probability * (1 - probability)) * freedom / len(counts)
    assert abs(chi - freedom) < 4 * math.sqrt(2 * freedom)


def test_above_the_exact_size_estimates_agree() -> None:
    """Power iteration and sweeps, which large graphs take, against dense algebra, which small ones take."""
    graph = graphs.erdos_renyi(60, 0.1, seed=0)
    weights = graph.round(0).weights
    receiver, sender, _ = weights.entries()
    exact = graph.describe()
    assert spectrum._second_by_iteration(weights, columns=True) == pytest.approx(
        1 - float(exact["spectral_gap"] or 0), abs=1e-3
    )
    sweeps = structure._diameter_by_sweeps(60, receiver, sender)
    assert int(exact["diameter"] or 0) - 1 <= sweeps <= int(exact["diameter"] or 0)
    grid = graphs.grid(9, 7).round(0).weights
    assert structure._diameter_by_sweeps(63, *grid.entries()[:2]) == 14
