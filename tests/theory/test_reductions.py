"""Where one method, with one switch set, is another (docs/papers.md, 3.7): an entry per arrow.

Trajectories are compared on an unlike-peers softmax classifier with mini-batches of 5 of 22 samples, momentum, weight
decay and clipping, over several rounds. Where both sides do the same arithmetic they must agree to the bit; where the
same sums are taken in another order, to rounding. `test_unlike_methods_differ` shows that equality is not vacuous.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from covey import SGD, Task, exchange
from covey.algorithms import (
    D2,
    DPSGD,
    EXTRA,
    GTDSGD,
    OSGP,
    SGP,
    Algorithm,
    DePRL,
    DFedAlt,
    DFedAvg,
    DFedAvgM,
    DFedAvgMP,
    DFedPGP,
    DFedSalt,
    DFedSAM,
    Ditto,
    DSGDm,
    FedAvg,
    FedAvgM,
    FedBABU,
    FedPer,
    FedRep,
    Local,
    QGDSGDm,
)  # fmt: skip
from covey.graphs import Graph, exponential, full, isolated, random_directed, ring, server
from covey.peers import Peers
from theory.problems import PEERS, classifier, random
from theory.rounds import Rounds, trajectory

ROUNDS = 3
BITS, ROUNDING = 0.0, 1e-12

STEP = SGD(0.3, epochs=1, batch=5, momentum=0.9, weight_decay=1e-3, clip=2.0, decay=0.9)
HEAD = SGD(0.1, steps=3, batch=5, momentum=0.5, decay=0.9)
ONE = SGD(0.3, steps=1, batch=5, momentum=0.9)
PLAIN = replace(STEP, momentum=0.0)
BARE = replace(ONE, momentum=0.0)
STEEP = replace(STEP, sam=0.2)
REST = SGD(0.1, steps=0)

PUSH = random_directed(PEERS, 2, seed=3)
PULL = random_directed(PEERS, 3, seed=3, weights="pull")  # weights of 1/4 add up to 1 exactly
PULL_THIRDS = random_directed(PEERS, 2, seed=3, weights="pull")


@dataclass(frozen=True)
class Arrow:
    """left on left_graph and right on right_graph (by default the same) have one trajectory on `task`.

    one_draw: the two train different groups of columns, whose batches are drawn apart; let them be drawn alike."""

    left: Algorithm
    right: Algorithm
    left_graph: Graph
    right_graph: Graph | None = None
    tolerance: float = BITS
    personal: str | tuple[str, ...] = ()
    one_draw: bool = False
    heads: bool = True  # every peer starts with its own


LOCALS = {  # with nobody to hear
    "DPSGD atc": DPSGD(STEP), "DFedAvgM": DFedAvgM(STEP), "DFedAvgMP": DFedAvgMP(STEP), "SGP": SGP(STEP),
    "OSGP": OSGP(STEP), "OSGP overlapped": OSGP(STEP, by=exchange.PushSum(overlap=True)), "FedAvg": FedAvg(STEP),
    "FedPer": FedPer(STEP),
}  # fmt: skip

ARROWS = {
    # DFedPGP
    "PGP, doubly stochastic = Alt": Arrow(DFedPGP(HEAD, STEP), DFedAlt(HEAD, STEP), ring(PEERS), personal="head"),
    "PGP, exact quarters = Alt": Arrow(DFedPGP(HEAD, STEP), DFedAlt(HEAD, STEP), exponential(PEERS), personal="head"),
    "PGP, pulled = Alt on that graph": Arrow(DFedPGP(HEAD, STEP), DFedAlt(HEAD, STEP), PULL, personal="head"),
    "PGP, pulled thirds = Alt": Arrow(DFedPGP(HEAD, STEP), DFedAlt(HEAD, STEP), PULL_THIRDS, personal="head"),
    "PGP, nothing personal = SGP": Arrow(DFedPGP(REST, STEP), SGP(STEP), PUSH, one_draw=True),
    # DFedSalt
    "Salt, rho 0 = Alt": Arrow(DFedSalt(HEAD, STEP), DFedAlt(HEAD, STEP), ring(PEERS), personal="head"),
    "Salt-UV, rho 0 = Alt": Arrow(DFedSalt(HEAD, STEP, on="both"), DFedAlt(HEAD, STEP), ring(PEERS), personal="head"),
    "Salt, nothing personal = DFedSAM": Arrow(DFedSalt(REST, STEEP), DFedSAM(STEEP), ring(PEERS), one_draw=True),
    "DFedSAM, rho 0 = DFedAvgM": Arrow(DFedSAM(STEP), DFedAvgM(STEP), ring(PEERS)),
    # DFedAlt
    "Alt, nothing personal = DFedAvgM": Arrow(DFedAlt(REST, STEP), DFedAvgM(STEP), ring(PEERS), one_draw=True),
    "Alt, all hear all = FedRep": Arrow(DFedAlt(HEAD, STEP), FedRep(HEAD, STEP), full(PEERS), server(PEERS),
                                        personal="head"),
    "DePRL, all hear all = FedRep": Arrow(DePRL(HEAD, ONE), FedRep(HEAD, ONE), full(PEERS), server(PEERS),
                                          personal="head"),
    "PGP, all hear all = FedRep": Arrow(DFedPGP(HEAD, STEP), FedRep(HEAD, STEP), full(PEERS), server(PEERS),
                                        personal="head", tolerance=ROUNDING),
    "DePRL = Alt with one body step": Arrow(DePRL(HEAD, ONE), DFedAlt(HEAD, ONE), ring(PEERS), personal="head"),
    # DFedAvg
    "DFedAvgM, theta 0 = DFedAvg": Arrow(DFedAvgM(PLAIN), DFedAvg(PLAIN), ring(PEERS)),
    "DFedAvg, one step = D-PSGD": Arrow(DFedAvg(ONE), DPSGD(ONE), ring(PEERS)),
    "DFedAvgM, all hear all = FedAvg": Arrow(DFedAvgM(STEP), FedAvg(STEP), full(PEERS), server(PEERS)),
    "D-PSGD, all hear all = FedAvg": Arrow(DPSGD(ONE), FedAvg(ONE), full(PEERS), server(PEERS)),
    "DFedAvgMP, nothing personal = DFedAvgM": Arrow(DFedAvgMP(STEP), DFedAvgM(STEP), ring(PEERS)),
    "DFedAvgMP, all hear all = FedPer": Arrow(DFedAvgMP(STEP), FedPer(STEP), full(PEERS), server(PEERS),
                                              personal="head"),
    # momentum that lives on
    "DSGDm, beta 0 = DFedAvg": Arrow(DSGDm(PLAIN), DFedAvg(PLAIN), ring(PEERS)),
    "QG, mu 0 = DFedAvg": Arrow(QGDSGDm(PLAIN, 0.0), DFedAvg(PLAIN), ring(PEERS)),
    "QG, mu 0, one step = D-PSGD": Arrow(QGDSGDm(BARE, 0.0), DPSGD(BARE), ring(PEERS)),
    "QG Nesterov, mu 0 = DFedAvg": Arrow(QGDSGDm(PLAIN, 0.0, nesterov=True), DFedAvg(PLAIN), ring(PEERS)),
    # corrected steps: with all hearing all, corrections cancel
    "GT, all hear all = FedAvg": Arrow(GTDSGD(BARE), FedAvg(BARE), full(PEERS), server(PEERS), tolerance=ROUNDING),
    "D2 as printed, all hear all = FedAvg": Arrow(D2(BARE, lazy=False), FedAvg(BARE), full(PEERS), server(PEERS),
                                                  tolerance=ROUNDING),
    "GT, isolated = Local": Arrow(GTDSGD(PLAIN), Local(PLAIN), isolated(PEERS)),
    "D2, isolated = Local": Arrow(D2(BARE), Local(BARE), isolated(PEERS)),
    "EXTRA, isolated = Local": Arrow(EXTRA(BARE), Local(BARE), isolated(PEERS), tolerance=ROUNDING),
    # push-sum of whole models
    "SGP, doubly stochastic = DFedAvgM": Arrow(SGP(STEP), DFedAvgM(STEP), ring(PEERS)),
    "SGP, pulled = DFedAvgM on that graph": Arrow(SGP(STEP), DFedAvgM(STEP), PULL),
    "SGP, all hear all = FedAvg": Arrow(SGP(STEP), FedAvg(STEP), full(PEERS), server(PEERS), tolerance=ROUNDING),
    "OSGP without overlap = SGP": Arrow(OSGP(STEP), SGP(STEP), PUSH),
    # servers
    "FedAvgM, beta 0 = FedAvg": Arrow(FedAvgM(STEP, beta=0.0), FedAvg(STEP), server(PEERS, 0.5, seed=2),
                                      tolerance=ROUNDING),
    "Ditto, lambda 0 = Local": Arrow(Ditto(STEP, 0.0), Local(STEP), server(PEERS), isolated(PEERS), one_draw=True),
    "FedBABU, seen untuned = FedRep without head steps": Arrow(
        FedBABU(STEP, REST), FedRep(REST, STEP), server(PEERS, 0.5, seed=2), personal="head", heads=False),
    "FedPer, nothing personal = FedAvg": Arrow(FedPer(STEP), FedAvg(STEP), server(PEERS, 0.5, seed=2)),
    "FedRep, nothing personal = FedAvg": Arrow(FedRep(REST, STEP), FedAvg(STEP), server(PEERS, 0.5, seed=2),
                                               one_draw=True),
    # nobody hears anybody
    **{f"{name}, isolated = Local": Arrow(method, Local(STEP), isolated(PEERS), personal="head")
       for name, method in LOCALS.items()},
    "D-PSGD cta, isolated = Local": Arrow(DPSGD(STEP, order="cta"), Local(STEP), isolated(PEERS), tolerance=ROUNDING),
    "FedAvgM beta 0, isolated = Local": Arrow(FedAvgM(STEP, beta=0.0), Local(STEP), isolated(PEERS),
                                              tolerance=ROUNDING),
    "Alt bodies only, isolated = Local": Arrow(DFedAlt(REST, STEP), Local(STEP), isolated(PEERS), one_draw=True),
}  # fmt: skip


@pytest.fixture
def one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every phase draws the batches of the phase named "all"."""
    keys = Peers._keys
    monkeypatch.setattr(Peers, "_keys", lambda self, purpose: keys(self, "all"))


