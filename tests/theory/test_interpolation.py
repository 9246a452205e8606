"""Decentralised FedAvg where all peers have one minimiser: rates by linear algebra, and what measures them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import covey
from covey import SGD, algorithms, graphs
from covey.cli.main import main
from covey.graphs import Graph
from covey.measure.interpolation import best_steps, linear_rate, pl_ratios
from theory.problems import bowl

A = (0.5, 1.0, 1.5, 2.0)


def radius(graph: Graph, a: tuple[float, ...], eta: float, T: int) -> float:
    """The spectral radius of W diag((1 − η a_k)^T): what a round leaves of w."""
    W = graph.round(0).weights.dense()
    shrink = torch.tensor([(1 - eta * one) ** T for one in a], dtype=torch.float64)
    return float(torch.linalg.eigvals(W * shrink).abs().max())


def run(graph: Graph, a: tuple[float, ...], eta: float, T: int, rounds: int, **how: object) -> covey.Run:
    return covey.simulate(algorithms.DFedAvg(SGD(eta, steps=T)), bowl(a), graph, rounds=rounds, theory=True, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("graph", "T", "known"),
    [
        (graphs.ring(4), 1, 0.876247),
        (graphs.ring(4), 10, 0.345249),
        (graphs.full(4), 1, 0.875),
        (graphs.full(4), 10, 0.312916),
    ],
)
def test_the_fitted_rate_is_the_spectral_radius(graph: Graph, T: int, known: float) -> None:
    """Φ is a square, so it shrinks by the radius squared; the least PL ratio is 2ā, with nothing to spare."""
    history = run(graph, A, 0.1, T, 60).history[-25:]
    found = radius(graph, A, 0.1, T)
    assert found == pytest.approx(known, abs=1e-6)
    losses = [entry["theory"]["objective"] for entry in history]
    rate = linear_rate([entry["round"] for entry in history], losses)
    assert rate is not None and math.sqrt(rate.factor) == pytest.approx(found, rel=1e-5)
    assert rate.low <= rate.factor <= rate.high and rate.r2 > 1 - 1e-9
    ratios = pl_ratios([entry["theory"]["gradient"] for entry in history], losses)
    assert min(ratios) == pytest.approx(2 * sum(A) / 4, rel=1e-9) == pytest.approx(max(ratios), rel=1e-9)


def test_a_torus_beats_a_ring_of_as_many() -> None:
    """Twelve unlike peers: the server is fastest, then the torus, then the ring, as λ₂ says."""
    a = tuple(0.2 + 0.3 * k for k in range(12))
    rates, gaps = {}, {}
    for name, graph in (("server", graphs.server(12)), ("torus", graphs.torus(3, 4)), ("ring", graphs.ring(12))):
        done = run(graph, a, 0.02, 10, 60)
        late = done.history[-30:]
        rate = linear_rate([e["round"] for e in late], [e["theory"]["objective"] for e in late])
        assert rate is not None
        rates[name], gaps[name] = rate.factor, done.settings["run"]["lambda2"]
    assert rates["server"] < rates["torus"] < rates["ring"]
    assert gaps["server"] < gaps["torus"] < gaps["ring"]
    assert gaps["ring"] == pytest.approx((1 + 2 * math.cos(math.pi / 6)) / 3, abs=1e-9)


def test_the_local_steps_that_the_bound_likes_best() -> None:
    """T_th minimises 1 − ημT/4 + η²T²(μ²/8 + 1), which is then 1 − μ²/(8(μ² + 8))."""
    mu, eta = 0.7, 0.01

    def bound(T: float) -> float:
        return 1 - eta * mu * T / 4 + (eta * T) ** 2 * (mu**2 / 8 + 1)

    best = best_steps(mu, eta)
    assert bound(best) < min(bound(best * 0.99), bound(best * 1.01))
    assert bound(best) == pytest.approx(1 - mu**2 / (8 * (mu**2 + 8)), rel=1e-12)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """With residuals that follow each other (AR(1), 0.6); without the widening it would cover two thirds."""
    inside, draws = 0, 400
    generator = torch.Generator().manual_seed(0)
    for _ in range(draws):
        noise = torch.randn(80, generator=generator).tolist()
        rest = [0.0]
        for e in noise:
            rest.append(0.6 * rest[-1] + 0.1 * e)
        rate = linear_rate(range(80), [math.exp(2 - 0.05 * r + e) for r, e in enumerate(rest[1:])])
        assert rate is not None
        inside += rate.low <= math.exp(-0.05) <= rate.high
    assert 0.87 < inside / draws < 0.98


def test_nothing_is_fitted_to_too_little() -> None:
    assert linear_rate([1, 2, 3], [1.0, 0.5, 0.25]) is None
    assert linear_rate(range(9), [1.0] * 9, least=1.0) is None
    rate = linear_rate(range(5), [0.25 + 0.5**r for r in range(5)], least=0.25)
    assert rate is not None and rate.factor == pytest.approx(0.5)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(graphs.ring(4), A, 0.1, 10, 20, out=tmp_path / "ring")
    assert main(["theory", str(tmp_path / "ring"), "--skip", "0.5"]) == 0
    shown = capsys.readouterr().out
    assert "0.3333" in shown and "0.1192" in shown and "2.5" in shown  # λ₂, 0.345² and 2ā
    covey.simulate(algorithms.DFedAvg(SGD(0.1)), bowl(A), graphs.ring(4), rounds=2, out=tmp_path / "plain")
    for wrong in (["theory", str(tmp_path / "plain")], ["theory", str(tmp_path / "none")], ["theory"],
                  ["theory", str(tmp_path / "ring"), "--skip", "1"]):  # fmt: skip
        assert main(wrong) == 2
