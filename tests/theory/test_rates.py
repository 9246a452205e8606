"""Theorems as theorems: how fast, and down to where. Rates are regressed and compared with what theory says.

Two kinds of tolerance. Deterministic ones are rounding and the share of faster modes that is left. Statistical ones
are 4 standard errors, the error being estimated from peers or coordinates that are independent by construction;
seeds are fixed, so a test either passes always or never.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from covey import SGD
from covey.algorithms import DPSGD, SGP, DFedAvg, DFedPGP, Local
from covey.graphs import Graph, exponential, from_matrix, full, isolated, random_directed, ring, torus
from theory.problems import bowl, noisy_quadratic, quadratic, random, spread_samples
from theory.rounds import Rounds

REST = SGD(0.1, steps=0)


def line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope of y on x, and the largest distance from the line."""
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(np.abs(y - slope * x - intercept).max())


def spread(rows: Tensor) -> float:
    return float((rows - rows.mean(0)).norm())


# Closed forms (docs/papers.md, 3.1): the largest modulus of an eigenvalue but 1
def of_ring(n: int) -> float:
    return max(abs((1 + 2 * math.cos(2 * math.pi * k / n)) / 3) for k in range(1, n))


def of_torus(a: int, b: int) -> float:
    return max(abs((1 + 2 * math.cos(2 * math.pi * k / a) + 2 * math.cos(2 * math.pi * m / b)) / 5)
               for k in range(a) for m in range(b) if k or m)  # fmt: skip


def of_exponential(n: int) -> float:
    offsets = [0] + [2**j for j in range(n) if 2**j < n]
    return max(abs(sum(np.exp(2j * math.pi * k * o / n) for o in offsets)) for k in range(1, n)) / len(offsets)


GOSSIP = {
    "ring 4": (ring(4), of_ring(4), 1 / 3), "ring 8": (ring(8), of_ring(8), 0.8047),
    "ring 16": (ring(16), of_ring(16), 0.9493),
    "torus 3x4": (torus(3, 4), of_torus(3, 4), None), "torus 6x10": (torus(6, 10), of_torus(6, 10), 0.9236),
    "exponential 12": (exponential(12), of_exponential(12), None),
}  # fmt: skip


