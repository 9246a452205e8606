"""The methods that papers compare with: numbers worked out by hand, and what each of them keeps.

Numbers with six decimals are met to 6e-7; where their equations stand: docs/papers.md, 3.9.
"""

from __future__ import annotations

import pytest
import torch

from covey import SGD, BadInput, Task
from covey.algorithms import DFedSAM, Ditto, DSGDm, FedAvg, FedBABU, QGDSGDm
from covey.graphs import isolated, ring, server
from theory.problems import PEERS, classifier, column, quadratic
from theory.rounds import Rounds, fingerprint, trajectory

PRINTED, EXACT = 6e-7, 1e-12
B = column(1, 2, 3, 10)
STEP = SGD(0.3, epochs=1, batch=5, momentum=0.9, weight_decay=1e-3, clip=2.0, decay=0.9)
HALF = server(PEERS, 0.5, seed=2)


def assert_near(found: torch.Tensor, expected: torch.Tensor, tolerance: float = EXACT) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


# DFedSAM ---------------------------------------------------------------------------------------------------------


def test_dfedsam_takes_one_norm_over_the_whole_model() -> None:
    """½‖u − (3, 4)‖² + ½(v − 12)², u = v = 0, ρ = 1.3, η = .1: ‖g‖ = 13, ε = −(.3, .4, 1.2), g = −(3.3, 4.4, 13.2)."""
    params = {name: torch.zeros(k, dtype=torch.float64) for name, k in (("u", 2), ("v", 1))}
    task = Task.from_function(lambda p, b: 0.5 * (p["u"] - b[:2]).square().sum() + 0.5 * (p["v"] - b[2]).square().sum(),
                              params, torch.tensor([[3.0, 4.0, 12.0]] * 2, dtype=torch.float64), "v")  # fmt: skip
    run = Rounds(DFedSAM(SGD(0.1, sam=1.3)), task, isolated(2)).go()
    assert_near(run.models, torch.tensor([[0.33, 0.44, 1.32]] * 2, dtype=torch.float64))


def test_dfedsam_mgs_gossips_several_times_and_pays_for_each() -> None:
    """W²b on the ring of 4: (11/3, 34/9, 35/9, 14/3)."""
    once, twice = (Rounds(DFedSAM(SGD(0.1, steps=0), gossips=k), quadratic(0 * B, start=B), ring(4)).go()
                   for k in (1, 2))  # fmt: skip
    assert_near(twice.models, column(11 / 3, 34 / 9, 35 / 9, 14 / 3))
    assert twice.link.traffic.formula.links == 2 * once.link.traffic.formula.links == 2 * 32 * 8
    with pytest.raises(BadInput, match="gossips=0"):
        DFedSAM(SGD(0.1), gossips=0)


# Ditto -----------------------------------------------------------------------------------------------------------


def test_ditto_by_hand() -> None:
    """½(w − b_i)², η = .1, λ = .75. Round 1 pulls to 0: w̃ = .1b, w = .4. Round 2 pulls to .4, the model that the round
    began with, and not to the .76 that it ends with: w̃ = .1b − .1(.1b − b + .75(.1b − .4)) = .1825b + .03."""
    run = Rounds(Ditto(SGD(0.1)), quadratic(B), server(4)).go()
    assert_near(run.models, 0.1 * B)
    assert_near(run.peers.rows, column(*[0.4] * 4))
    assert_near(run.go().models, 0.1825 * B + 0.03)
    assert_near(run.peers.rows, column(*[0.76] * 4))


def test_ditto_ends_between_its_own_and_the_common_optimum() -> None:
    """w* = mean b, w̃* = (b + λ mean b)/(1 + λ): (2.285714, 2.857143, 3.428571, 7.428571) for λ = .75."""
    run = Rounds(Ditto(SGD(0.1), 0.75), quadratic(B), server(4)).go(250)
    assert_near(run.models, column(2.285714, 2.857143, 3.428571, 7.428571), PRINTED)
    assert_near(run.peers.rows, column(4, 4, 4, 4), PRINTED)


