"""Methods that find the optimum of the sum of unlike losses with a constant step: GT-DSGD, D², EXTRA.

F_i(x) = ½ a_i ‖x − b_i‖² with unlike a_i, so that Σ F_i has its minimum at x* = Σ a_i b_i / Σ a_i, where D-PSGD does
not end. Each method is a linear map of the distance of (x, memory) from the optimum; written down here in numpy, its
powers must be the run, and its spectral radius (the one eigenvalue 1 apart, which keeps the sum of the memories at
zero) lies below one: so the error falls linearly, down to rounding.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import covey
from covey import SGD, Task
from covey.algorithms import D2, DPSGD, EXTRA, GTDSGD, Algorithm, DFedAvg
from covey.graphs import Graph, random_undirected, ring, torus
from theory.problems import PEERS, classifier, column, quadratic, random
from theory.rounds import Rounds

N, WIDTH, ETA = 6, 3, 0.15
A = np.array([0.3, 0.7, 1.0, 1.5, 2.0, 0.5])
B = random(N, WIDTH, seed=1)
BEST = (torch.from_numpy(A)[:, None] * B).sum(0) / A.sum()
W = ring(N).round(0).weights.dense().numpy()
I = np.eye(N)  # noqa: E741
S = I - ETA * np.diag(A)  # one gradient step
LAZY = (I + W) / 2


def unlike() -> Task:
    def loss(p: dict[str, torch.Tensor], own: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return 0.5 * own[0] * (p["x"] - own[1]).square().sum()

    return Task.from_function(loss, {"x": torch.zeros(WIDTH, dtype=torch.float64)}, (torch.from_numpy(A), B))


MAPS: dict[str, tuple[Algorithm, np.ndarray]] = {
    # x⁺ = W (Sx − ηc), c⁺ = c − (I − W)(Ax + c)
    "GT-DSGD": (GTDSGD(SGD(ETA)), np.block([[W @ S, -ETA * W], [-(I - W) @ np.diag(A), W]])),
    # x⁺ = W̃ (Sx + e), e⁺ = x⁺ − Sx
    "D2": (D2(SGD(ETA)), np.block([[LAZY @ S, LAZY], [(LAZY - I) @ S, LAZY]])),
    # x⁺ = Wx + b − ηAx, b⁺ = b − ½(I − W)x
    "EXTRA": (EXTRA(SGD(ETA)), np.block([[W - ETA * np.diag(A), I], [-(I - W) / 2, I]])),
}


AT_BEST = {"GT-DSGD": -1.0, "D2": ETA, "EXTRA": ETA}  # the memory there, in units of ∇F_i


@pytest.mark.parametrize("name", MAPS)
def test_exact_and_linear(name: str) -> None:
    method, linear = MAPS[name]
    moduli = np.sort(np.abs(np.linalg.eigvals(linear)))
    assert moduli[-1] == pytest.approx(1, abs=1e-9)
    radius = float(moduli[-2])
    assert 0.5 < radius < 0.95
    best = np.tile(BEST.numpy(), (N, 1))
    memory = AT_BEST[name] * A[:, None] * (best - B.numpy())
    off = -np.concatenate([best, memory])  # everything starts at zero
    run = Rounds(method, unlike(), ring(N))
    rounds = math.ceil(math.log(1e-12) / math.log(radius))
    for _ in range(rounds):
        off = linear @ off
        np.testing.assert_allclose((run.go().models - BEST).numpy(), off[:N], rtol=0, atol=1e-12)
    assert float((run.models - BEST).norm()) < 1e-10  # radius^rounds is 1e-12, and no floor is left above it
    assert float((run.go(rounds // 2).models - BEST).abs().max()) < 1e-13


@pytest.mark.parametrize("eta", [0.02, 0.04])
def test_plain_gossip_stops_short_in_the_order_of_the_rate(eta: float) -> None:
    """The control: D-PSGD's fixed point, (I − W + ηA) x = ηAb, is off by an error that doubles with η."""
    found = []
    for lr in (eta, eta / 2):
        fixed = np.linalg.solve(I - W + lr * np.diag(A), lr * np.diag(A) @ B.numpy())
        run = covey.simulate(DPSGD(SGD(lr), order="cta"), unlike(), ring(N), rounds=round(60 / lr), chunk=N,
                             evaluate_every=10**6)  # fmt: skip
        np.testing.assert_allclose(run.rows.numpy(), fixed, rtol=0, atol=1e-10)
        found.append(np.abs(fixed - BEST.numpy()).max())
    assert found[1] > 1e-3
    assert math.log2(found[0] / found[1]) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("graph", [ring(N), random_undirected(N, 2, seed=4), torus(3, 3)], ids=["ring", "new", "torus"])