@pytest.mark.parametrize("name", GOSSIP)
@pytest.mark.parametrize("method", [DFedAvg(REST), SGP(REST)], ids=["gossip", "push-sum"])
def test_gossip_contracts_at_the_second_eigenvalue(name: str, method: DFedAvg) -> None:
    """log ‖X − X̄‖ falls by log|λ₂| per round. Faster modes are waited out: the slope is taken over the later half."""
    graph, rate, printed = GOSSIP[name]
    if printed is not None:
        assert rate == pytest.approx(printed, abs=5e-5)
    rounds = math.ceil(math.log(1e-9) / math.log(rate) / 2) * 2  # until 1e-9 of the start: far from rounding
    rounds = min(rounds, 160)
    run = Rounds(method, quadratic(0 * random(graph.n, 40), start=random(graph.n, 40)), graph)
    apart = [spread(run.models)] + [spread(run.go().models) for _ in range(rounds)]
    falls = np.diff(np.log(apart))
    slope, _ = line(np.arange(rounds // 2), np.log(apart[-(rounds // 2) :]))
    assert slope == pytest.approx(math.log(rate), rel=2e-3)
    if graph.symmetric:  # no single round expands, nor contracts slower than λ
        assert falls.max() <= math.log(rate) + 1e-6  # 1e-16 of rounding against 1e-9 of spread is 1e-7


def test_push_sum_finds_the_mean_of_random_directed_graphs_geometrically() -> None:
    """e = x − μ x̄ obeys e⁺ = P e and Σe = 0, and z − x̄ = e/μ. Every sender splits evenly among itself and k = 3 of 19
    others, independently, so E‖Pe‖² = (q − r)‖e‖² with q = Σ_i P_ij² = 1/4, and for two senders
    r = Σ_i E P_ij E P_il = 2 (1/4)(3/76) + 18 (3/76)² = .04778: the error falls by ½ ln .2022 = −.799 per round, to 4
    standard errors of the mean of the falls. Pulled, the peers agree as well, on another value."""
    n, k, rounds = 20, 3, 40
    x = random(n, 40, seed=3)
    pushed, pulled = (Rounds(SGP(REST), quadratic(0 * x, start=x), random_directed(n, k, seed=1, weights=weights))
                      for weights in ("push", "pull"))  # fmt: skip
    errors = [float((pushed.go().models - x.mean(0)).norm()) for _ in range(rounds)]
    falls = np.diff(np.log(errors))
    error = float(falls.std() / math.sqrt(len(falls)))
    assert error < 0.04  # the test is sharp
    assert falls.mean() == pytest.approx(0.5 * math.log(0.2022), abs=4 * error)
    assert errors[-1] < 1e-9
    pulled.go(rounds)
    assert spread(pulled.models) < 1e-9
    assert float((pulled.models[0] - x.mean(0)).norm()) > 0.1


def test_push_sum_minimises_the_true_sum_on_a_directed_graph() -> None:
    """As η → 0 (here .3·.97^200 = .0007, so errors of that order times the distance of 6) pushing finds the minimiser
    3 of Σ F_i; pulling weighs the F_i by the Perron vector (4/9, 2/9, 1/3) of the graph of 3.4: 2.666667."""
    push = torch.tensor([[2, 0, 3], [2, 3, 0], [2, 3, 3]], dtype=torch.float64) / 6
    pull = torch.tensor([[3, 0, 3], [3, 3, 0], [2, 2, 2]], dtype=torch.float64) / 6
    task = quadratic(torch.tensor([[0.0], [3.0], [6.0]], dtype=torch.float64))
    for W, minimiser in ((push, 3.0), (pull, 8 / 3)):
        run = Rounds(DFedPGP(REST, SGD(0.3, decay=0.97)), task, from_matrix(W)).go(200)
        torch.testing.assert_close(run.models, torch.full((3, 1), minimiser, dtype=torch.float64), rtol=0, atol=0.01)


def test_the_fixed_point_of_dpsgd_is_off_by_a_multiple_of_the_rate() -> None:
    """Unlike peers, constant η: ‖x_i − x*‖ = O(η) at the fixed point (3.1), slope 1 in log-log. The next order is
    O(η²): between η = .004 and .03 it bends the slope by a few per cent. From the mean 60 rounds do."""
    rates = np.array([0.004, 0.008, 0.015, 0.03])
    b = random(6, 3, seed=5)
    for order in ("atc", "cta"):
        off = []
        for lr in rates:
            run = Rounds(DPSGD(SGD(float(lr)), order=order), quadratic(b, start=b.mean(0).expand(6, 3)), ring(6)).go(60)
            off.append(spread(run.models))
        slope, _ = line(np.log(rates), np.log(off))
        assert slope == pytest.approx(1, abs=0.05), order


def floors(method: DFedAvg | Local, graph: Graph, lr: float, seed: int, width: int = 64, looks: int = 40) -> Tensor:
    """Stationary mean of squares per coordinate: of each row [peers], and of the mean model (last entry).

    Samples have mean 0 and variance 1 exactly, so the minimum is 0 and one step is x ← (1 − η)x + η ξ, Var ξ = 1. The
    start is drawn from the stationary law of one peer and 3/η rounds pass between few looks, so they hardly depend.
    """
    n = graph.n
    task = noisy_quadratic(spread_samples(n, 50, width, seed=seed))
    run = Rounds(method, task, graph, seed=seed)
    gap = max(1, round(1 / lr))
    run.go(4 * gap)
    total = torch.zeros(n + 1, dtype=torch.float64)
    for _ in range(looks):
        x = run.go(gap).models
        total += torch.cat([x, x.mean(0, keepdim=True)]).square().mean(1)
    return total / looks


def test_the_error_floor_of_sgd_is_linear_in_the_rate() -> None:
    """Var x = η²/(1 − (1 − η)²) = η/(2 − η). 16 peers alone are 16 independent copies, whose scatter gives the error of
    each floor; slope of log(floor·(2 − η)) on log η: 1, to 4 standard errors."""
    rates = (0.05, 0.1, 0.2, 0.4)
    found = [
        floors(Local(SGD(lr, batch=1)), isolated(16), lr, seed=10 + k, looks=10)[:16] for k, lr in enumerate(rates)
    ]
    level = np.array([math.log(float(f.mean()) * (2 - lr)) for f, lr in zip(found, rates, strict=True)])
    error = np.array([float(f.std() / f.mean()) / 4 for f in found])
    x = np.log(rates) - np.log(rates).mean()
    slope, of_slope = float((x * level).sum() / (x * x).sum()), float(np.sqrt((x**2 * error**2).sum()) / (x * x).sum())
    assert of_slope < 0.02  # the test is sharp
    assert slope == pytest.approx(1, abs=4 * of_slope)
    assert np.abs(level - np.log(rates)).max() < 4 * error.max()  # and the constant is right, too


def test_the_variance_of_the_mean_falls_with_the_number_of_peers() -> None:
    """Linear speed-up: independent batches of m peers make Var x̄ = η/(2 − η)/m, slope −1 in log m. If peers drew the
    same batches it would be 0. 64 coordinates × 20 looks: the relative error of each variance is at most
    √(2/(64·20/2)) = 6% (looks 1/η apart correlate by e⁻¹, which at most doubles it in variance); 4 of them."""
    lr, sizes = 0.2, (1, 2, 4, 8, 16, 32)
    found = [float(floors(DFedAvg(SGD(lr, batch=1)), full(m), lr, seed=30 + m, looks=20)[-1]) for m in sizes]
    level = np.log(found) - math.log(lr / (2 - lr))
    x, error = np.log(sizes) - np.log(sizes).mean(), math.sqrt(2 / (64 * 20 / 2))
    slope = float((x * level).sum() / (x * x).sum())
    assert slope == pytest.approx(-1, abs=4 * error / math.sqrt(float((x * x).sum())))
    assert np.abs(level + np.log(sizes)).max() < 4 * error


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("a", [(0.5, 1, 1.5, 2), (0, 1, 1.5, 2)], ids=["all curved", "one flat"])
def test_dfedavg_is_linear_under_interpolation(a: tuple[float, ...], steps: int) -> None:
    """4.7: with a common minimiser ‖X‖ falls at the spectral radius of W·diag((1 − ηa_k)^T), down to rounding and not
    to a floor, also where one peer's loss is flat (PL, not strongly convex)."""
    W = np.array([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]]) / 3
    shrink = np.array([math.prod([1 - 0.1 * own] * steps) for own in a])
    radius = max(abs(np.linalg.eigvals(W * shrink)))
    rounds = math.ceil(math.log(1e-6) / math.log(radius))
    run = Rounds(DFedAvg(SGD(0.1, steps=steps)), bowl(a), ring(4))
    size = np.log([float(run.go().models.norm()) for _ in range(rounds)])
    slope, off = line(np.arange(rounds // 2), size[-(rounds // 2) :])
    assert slope == pytest.approx(math.log(radius), rel=1e-4)
    assert off < 1e-4