def test_a_strong_pull_is_one_gradient_step_from_the_global_model() -> None:
    """ηλ = 1: w̃⁺ = w̃ − η g(w̃) − (w̃ − w) = w − η g(w̃)."""
    run = Rounds(Ditto(SGD(0.1), 10.0), quadratic(B), server(4)).go(3)
    w, personal = run.peers.rows.clone(), run.models
    assert_near(run.go().models, w - 0.1 * (personal - B))


@pytest.mark.parametrize("own", [None, SGD(0.1, epochs=3, batch=5)], ids=["5 + 5", "2 + 3"])
def test_the_global_part_of_ditto_is_fedavg(own: SGD | None) -> None:
    """Whatever the personal model does; and the personal one never enters a message."""
    ditto, plain = Rounds(Ditto(STEP, 2.0, own), classifier(()), HALF), Rounds(FedAvg(STEP), classifier(()), HALF)
    for _ in range(4):
        ditto.train()
        ditto.peers.state["personal"][0] = torch.nan
        ditto.exchange()
        assert torch.equal(ditto.peers.rows, plain.go().peers.rows)
    assert ditto.link.traffic.as_dict() == plain.link.traffic.as_dict()


# FedBABU ---------------------------------------------------------------------------------------------------------


def two_part() -> Task:
    """F_i = ½(u + v − b_i)², b = (1, 2, 6), from 0; v personal."""
    zero = {name: torch.zeros(1, dtype=torch.float64) for name in "uv"}
    return Task.from_function(lambda p, b: 0.5 * (p["u"] + p["v"] - b).square().sum(), zero, column(1, 2, 6), "v")


def test_fedbabu_by_hand() -> None:
    """η = .1. u_i = .1b, mean .3, v = 0. One step of fine-tuning at .5: u = .3 − .5(.3 − b) = .15 + .5b and
    v = −.15 + .5b. Round 2 goes on from .3 and 0, not from there: the mean of .3 − .1(.3 − b) is .57."""
    run = Rounds(FedBABU(SGD(0.1), SGD(0.5)), two_part(), server(3)).go()
    b = column(1, 2, 6)
    assert_near(run.models, torch.cat([0.15 + 0.5 * b, -0.15 + 0.5 * b], 1))
    assert_near(run.go().peers.rows, torch.tensor([[0.57, 0.0]] * 3, dtype=torch.float64))


def test_the_head_of_fedbabu_never_moves_and_looking_leaves_no_trace() -> None:
    looked, unseen = (Rounds(FedBABU(STEP, STEP), classifier(heads=False), HALF) for _ in range(2))
    first = looked.peers.personal.clone()
    for _ in range(4):
        looked.go()
        before = fingerprint(looked)
        tuned = looked.models
        assert fingerprint(looked) == before
        assert torch.equal(looked.peers.personal, first)
        own = looked.peers.task.layout.personal
        assert not (tuned[:, own] == first).all(1).any()  # everybody is fine-tuned, sampled or not
        assert not (tuned == looked.peers.rows).any(0).all()
    unseen.go(4)
    assert fingerprint(looked) == fingerprint(unseen)


def test_fedbabu_has_one_head_for_all() -> None:
    with pytest.raises(BadInput, match="one head for all"):
        Rounds(FedBABU(STEP, STEP), classifier(heads=True), HALF)
    with pytest.raises(BadInput, match="none; name the head"):
        Rounds(FedBABU(STEP, STEP), classifier(()), HALF)


# Momentum that lives on ------------------------------------------------------------------------------------------

