"""The consensus step γ: the same at all peers in every round, begun at the rule of thumb, grown where neighbours know
where everybody is, shrunk where it overshoots; and near the best fixed one (`benchmarks/gamma.py`)."""

from __future__ import annotations

import math

import pytest
import torch
from benchmarks import gamma as bench
from torch import Tensor

from covey import SGD, compress, graphs
from covey.algorithms import SGP, Algorithm, DFedAvg
from covey.exchange import Compressed, CompressedPush, gamma
from covey.graphs import Graph, fixed, from_matrix, random_directed, ring
from theory.problems import classifier, noisy_quadratic, quadratic, random, spread_samples
from theory.rounds import Rounds

REST = SGD(0.1, steps=0)
STAR = torch.tensor([[0.2] * 5, *[[0.2] + [0.8 if i == j else 0.0 for j in range(4)] for i in range(4)]]).double()
CROSS = torch.tensor([[0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0]]).double()  # w_ii = 0
GRAPHS: dict[str, Graph] = {
    "ring": ring(9), "star": from_matrix(STAR), "no weight of one's own": from_matrix(CROSS),
    "directed": fixed(random_directed(8, 2, seed=3)), "erdos_renyi": graphs.erdos_renyi(12, 0.25, seed=2),
}  # fmt: skip


def consensus(n: int, width: int = 60, seed: int = 0, **how: object) -> tuple[Algorithm, Tensor]:
    """Peers with vectors of their own and nothing to learn."""
    return DFedAvg(REST, by=Compressed(compress.TopK(0.1), **how)), random(n, width, seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GRAPHS)
def test_all_peers_have_one_gamma(name: str) -> None:
    """In every round, to the last bit, also while news of a window is still on its way; and it changes."""
    graph = GRAPHS[name]
    exchange = Compressed if graph.symmetric else CompressedPush
    method = SGP(SGD(0.05, batch=1), by=exchange(compress.SignTopK(0.2)))
    task = noisy_quadratic(3 * random(graph.n, 1, 40, seed=2) + random(graph.n, 12, 40, seed=1))
    run, seen = Rounds(method, task, graph), set[float]()
    for _ in range(60):
        found = run.go().peers.state["gamma"]
        assert bool((found == found[0]).all())
        seen.add(float(found[0]))
    assert len(seen) > 1
    assert all(0 < value <= 1 for value in seen)


def test_the_rule_of_thumb() -> None:
    """a / (a + (1 − a) s), s = (4 + 8δ) / 3: on the complete graph δ = 1 and s = 4; half of that for dense ones."""
    assert gamma.usual(1.0, 0.3, True) == 1.0
    assert gamma.usual(0.2, 1.0, False) == pytest.approx(0.2 / (0.2 + 0.8 * 4))
    assert gamma.usual(0.2, 1.0, True) == pytest.approx(0.2 / (0.2 + 0.8 * 2))
    run = Rounds(consensus(8)[0], quadratic(random(8, 60)), ring(8))
    keeps = compress.TopK(0.1).kept([60])
    assert float(run.peers.state["gamma"][0]) == pytest.approx(gamma.usual(keeps, ring(8).gap(), False), rel=1e-12)


@pytest.mark.parametrize(("compressor", "keeps"), [(compress.Identity(), 1.0), (compress.Sign(), 2 / math.pi),
                                                   (compress.RandK(0.5), 0.5)], ids=repr)  # fmt: skip
def test_the_share_of_energy_that_is_kept(compressor: compress.Compressor, keeps: float) -> None:
    """Of normal numbers a sign keeps (E|x|)² = 2 / π."""
    assert compressor.kept([50_000]) == pytest.approx(keeps, rel=0.03)
    assert compressor.kept([30_000, 20_000]) == pytest.approx(keeps, rel=0.03)


@pytest.mark.parametrize(("start", "grows"), [(0.2, True), (4.0, False)])
def test_a_gamma_that_begins_wrong_is_mended(start: float, grows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun at a fifth of the rule of thumb it grows; at four times, where peers run apart, it shrinks."""
    usual = gamma.usual
    monkeypatch.setattr(gamma, "usual", lambda *given: min(1.0, start * usual(*given)))
    task = noisy_quadratic(3 * spread_samples(8, 20, 80) + 3 * random(8, 1, 80))
    run = Rounds(DFedAvg(SGD(0.03, batch=1), by=Compressed(compress.TopK(0.1))), task, ring(8))
    first = float(run.peers.state["gamma"][0])
    last = float(run.go(150).peers.state["gamma"][0])
    assert (last > 1.4 * first) if grows else (last <= 0.8 * first)


def test_auto_never_falls_below_a_fifth_of_its_first() -> None:
    state = Rounds(consensus(8)[0], classifier(()), ring(6)).peers.state
    assert torch.equal(state["least"], 0.2 * state["gamma"])


def short(seed: int) -> bench.Problem:
    """Agreement of 8 peers on a ring by TopK 10 % of 100 numbers."""
    method = DFedAvg(REST, by=Compressed(compress.TopK(0.1)))
    return bench.Problem("short", method, ring(8), lambda s: bench.agreement(8, 100, s + seed), 300, (0, 1, 2))


def test_auto_is_near_the_best_fixed_gamma() -> None:
    """Within 10 % of the rounds of the best of seven, where the choice among them changes rounds more than three times.
    The long form is below."""
    found = bench.curve(short(0), (0.125, 0.25, 0.5, 0.7, 1.0, 1.2, 1.4))
    assert found.spread > 3.0
    assert found.off <= 1.1


@pytest.mark.soak
@pytest.mark.parametrize("problem", bench.PROBLEMS[:3], ids=lambda problem: problem.name)
def test_auto_on_the_three_problems(problem: bench.Problem) -> None:
    found = bench.curve(problem)
    assert found.spread >= 3.0
    assert found.off <= 1.1
