"""Compressed gossip and SQuARM-SGD against numbers worked out apart (algorithms.md, 4.3 and 6.3), what they reduce to
(6.1), and what they keep in every round (6.2), for every compressor, γ, trigger, H and order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from covey import SGD, BadInput, Task, UnsoundGraph, compress, graphs, trigger
from covey.algorithms import (
    CHOCO,
    DPSGD,
    SGP,
    SPARQ,
    Algorithm,
    DePRL,
    DFedAlt,
    DFedAvg,
    DFedAvgMP,
    DFedPGP,
    DFedSalt,
    DSGDm,
    SQuARM,
)  # fmt: skip
from covey.exchange import Compressed, CompressedPush, ErrorFeedback, Exchange, PushSum
from covey.exchange.gamma import theorem_1, theorem_2
from covey.graphs import Graph, exponential, fixed, from_matrix, full, isolated, random_directed, ring
from covey.graphs.soundness import check
from theory.problems import PEERS, classifier, column, quadratic, random
from theory.rounds import Rounds, trajectory

BITS, ROUNDING = 0.0, 1e-12
STEP = SGD(0.2, steps=3, batch=5, momentum=0.9, weight_decay=1e-3, clip=2.0)
PLAIN = replace(STEP, momentum=0.0)
ONE = SGD(0.2, batch=5)
HEAD = SGD(0.1, steps=2, batch=5, momentum=0.5)
RING = ring(PEERS)
PUSH = fixed(random_directed(PEERS, 2, seed=3))
COMPRESSORS: dict[str, compress.Compressor] = {
    "Identity": compress.Identity(), "Sign": compress.Sign(), "TopK": compress.TopK(4), "RandK": compress.RandK(0.2),
    "QSGD": compress.QSGD(3), "SignTopK": compress.SignTopK(0.2), "QTopK": compress.QTopK(0.3, levels=3),
    "whole Sign": compress.Whole(compress.Sign()),
}  # fmt: skip
SPEAKING = {"always": trigger.always, "never": trigger.never, "every 2": trigger.every(2), "norm": trigger.norm(20.0),
            "norm, unforced": trigger.norm(20.0, first=False), "capped": trigger.norm(1e9, cap=True),
            "per tensor": trigger.norm(10.0, per="tensor")}  # fmt: skip

# Numbers -------------------------------------------------------------------------------------------------------------

TARGETS = torch.tensor([[1, 2, 3], [-1, 0.5, 4]], dtype=torch.float64)
HALF = full(2)  # W = ½ 11ᵀ
TOP = compress.TopK(1)
# 6.3: F_i = ½‖x − b_i‖², η = .1, β = .9, γ = ½, Top1, H = 1, c = 0, everything from 0
POST = {1: ((0.19, 0.38, 0.6175), (-0.19, 0.095, 0.7125)),
        2: ((0.4249, 0.63735, 1.58595625), (-0.4249, 0.4249, 1.38834375))}  # fmt: skip
PRE = {1: ((0.19, 0.38, 0.57), (-0.19, 0.095, 0.76)), 2: ((0.4249, 0.8498, 1.3222), (-0.4249, 0.21245, 1.6521))}
NESTEROV = SGD(0.1, momentum=0.9, nesterov=True)
ON_TARGETS: dict[str, tuple[Algorithm, dict[int, tuple[tuple[float, ...], ...]]]] = {
    "SQuARM": (SQuARM(SGD(0.1), TOP, 0.5), POST),
    "CHOCO, post": (CHOCO(NESTEROV, TOP, 0.5), POST),
    "CHOCO, pre": (CHOCO(NESTEROV, TOP, 0.5, order="pre"), PRE),
}


@pytest.mark.parametrize("name", ON_TARGETS)
def test_by_hand(name: str) -> None:
    method, expected = ON_TARGETS[name]
    run = Rounds(method, quadratic(TARGETS), HALF)
    for x in expected.values():
        run.train()
        mean = run.mean
        run.exchange()
        torch.testing.assert_close(run.models, torch.tensor(x, dtype=torch.float64), rtol=0, atol=1e-12)
        torch.testing.assert_close(run.mean, mean, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("graph", "omega", "second", "first"), [
    (ring(6), 0.01, 1.2215e-4, 2.928e-9), (ring(8), 0.01, 8.931e-5, 1.716e-9), (ring(60), 0.01, 2.542e-6, 3.210e-11),
    (ring(6), 1.0, 0.013524, None), (ring(8), 1.0, 0.009611, None), (ring(60), 1.0, 2.5475e-4, None),
], ids=lambda v: str(v))  # fmt: skip
def test_steps_of_the_theorems(graph: Graph, omega: float, second: float, first: float | None) -> None:
    delta, lam = graph.gap(), 1 - graph.least()
    assert theorem_2(omega, delta, lam) == pytest.approx(second, rel=5e-4)
    if first is not None:
        assert theorem_1(omega, delta, lam) == pytest.approx(first, rel=5e-4)


def test_the_theorem_sees_the_least_omega() -> None:
    """TopK(k) is of the whole model (k / d), a share of each tensor (here ⌊d / 4⌋ / d of 15, 12 and 4: ¼ of 4 is 1)."""
    for compressor, omega in ((compress.TopK(4), 4 / 31), (compress.TopK(0.25), 3 / 15), (compress.Sign(), 1 / 15)):
        run = Rounds(CHOCO(ONE, compressor, "theory"), classifier(()), RING)
        expected = theorem_2(omega, RING.gap(), 1 - RING.least())
        assert float(run.peers.state["gamma"][0]) == pytest.approx(expected, rel=1e-12)


# 6.1: what reduces to what --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrow:
    left: Algorithm
    right: Algorithm
    left_graph: Graph = RING
    right_graph: Graph | None = None
    tolerance: float = BITS
    personal: str | tuple[str, ...] = ()


ID = compress.Identity()
SIGN = compress.SignTopK(0.3)
QUIET = trigger.norm(200.0)
NEST = replace(STEP, nesterov=True)
ONE_NEST = replace(ONE, momentum=0.9, nesterov=True)


def by(compressor: compress.Compressor, gamma: float = 1.0, **how: object) -> Exchange:
    return Compressed(compressor, gamma, **how)  # type: ignore[arg-type]


def lazy(graph: Graph, gamma: float) -> Graph:
    """(1 − γ) I + γ P."""
    P = graph.round(0).weights.dense()
    return from_matrix((1 - gamma) * torch.eye(len(P), dtype=torch.float64) + gamma * P)


ARROWS = {
    "SQuARM, β 0 = SPARQ": Arrow(SQuARM(PLAIN, SIGN, 0.4, QUIET, beta=0.0), SPARQ(PLAIN, SIGN, 0.4, QUIET)),
    "SQuARM, H 1, c 0 = CHOCO with Nesterov": Arrow(SQuARM(ONE, SIGN, 0.4), CHOCO(ONE_NEST, SIGN, 0.4),
                                                     tolerance=ROUNDING),
    "SPARQ, always = CHOCO": Arrow(SPARQ(PLAIN, SIGN, 0.4), CHOCO(PLAIN, SIGN, 0.4)),
    "SQuARM, C id, γ 1, H 1 = D-SGD with Nesterov": Arrow(SQuARM(ONE, ID, 1.0), DSGDm(ONE_NEST), tolerance=ROUNDING),
    "SQuARM, C id, γ 1, c 0 = DSGDm": Arrow(SQuARM(PLAIN, ID, 1.0, trigger.norm(0.0)), DSGDm(NEST), tolerance=ROUNDING),
    "SQuARM, c ∞ = alone": Arrow(SQuARM(PLAIN, SIGN, 0.4, trigger.norm(1e300, first=False)), DSGDm(NEST), RING,
                                 isolated(PEERS), tolerance=ROUNDING),
    "SQuARM, silent = alone": Arrow(SQuARM(PLAIN, SIGN, 0.4, trigger.never), DSGDm(NEST), RING, isolated(PEERS),
                                    tolerance=ROUNDING),
    "CHOCO, C id, γ 1 = D-PSGD": Arrow(CHOCO(ONE, ID, 1.0), DPSGD(ONE), tolerance=ROUNDING),
    "DSGDm, β 0 = DFedAvg": Arrow(DSGDm(PLAIN), DFedAvg(PLAIN)),
    "DFedAlt, C id, γ 1": Arrow(DFedAlt(HEAD, STEP, by=by(ID)), DFedAlt(HEAD, STEP), tolerance=ROUNDING, personal="head"),
    "DFedSalt, C id, γ 1": Arrow(DFedSalt(HEAD, replace(STEP, sam=0.1), by=by(ID)), DFedSalt(HEAD, replace(STEP, sam=0.1)),
                                 tolerance=ROUNDING, personal="head"),
    "DePRL, C id, γ 1": Arrow(DePRL(HEAD, ONE, by=by(ID)), DePRL(HEAD, ONE), tolerance=ROUNDING, personal="head"),
    "C id, γ = the lazy matrix": Arrow(DFedAlt(HEAD, STEP, by=by(ID, 0.3)), DFedAlt(HEAD, STEP), RING, lazy(RING, 0.3),
                                       tolerance=ROUNDING, personal="head"),
    "known copies of the first model": Arrow(DFedAvg(STEP, by=by(ID, 0.3, known=True)), DFedAvg(STEP, by=by(ID, 0.3)),
                                             tolerance=ROUNDING),
    "push, C id, γ 1 = DFedPGP": Arrow(DFedPGP(HEAD, STEP, by=CompressedPush(ID, 1.0)), DFedPGP(HEAD, STEP), PUSH,
                                       tolerance=ROUNDING, personal="head"),
    "push, C id = DFedPGP on the lazy matrix": Arrow(DFedPGP(HEAD, STEP, by=CompressedPush(ID, 0.4)), DFedPGP(HEAD, STEP),
                                                     PUSH, lazy(PUSH, 0.4), tolerance=ROUNDING, personal="head"),
    "push = gossip where W is symmetric": Arrow(SGP(STEP, by=CompressedPush(SIGN, 0.4)), DFedAvg(STEP, by=by(SIGN, 0.4)),
                                                tolerance=ROUNDING),
    "feedback, C id, γ 1 = DFedAvg": Arrow(DFedAvg(STEP, by=ErrorFeedback(ID, 1.0)), DFedAvg(STEP), tolerance=ROUNDING),
    "whole = one tensor": Arrow(DFedAvg(STEP, by=by(compress.Whole(compress.TopK(0.2)), 0.4)),
                                DFedAvg(STEP, by=by(compress.TopK(6), 0.4))),
}  # fmt: skip


@pytest.mark.parametrize("name", ARROWS)
def test_arrow(name: str) -> None:
    arrow = ARROWS[name]
    task = classifier(arrow.personal, heads=bool(arrow.personal))
    left = trajectory(arrow.left, task, arrow.left_graph, 4)
    right = trajectory(arrow.right, task, arrow.right_graph or arrow.left_graph, 4)
    assert float((left[-1] - left[0]).abs().mean()) > 0.01  # something was learned
    torch.testing.assert_close(left, right, rtol=0, atol=arrow.tolerance)


UNLIKE = {
    "compressor": (CHOCO(ONE, SIGN, 0.4), CHOCO(ONE, compress.TopK(0.3), 0.4)),
    "γ": (CHOCO(ONE, SIGN, 0.4), CHOCO(ONE, SIGN, 0.3)),
    "order": (CHOCO(ONE, SIGN, 0.4), CHOCO(ONE, SIGN, 0.4, order="pre")),
    "trigger": (SPARQ(PLAIN, SIGN, 0.4), SPARQ(PLAIN, SIGN, 0.4, QUIET)),
    "first round": (SPARQ(PLAIN, SIGN, 0.4, QUIET), SPARQ(PLAIN, SIGN, 0.4, replace(QUIET, first=False))),
    "β": (SQuARM(PLAIN, SIGN, 0.4), SPARQ(PLAIN, SIGN, 0.4)),
    "momentum that lives on": (SQuARM(PLAIN, ID, 1.0), DFedAvg(NEST)),
    "copies at the first model": (DFedAvg(STEP, by=by(SIGN, 0.4, known=True)), DFedAvg(STEP, by=by(SIGN, 0.4))),
    "whole": (DFedAvg(STEP, by=by(compress.Sign(), 0.4)), DFedAvg(STEP, by=by(compress.Whole(compress.Sign()), 0.4))),
    "feedback": (DFedAvg(STEP, by=by(SIGN, 0.4)), DFedAvg(STEP, by=ErrorFeedback(SIGN, 0.4))),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_ones_differ(name: str) -> None:
    one, other = (trajectory(method, classifier((), heads=False), RING, 4)[-1] for method in UNLIKE[name])
    assert float((one - other).abs().max()) > 1e-3


# 6.2: what is kept in every round -------------------------------------------------------------------------------------

METHODS = {
    "DFedAvg": DFedAvg(STEP), "DSGDm": DSGDm(NEST), "DFedAlt": DFedAlt(HEAD, STEP), "DePRL": DePRL(HEAD, ONE),
    "DFedSalt": DFedSalt(HEAD, replace(STEP, sam=0.1)), "DFedAvgM-P": DFedAvgMP(STEP),
}  # fmt: skip


def keeps_the_mean(method: Algorithm, rounds: int = 4, graph: Graph = RING) -> Rounds:
    """Eq. 3.9; and what is kept of the copies is what it should be."""
    run = Rounds(method, classifier(), graph)
    W = graph.round(0).weights.dense()
    for _ in range(rounds):
        run.train()
        before, apart = run.mean, run.peers.shared.clone()
        run.exchange()
        torch.testing.assert_close(run.mean, before, rtol=0, atol=2e-14)
        state = run.peers.state
        if "sum" in state:
            torch.testing.assert_close(state["sum"], W @ state["hat"], rtol=0, atol=1e-13)
        if "copies" in state:
            ids = run.link.neighbours()
            assert torch.equal(state["copies"], state["hat"][ids])
        moved = not torch.equal(run.peers.shared, apart)
    assert moved
    return run


@pytest.mark.parametrize("gamma", [0.05, 1.0, "auto", "usual"], ids=str)
@pytest.mark.parametrize("name", COMPRESSORS)
def test_the_mean_stays_for_every_compressor_and_gamma(name: str, gamma: float) -> None:
    for order in ("post", "pre"):
        keeps_the_mean(DFedAvg(STEP, by=Compressed(COMPRESSORS[name], gamma, order=order)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in SPEAKING if name != "never"])
@pytest.mark.parametrize("method", METHODS)
def test_the_mean_stays_for_every_method_and_trigger(method: str, name: str) -> None:
    exchange = Compressed(compress.SignTopK(0.3), 0.4, SPEAKING[name])
    keeps_the_mean(replace(METHODS[method], by=exchange))


@pytest.mark.parametrize("name", COMPRESSORS)
def test_feedback_keeps_the_mean_on_graphs_that_change(name: str) -> None:
    method = DFedAlt(HEAD, STEP, by=ErrorFeedback(COMPRESSORS[name], 0.2))
    run = Rounds(method, classifier(), graphs.random_undirected(PEERS, 3, seed=1))
    for _ in range(4):
        run.train()
        wanted = run.peers.shared + run.peers.state["error"]
        before = run.mean
        run.exchange()
        torch.testing.assert_close(run.mean, before, rtol=0, atol=2e-14)
        assert bool((run.peers.state["error"] != 0).any()) == (name != "Identity")
        assert wanted.isfinite().all()


@pytest.mark.parametrize("name", COMPRESSORS)
def test_sums_of_copies_do_what_copies_do(name: str) -> None:
    """The memory-efficient form has the same trajectory, and every copy of x̂_i is x̂_i (in `keeps_the_mean`)."""
    for which in ("always", "norm"):
        one = Compressed(COMPRESSORS[name], 0.4, SPEAKING[which])
        found = [trajectory(DFedAlt(HEAD, STEP, by=exchange), classifier(), RING, 4)
                 for exchange in (one, replace(one, copies="each"))]  # fmt: skip
        torch.testing.assert_close(*found, rtol=0, atol=1e-12)
    keeps_the_mean(DFedAlt(HEAD, STEP, by=replace(one, copies="each")))


def test_who_is_silent_is_left_where_it_was() -> None:
    """x̂ moves only where something is said, and then at its owner and in its neighbours' sums alike."""
    run = Rounds(SPARQ(PLAIN, compress.TopK(0.3), 0.4, trigger.norm(8.0)), classifier(()), RING)
    silent = 0
    for _ in range(8):
        run.train()
        hat, spoke = run.peers.state["hat"].clone(), run.peers.state["spoke"][:, 0].clone()
        run.exchange()
        said = run.peers.state["spoke"][:, 0] > spoke
        assert torch.equal((run.peers.state["hat"] != hat).any(1), said)
        silent += int((~said).sum())
    assert 0 < silent < 8 * PEERS


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("which", ["always", "norm", "every 2"])
def test_compressed_push_sum_keeps_its_sums(name: str, which: str) -> None:
    """Σx stays in the exchange, Σμ = m always, μ > 0; the graph is not regular, so mass is at work."""
    method = DFedPGP(HEAD, STEP, by=CompressedPush(COMPRESSORS[name], 0.3, SPEAKING[which]))
    run = Rounds(method, classifier(), PUSH)
    for _ in range(5):
        run.train()
        before = run.peers.shared.sum(0)
        run.exchange()
        mass = run.peers.state["mass"]
        torch.testing.assert_close(run.peers.shared.sum(0), before, rtol=0, atol=2e-13)
        assert float(mass.sum()) == pytest.approx(PEERS, abs=1e-13) and float(mass.min()) > 0
    assert float(mass.std()) > 1e-3