def test_tracking_takes_local_steps_and_graphs_that_change(graph: Graph) -> None:
    """K-GT: 4 local steps a round, and still the optimum; DFedAvg with as many is off."""
    a, b = torch.linspace(0.3, 2, graph.n, dtype=torch.float64), random(graph.n, WIDTH, seed=1)
    best = (a[:, None] * b).sum(0) / a.sum()
    task = Task.from_function(lambda p, own: 0.5 * own[0] * (p["x"] - own[1]).square().sum(),
                              {"x": torch.zeros(WIDTH, dtype=torch.float64)}, (a, b))  # fmt: skip
    work = SGD(0.05, steps=4)
    tracked, plain = (Rounds(method, task, graph).go(900) for method in (GTDSGD(work), DFedAvg(work)))
    assert float((tracked.models - best).abs().max()) < 1e-12
    assert float((plain.models - best).abs().max()) > 1e-2


@pytest.mark.parametrize(("method", "memory"), [(GTDSGD(SGD(0.2, batch=5, decay=0.9)), "correction"),
                                                (GTDSGD(SGD(0.1, epochs=1, batch=5)), "correction"),
                                                (D2(SGD(0.2, batch=5)), "lead"),
                                                (EXTRA(SGD(0.2, batch=5)), "differences")])  # fmt: skip
def test_memories_sum_to_zero_so_that_means_move_by_the_mean_gradient(method: Algorithm, memory: str) -> None:
    """The exchange keeps the mean of x, and of the memory, which training never moves."""
    run = Rounds(method, classifier(()), ring(PEERS))
    for _ in range(6):
        held = run.peers.state[memory].clone()
        run.train()
        assert torch.equal(run.peers.state[memory], held)
        before = run.mean
        run.exchange()
        torch.testing.assert_close(run.mean, before, rtol=0, atol=1e-14)
        assert float(run.peers.state[memory].sum(0).abs().max()) < 1e-12
        assert float(run.peers.state[memory].abs().max()) > 1e-3


# By hand, ring of 4, F_i = ½(x − b_i)², b = (1, 2, 3, 10), x⁰ = 0, η = .1. Wb = (13/3, 2, 5, 14/3).
#   GT: y⁰ = −b, x¹ = .1 Wb, c = b − Wb; y¹ = x¹ − b + c = −.9 Wb, x² = W(.1 Wb + .09 Wb) = .19 W²b,
#       W²b = (11/3, 34/9, 35/9, 14/3)
#   D², lazy: W̃b = (b + Wb)/2 = (8/3, 2, 4, 22/3), x¹ = .1 W̃b, x² = W̃(2x¹ − .1x¹) = .19 W̃²b,
#       W̃²b = (10/3, 22/9, 38/9, 6).  Not lazy: W in the place of W̃, which is GT's x¹ and x².
#   EXTRA: x¹ = .1b, x² = .09b + .1Wb, x³ = .9x² + Wx² − .05(b + Wb) + .01b
FIRST: dict[str, tuple[Algorithm, dict[int, tuple[float, ...]]]] = {
    "GT-DSGD": (GTDSGD(SGD(0.1)), {1: (1.3 / 3, 0.2, 0.5, 1.4 / 3),
                                   2: (2.09 / 3, 6.46 / 9, 6.65 / 9, 2.66 / 3)}),
    "D2": (D2(SGD(0.1)), {1: (0.8 / 3, 0.2, 0.4, 2.2 / 3), 2: (1.9 / 3, 4.18 / 9, 7.22 / 9, 1.14)}),
    "EXTRA": (EXTRA(SGD(0.1)), {1: (0.1, 0.2, 0.3, 1.0), 2: (1.57 / 3, 0.38, 0.77, 4.1 / 3),
                                3: (0.971, 6.478 / 9, 10.457 / 9, 4.45 / 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_first_rounds_by_hand(name: str) -> None:
    method, expected = FIRST[name]
    for rounds, x in expected.items():
        run = Rounds(method, quadratic(column(1, 2, 3, 10)), ring(4)).go(rounds)
        torch.testing.assert_close(run.models, column(*x), rtol=0, atol=1e-12)


def test_d2_as_printed_needs_the_least_eigenvalue_above_minus_a_third() -> None:
    """A ring of 4 has −1/3 and is refused, a ring of 5 has −.206; there it is the recursion of the paper."""
    with pytest.raises(covey.BadInput, match="lazy=True"):
        Rounds(D2(SGD(0.1), lazy=False), quadratic(column(1, 2, 3, 10)), ring(4))
    b = random(5, 2, seed=3)
    P, x = ring(5).round(0).weights.dense(), [torch.zeros(5, 2, dtype=torch.float64)]
    x.append(P @ (x[0] - 0.1 * (x[0] - b)))
    run = Rounds(D2(SGD(0.1), lazy=False), quadratic(b), ring(5)).go()
    for _ in range(20):
        x.append(P @ (2 * x[-1] - x[-2] - 0.1 * (x[-1] - x[-2])))
        torch.testing.assert_close(run.go().models, x[-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("local", [SGD(0.1, steps=2), SGD(0.1, epochs=1), SGD(0.1, steps=0)])
def test_several_steps_are_refused_where_they_would_bias(local: SGD) -> None:
    for method in (D2, EXTRA):
        with pytest.raises(covey.BadInput, match="one step"):
            method(local)
    with pytest.raises(covey.BadInput, match="momentum=0"):
        GTDSGD(SGD(0.1, momentum=0.9))
