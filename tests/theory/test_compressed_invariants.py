"""What compressed exchanges keep in every round, for every compressor, γ, trigger, H and order: the mean (eq. 3.9), the
copies, push-sum's two sums, and the virtual sequence of SQuARM-SGD."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from covey import SGD, compress, graphs, trigger
from covey.algorithms import SGP, SPARQ, Algorithm, DePRL, DFedAlt, DFedAvg, DFedAvgMP, DFedPGP, DFedSalt, DSGDm, SQuARM
from covey.exchange import Compressed, CompressedPush, ErrorFeedback
from covey.graphs import Graph, fixed, isolated, random_directed, ring
from theory.problems import PEERS, classifier, column, quadratic, random
from theory.rounds import Rounds, trajectory

STEP = SGD(0.2, steps=3, batch=5, momentum=0.9, weight_decay=1e-3, clip=2.0)
PLAIN, NEST = replace(STEP, momentum=0.0), replace(STEP, nesterov=True)
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

# what is kept in every round ------------------------------------------------------------------------------------------

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
            there = ids >= 0
            assert torch.equal(state["copies"][there], state["hat"][ids[there]])
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


@pytest.mark.parametrize("name", ["Sign", "SignTopK"])
def test_the_mean_stays_where_weights_are_unlike(name: str) -> None:
    """Metropolis weights of an irregular graph; both forms of the copies."""
    uneven = graphs.erdos_renyi(PEERS, 0.4, seed=3)
    assert len(set(uneven.round(0).weights.dense().flatten().tolist())) > 4
    for copies in ("sum", "each"):
        keeps_the_mean(DFedAlt(HEAD, STEP, by=Compressed(COMPRESSORS[name], 0.4, copies=copies)), graph=uneven)  # type: ignore[arg-type]


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


# the virtual sequence -------------------------------------------------------------------------------------------------


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
    """F = ½(x − 1)², β = .9, η = .1: x̃ = 0, 1, 1.81, 2.3851, while x³ = .672679."""
    run = Rounds(SQuARM(SGD(0.1), compress.Identity(), 1.0), quadratic(column(1)), isolated(1))
    found = [float(run.go().mean - 0.81 / 0.1 * run.peers.state["momentum"].mean(0)) for _ in range(3)]
    assert found == pytest.approx([1.0, 1.81, 2.3851], abs=1e-12)
    assert float(run.mean) == pytest.approx(0.672679, abs=5e-7)