# One node, ½(x − 1)², x⁰ = 0, η = .1, β = μ = .9.
#   heavy ball: v = −1, −1.8, −2.34 (a buffer that began anew each round would give .1, .19, .271)
#   Nesterov: x³ is that of the virtual sequence of docs/papers.md, 3.8
#   QG: printed. QG Nesterov: d = 1.9g + .81m̂ = −1.9; −1.539 − .1539; so x = .19, .35929; m̂ = −.19, −.34029
ALONE = {
    "heavy ball": (DSGDm(SGD(0.1, momentum=0.9)), (0.1, 0.28, 0.514), (-1, -1.8, -2.34)),
    "Nesterov": (DSGDm(SGD(0.1, momentum=0.9, nesterov=True)), (0.19, 0.4249, 0.672679), (-1, -1.71, -2.1141)),
    "QG": (QGDSGDm(SGD(0.1), 0.9), (0.1, 0.199, 0.29611), (-0.1, -0.189, -0.26721)),
    "QG Nesterov": (QGDSGDm(SGD(0.1), 0.9, nesterov=True), (0.19, 0.35929), (-0.19, -0.34029)),
}


@pytest.mark.parametrize("name", ALONE)
def test_momentum_by_hand(name: str) -> None:
    method, points, buffers = ALONE[name]
    run = Rounds(method, quadratic(column(1)), isolated(1))
    for x, v in zip(points, buffers, strict=True):
        run.go()
        assert_near(run.models, column(x), PRINTED)
        assert_near(run.peers.state["momentum"], column(v), PRINTED)


def test_a_buffer_is_never_mixed_and_the_quasi_global_one_follows_the_mixed_model() -> None:
    """Ring of 4: after a round each DSGDm buffer is its own −b, and QG's is (1 − μ)(0 − x¹)/η with x¹ = .1 Wb."""
    own, common = (Rounds(method, quadratic(B), ring(4)).go() for method in (ALONE["heavy ball"][0], ALONE["QG"][0]))
    assert_near(own.peers.state["momentum"], -B)
    assert_near(common.peers.state["momentum"], -0.1 * column(13 / 3, 2, 5, 14 / 3))
    assert_near(common.models, 0.1 * column(13 / 3, 2, 5, 14 / 3))


def test_the_mean_of_dsgdm_moves_by_the_mean_buffer() -> None:
    run = Rounds(DSGDm(SGD(0.2, batch=5, momentum=0.9)), classifier(()), ring(PEERS))
    for _ in range(5):
        before = run.mean
        run.go()
        assert_near(run.mean, before - 0.2 * run.peers.state["momentum"].mean(0))


def test_quasi_global_momentum_where_the_rate_was_zero() -> None:
    """A warm-up from 0: nothing is divided by it, and m̂ stays."""
    warm = QGDSGDm(SGD(lambda step: 0.0 if step == 0 else 0.1))
    run = Rounds(warm, quadratic(B), ring(4)).go()
    assert torch.equal(run.peers.state["momentum"], 0 * B) and torch.equal(run.models, 0 * B)
    assert_near(run.go().models, 0.1 * column(13 / 3, 2, 5, 14 / 3))


def test_quasi_global_momentum_of_several_steps_is_their_mean() -> None:
    """½(x − 1)², 2 steps at .1, m̂ = 0: x = .1, .19; (x⁰ − x¹)/(.1 · 2) = −.95, a tenth of it is kept. In the next round
    .9 · −.095 = −.0855 is added to both gradients: x = .19 + .1(.81 + .0855) = .27955, .27955 + .1(.72045 + .0855)."""
    run = Rounds(QGDSGDm(SGD(0.1, steps=2)), quadratic(column(1)), isolated(1)).go()
    assert_near(run.peers.state["momentum"], column(-0.095))
    assert_near(run.go().models, column(0.27955 + 0.1 * 0.80595))


def test_momentum_has_one_source() -> None:
    with pytest.raises(BadInput, match="momentum=0"):
        QGDSGDm(SGD(0.1, momentum=0.9))
    assert trajectory(QGDSGDm(SGD(0.1), 0.5, kappa=0.5), quadratic(B), ring(4), 3).equal(
        trajectory(QGDSGDm(SGD(0.1), 0.5), quadratic(B), ring(4), 3))  # fmt: skip