@pytest.mark.parametrize("name", ARROWS)
def test_arrow(name: str, request: pytest.FixtureRequest) -> None:
    arrow = ARROWS[name]
    if arrow.one_draw:
        request.getfixturevalue("one_draw")
    task = classifier(arrow.personal, arrow.heads)
    left = trajectory(arrow.left, task, arrow.left_graph, ROUNDS)
    right = trajectory(arrow.right, task, arrow.right_graph or arrow.left_graph, ROUNDS)
    start = Rounds(arrow.left, task, arrow.left_graph).models
    assert float((left[-1] - start).abs().mean()) > 0.01  # something was learned
    torch.testing.assert_close(left, right, rtol=0, atol=arrow.tolerance)


# Joint and alternating training are one where body and head do not meet in the loss: F = f(u) + g(v)
SEPARABLE = {
    "FedPer = FedRep": (FedPer(STEP), FedRep(STEP, STEP), server(PEERS, 0.5, seed=2)),
    "DFedAvgMP = Alt": (DFedAvgMP(STEP), DFedAlt(STEP, STEP), ring(PEERS)),
    "DFedAvgMP pushed = PGP": (DFedAvgMP(STEP, by=exchange.PushSum()), DFedPGP(STEP, STEP), PUSH),
}


@pytest.mark.parametrize("name", SEPARABLE)
def test_joint_is_alternating_where_the_parts_do_not_meet(name: str, one_draw: None) -> None:
    joint, alternating, graph = SEPARABLE[name]
    joint, alternating = (_without_clip(method) for method in (joint, alternating))  # one norm or two

    params = {"body": random(3), "head": random(2, seed=1)}
    task = Task.from_function(
        lambda p, own: (p["body"] - own[:, :3]).square().sum(1).mean() + (p["head"] - own[:, 3:]).pow(4).sum(1).mean(),
        params, random(PEERS, 22, 5, seed=2), personal="head",
    )  # fmt: skip
    joined, in_turn = trajectory(joint, task, graph, ROUNDS), trajectory(alternating, task, graph, ROUNDS)
    torch.testing.assert_close(joined, in_turn, rtol=0, atol=ROUNDING)