@pytest.mark.parametrize("name", ["TopK", "RandK", "SignTopK", "QTopK", "QSGD"])
def test_compressed_push_sum_agrees_on_the_true_mean(name: str) -> None:
    """And linearly: as far again in the second half."""
    x = random(PEERS, 20, seed=3)
    task = quadratic(0 * x, start=x)
    run = Rounds(SGP(SGD(0.1, steps=0), by=CompressedPush(COMPRESSORS[name], "usual")), task, PUSH)
    apart = [float((run.go(150).models - x.mean(0)).norm()) for _ in range(2)]
    assert apart[0] < 0.1 * float((x - x.mean(0)).norm())
    assert apart[1] < 0.1 * apart[0]
    assert float((run.peers.shared - x.mean(0)).norm()) > 0.1  # x alone is no model: it wants its mass


def test_signs_agree_as_well() -> None:
    """A sign says as much of every number, so zeros are overshot and the last digits take long; but the mean is met."""
    x = random(8, 40, seed=1)
    run = Rounds(
        DFedAvg(SGD(0.1, steps=0), by=Compressed(compress.Sign(), "usual")), quadratic(0 * x, start=x), ring(8)
    )
    assert float((run.go(200).models - x.mean(0)).norm()) < 1e-3


# 4.3: the virtual sequence --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speak", ["always", "never", "norm", "per tensor", "every 2"])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("gamma", [0.2, 1.0, "auto"], ids=str)
@pytest.mark.parametrize("name", COMPRESSORS)
def test_the_virtual_sequence(name: str, gamma: float, steps: int, speak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """x̃ = x̄ − (ηβ² / (1 − β)) v̄ moves by exactly −(η / (1 − β)) Σ ḡ in a round, the sum being over its H steps: with a
    softmax classifier, mini-batches, and whatever is said to whom. Kept momentum is u = ηv."""
    if speak == "per tensor" and COMPRESSORS[name].whole:
        pytest.skip("a compressor of the whole model has no tensors to be silent about")
    eta, beta, seen = 0.1, 0.8, []
    original = SGD.step

    def spy(self: SGD, x: Tensor, gradient: Tensor, velocity: Tensor | None, lr: float) -> None:
        assert len(gradient) == PEERS
        seen.append(gradient.mean(0))
        original(self, x, gradient, velocity, lr)

    monkeypatch.setattr(SGD, "step", spy)
    method = SQuARM(SGD(eta, steps=steps, batch=5), COMPRESSORS[name], gamma, SPEAKING[speak], beta=beta)  # type: ignore[arg-type]
    run = Rounds(method, classifier(()), RING)

    def virtual() -> Tensor:
        return run.mean - beta**2 / (1 - beta) * run.peers.state["momentum"].mean(0)

    before = virtual()
    for _ in range(3):
        seen.clear()
        run.go()
        assert len(seen) == steps
        expected = before - eta / (1 - beta) * torch.stack(seen).sum(0)
        before = virtual()
        torch.testing.assert_close(before, expected, rtol=0, atol=1e-13)


def test_the_virtual_sequence_of_one_node() -> None:
    """6.3: F = ½(x − 1)², β = .9, η = .1: x̃ = 0, 1, 1.81, 2.3851, while x³ = .672679."""
    run = Rounds(SQuARM(SGD(0.1), ID, 1.0), quadratic(column(1)), isolated(1))
    found = [float(run.go().mean - 0.81 / 0.1 * run.peers.state["momentum"].mean(0)) for _ in range(3)]
    assert found == pytest.approx([1.0, 1.81, 2.3851], abs=1e-12)
    assert float(run.mean) == pytest.approx(0.672679, abs=5e-7)


# What cannot be sound is refused ---------------------------------------------------------------------------------------


def refused(method: Algorithm, graph: Graph, task: Task | None = None) -> str:
    with pytest.raises(BadInput) as problem:
        check(graph, method.needs, type(method).__name__)
        Rounds(method, task or classifier(()), graph)
    assert "\n" not in str(problem.value) and str(problem.value).endswith(".")
    return str(problem.value)


CHANGING = graphs.random_undirected(PEERS, 3, seed=1)


def test_copies_need_a_graph_that_never_changes() -> None:
    for method in (
        CHOCO(ONE, SIGN, 0.3),
        SPARQ(ONE, SIGN, 0.3),
        SQuARM(ONE, SIGN, 0.3),
        DFedAvg(ONE, by=by(SIGN, 0.3)),
    ):
        assert "never change" in refused(method, CHANGING)
        assert "symmetric doubly stochastic" in refused(method, PUSH)
    assert "never change" in refused(SGP(ONE, by=CompressedPush(SIGN, 0.3)), random_directed(PEERS, 2, seed=3))
    assert "column" in refused(SGP(ONE, by=CompressedPush(SIGN, 0.3)),
                               fixed(random_directed(PEERS, 2, seed=3, weights="pull")))  # fmt: skip
    with pytest.raises(BadInput, match="copies='each' needs neighbours that stay"):
        Rounds(DFedAvg(ONE, by=by(SIGN, 0.3, copies="each")), classifier(()), CHANGING)
    check(CHANGING, DFedAvg(ONE, by=ErrorFeedback(SIGN, 0.1)).needs, "DFedAvg")
    check(fixed(CHANGING), CHOCO(ONE, SIGN, 0.3).needs, "CHOCO")
    with pytest.raises(UnsoundGraph):
        check(CHANGING, DFedAvg(ONE, by=by(SIGN, 0.3)).needs, "DFedAvg")


def test_gammas_out_of_range() -> None:
    for gamma in (0, -0.1, 1.5, float("nan"), "often"):
        for kind in (Compressed, CompressedPush, ErrorFeedback):
            with pytest.raises(BadInput, match="gamma="):
                kind(SIGN, gamma)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="wants|number"):
        ErrorFeedback(SIGN, "auto")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="symmetric weights"):
        CompressedPush(SIGN, "theory")
    with pytest.raises(BadInput, match="copies='each'"):
        Compressed(SIGN, "auto", copies="each")
    with pytest.raises(BadInput, match="leave copies='sum'"):
        CompressedPush(SIGN, 0.3, order="pre")


