"""Compressed gossip and SQuARM-SGD against numbers worked out apart, what they reduce to, and what they
keep in every round, for every compressor, γ, trigger, H and order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

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
    DFedPGP,
    DFedSalt,
    DSGDm,
    SQuARM,
)  # fmt: skip
from covey.exchange import Compressed, CompressedPush, ErrorFeedback, Exchange, PushSum
from covey.exchange.gamma import theorem_1, theorem_2
from covey.graphs import Graph, exponential, fixed, from_matrix, full, isolated, random_directed, ring
from covey.graphs.soundness import check
from theory.problems import PEERS, classifier, quadratic, random
from theory.rounds import Rounds, trajectory

BITS, ROUNDING = 0.0, 1e-12
STEP = SGD(0.2, steps=3, batch=5, momentum=0.9, weight_decay=1e-3, clip=2.0)
PLAIN = replace(STEP, momentum=0.0)
ONE = SGD(0.2, batch=5)
HEAD = SGD(0.1, steps=2, batch=5, momentum=0.5)
RING = ring(PEERS)
PUSH = fixed(random_directed(PEERS, 2, seed=3))

# Numbers -------------------------------------------------------------------------------------------------------------

TARGETS = torch.tensor([[1, 2, 3], [-1, 0.5, 4]], dtype=torch.float64)
HALF = full(2)  # W = ½ 11ᵀ
TOP = compress.TopK(1)
# F_i = ½‖x − b_i‖², η = .1, β = .9, γ = ½, Top1, H = 1, c = 0, everything from 0
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


# what reduces to what -------------------------------------------------------------------------------------------------


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
QUIET, SHY = trigger.norm(200.0), trigger.norm(1e5)
NEST = replace(STEP, nesterov=True)
ONE_NEST = replace(ONE, momentum=0.9, nesterov=True)
ALT, SALT, PGP = DFedAlt(HEAD, STEP), DFedSalt(HEAD, replace(STEP, sam=0.1)), DFedPGP(HEAD, STEP)


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
    "DFedAlt, C id, γ 1": Arrow(replace(ALT, by=by(ID)), ALT, tolerance=ROUNDING, personal="head"),
    "DFedSalt, C id, γ 1": Arrow(replace(SALT, by=by(ID)), SALT, tolerance=ROUNDING, personal="head"),
    "DePRL, C id, γ 1": Arrow(DePRL(HEAD, ONE, by=by(ID)), DePRL(HEAD, ONE), tolerance=ROUNDING, personal="head"),
    "C id, γ = the lazy matrix": Arrow(replace(ALT, by=by(ID, 0.3)), ALT, RING, lazy(RING, 0.3), tolerance=ROUNDING,
                                       personal="head"),
    "known copies of the first model": Arrow(DFedAvg(STEP, by=by(ID, 0.3, known=True)), DFedAvg(STEP, by=by(ID, 0.3)),
                                             tolerance=ROUNDING),
    "push, C id, γ 1 = DFedPGP": Arrow(replace(PGP, by=CompressedPush(ID, 1.0)), PGP, PUSH, tolerance=ROUNDING,
                                       personal="head"),
    "push, C id = DFedPGP on the lazy matrix": Arrow(replace(PGP, by=CompressedPush(ID, 0.4)), PGP, PUSH,
                                                     lazy(PUSH, 0.4), tolerance=ROUNDING, personal="head"),
    "push = gossip where W is symmetric": Arrow(SGP(STEP, by=CompressedPush(SIGN, 0.4)),
                                                DFedAvg(STEP, by=by(SIGN, 0.4)), tolerance=ROUNDING),
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
    "first round": (SPARQ(PLAIN, SIGN, 0.4, SHY), SPARQ(PLAIN, SIGN, 0.4, replace(SHY, first=False))),
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


# What cannot be sound is refused --------------------------------------------------------------------------------------


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
    with pytest.raises(BadInput, match="is no number"):
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