def _without_clip(method: Algorithm) -> Algorithm:
    calm = replace(STEP, clip=None, lr=0.02)
    return replace(method, **{name: calm for name in ("local", "personal", "shared") if hasattr(method, name)})


ALONE = {
    "Alt": DFedAlt(HEAD, STEP),
    "Salt": DFedSalt(HEAD, STEEP),
    "PGP": DFedPGP(HEAD, STEP),
    "DePRL": DePRL(HEAD, ONE),
}


@pytest.mark.parametrize("name", ALONE)
def test_isolated_alternation_is_each_peer_alone(name: str) -> None:
    """W = I for the methods that alternate: a peer among others does what it does as the only one of its process."""
    method, task = ALONE[name], classifier()
    together = trajectory(method, task, isolated(PEERS), 3)
    for i in (0, 4):
        alone = Rounds(method, task.select(torch.tensor([i])), isolated(1))
        alone.peers.ids = torch.tensor([i])  # randomness is keyed by who a peer is
        apart = torch.stack([alone.go().models[0] for _ in range(3)])
        torch.testing.assert_close(apart, together[:, i], rtol=0, atol=ROUNDING)


UNLIKE = {
    "momentum that lives on": Arrow(DSGDm(STEP), DFedAvgM(STEP), ring(PEERS)),
    "momentum of the mixed model": Arrow(QGDSGDm(PLAIN), DSGDm(STEP), ring(PEERS)),
    "several exchanges": Arrow(DFedSAM(STEEP, gossips=2), DFedSAM(STEEP), ring(PEERS)),
    "corrections": Arrow(GTDSGD(PLAIN), DFedAvg(PLAIN), ring(PEERS)),
    "a pull": Arrow(Ditto(STEP, 0.5), Ditto(STEP, 0.0), server(PEERS)),
    "fine-tuning": Arrow(FedBABU(STEP, STEP), FedBABU(STEP, REST), server(PEERS), personal="head", heads=False),
    "momentum": Arrow(DFedAvgM(STEP), DFedAvg(PLAIN), ring(PEERS)),
    "local steps": Arrow(DFedAvg(STEP), DPSGD(ONE), ring(PEERS)),
    "order of D-PSGD": Arrow(DPSGD(ONE), DPSGD(ONE, order="cta"), ring(PEERS)),
    "graph": Arrow(DFedAvg(STEP), DFedAvg(STEP), ring(PEERS), full(PEERS)),
    "gossip or none": Arrow(DFedAvg(STEP), Local(STEP), ring(PEERS)),
    "rho": Arrow(DFedSalt(HEAD, STEEP), DFedAlt(HEAD, STEP), ring(PEERS), personal="head"),
    "where rho": Arrow(DFedSalt(HEAD, STEEP), DFedSalt(replace(HEAD, sam=0.2), STEP, on="personal"), ring(PEERS),
                       personal="head"),
    "push-sum on a directed graph": Arrow(DFedPGP(HEAD, STEP), DFedAlt(HEAD, STEP), PUSH, personal="head"),
    "push and pull": Arrow(SGP(STEP), SGP(STEP), PUSH, PULL_THIRDS),
    "joint or in turn": Arrow(DFedAvgMP(STEP), DFedAlt(STEP, STEP), ring(PEERS), personal="head", one_draw=True),
    "head private or not": Arrow(DFedAvgMP(STEP), DFedAvgM(STEP), ring(PEERS), personal="head"),
    "overlap": Arrow(OSGP(STEP, by=exchange.PushSum(overlap=True)), SGP(STEP), PUSH),
    "server momentum": Arrow(FedAvgM(STEP, beta=0.9), FedAvg(STEP), server(PEERS)),
    "server rate": Arrow(FedAvgM(STEP, beta=0.0, server_lr=0.5), FedAvg(STEP), server(PEERS)),
    "who is sampled": Arrow(FedAvg(STEP), FedAvg(STEP), server(PEERS, 0.5, seed=2), server(PEERS, 0.5, seed=3)),
    "sampling or all": Arrow(FedPer(STEP), FedPer(STEP), server(PEERS, 0.5, seed=2), server(PEERS), personal="head"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_methods_differ(name: str, request: pytest.FixtureRequest) -> None:
    pair = UNLIKE[name]
    if pair.one_draw:
        request.getfixturevalue("one_draw")
    task = classifier(pair.personal, pair.heads)
    left = trajectory(pair.left, task, pair.left_graph, ROUNDS)
    right = trajectory(pair.right, task, pair.right_graph or pair.left_graph, ROUNDS)
    assert float((left[-1] - right[-1]).abs().max()) > 1e-3