def test_what_does_not_fit_the_model() -> None:
    assert "keeps more than the 31 numbers" in refused(CHOCO(ONE, compress.TopK(32), 0.3), RING)
    assert "start from different shared models" in refused(
        DFedAvg(ONE, by=by(SIGN, 0.3, known=True)), RING, classifier(())
    )
    assert "is not connected" in refused(CHOCO(ONE, SIGN), isolated(PEERS))
    for beta in (-0.1, 1.0):
        with pytest.raises(BadInput, match="beta"):
            SQuARM(ONE, SIGN, 0.3, beta=beta)
    with pytest.raises(BadInput, match="momentum=0"):
        SQuARM(STEP, SIGN, 0.3, beta=0.5)


def test_push_sum_is_compressed_by_the_same_matrix_as_its_mass() -> None:
    """γ acts on x and on μ alike: equal x stay equal models on every column-stochastic graph."""
    x = random(1, 5).expand(PEERS, 5).clone()
    run = Rounds(SGP(SGD(0.1, steps=0), by=CompressedPush(ID, 0.3)), quadratic(0 * x, start=x), PUSH)
    for _ in range(5):
        torch.testing.assert_close(run.go().models, x, rtol=0, atol=1e-14)
    assert isinstance(SGP(ONE).by, PushSum) and exponential(PEERS).fixed
