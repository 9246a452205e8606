"""What must hold of whole runs: looking changes nothing, and nothing but the seed decides (docs/papers.md, 3.8, items 7
and 8)."""

from __future__ import annotations

import random as python_random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import covey
from covey import SGD, Task, exchange
from covey.algorithms import (
    DPSGD,
    OSGP,
    Algorithm,
    DFedAlt,
    DFedAvgM,
    DFedAvgMP,
    DFedPGP,
    DFedSalt,
    FedAvg,
    FedAvgM,
    FedPer,
    FedRep,
)  # fmt: skip
from covey.engine.look import Looker
from covey.graphs import Graph, isolated, random_directed, random_undirected, server
from theory.problems import PEERS, classifier, random
from theory.rounds import Rounds, fingerprint, trajectory

STEP = SGD(0.3, epochs=1, batch=5, momentum=0.9, weight_decay=1e-3, clip=2.0)
HEAD = SGD(0.1, steps=3, batch=5, momentum=0.5)
PUSH, UNDIRECTED, HALF = random_directed(PEERS, 2), random_undirected(PEERS, 3), server(PEERS, 0.5)  # seeded by the run

METHODS: dict[str, tuple[Algorithm, Graph]] = {
    "D-PSGD cta": (DPSGD(STEP, order="cta"), UNDIRECTED),
    "DFedAvgM-P": (DFedAvgMP(STEP), UNDIRECTED),
    "DFedAlt": (DFedAlt(HEAD, STEP), UNDIRECTED),
    "DFedSalt": (DFedSalt(HEAD, replace(STEP, sam=0.1)), UNDIRECTED),
    "OSGP overlapped": (OSGP(STEP, by=exchange.PushSum(overlap=True)), PUSH),
    "DFedPGP": (DFedPGP(HEAD, STEP), PUSH),
    "FedAvg": (FedAvg(STEP), HALF),
    "FedAvgM": (FedAvgM(STEP), HALF),
    "FedPer": (FedPer(STEP), HALF),
    "FedRep": (FedRep(HEAD, STEP), HALF),
}
table = pytest.mark.parametrize(("method", "graph"), METHODS.values(), ids=METHODS)


def restless(personal: str = "out") -> Task:
    """A network whose training pass moves BatchNorm's statistics and draws dropout, on unlike peers with test sets."""
    x, y = random(PEERS, 24, 5, seed=1), torch.arange(24).remainder(3)
    parts = [(own[:16], y[:16], own[16:], y[16:]) for own in x + random(PEERS, 1, 5, seed=2)]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        body = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.3), nn.ReLU())
        network = nn.Sequential()
        network.add_module("body", body)
        network.add_module("out", nn.Linear(4, 3))
    return Task.from_module(network.double(), covey.data.from_peers(parts), personal=personal)


def generators() -> tuple[object, ...]:
    numpy = np.random.get_state()
    return torch.get_rng_state().tolist(), numpy[1].tolist(), numpy[2:], python_random.getstate()


@table
@pytest.mark.parametrize("problem", [classifier, restless])
def test_looking_changes_nothing(method: Algorithm, graph: Graph, problem: object) -> None:
    """9: the hash of all state and every random stream are the same before and after, at both points of a round."""
    run = Rounds(method, problem(), graph)
    looker = Looker(method, run.peers, run.link)
    for _ in range(2):
        for part, look in ((run.train, looker.trained), (run.exchange, looker.mixed)):
            part()
            before, streams = fingerprint(run), generators()
            entry = look()
            assert len(dict(method.models(run.peers))) == (3 if isinstance(method, FedAvg) else 1)
            assert "trained" in entry or "mixed" in entry
            assert fingerprint(run) == before
            assert generators() == streams


@table
def test_the_seed_decides(method: Algorithm, graph: Graph) -> None:
    """9 and 10: how often a run is looked at, and what was drawn elsewhere, changes no bit; another seed does."""
    task = restless()

    def last(seed: int = 3, every: int = 4) -> torch.Tensor:
        run = covey.simulate(method, task, graph, rounds=4, seed=seed, evaluate_every=every, chunk=PEERS)
        return torch.cat([run.peers.rows, run.rows], 1)

    first = last()
    torch.rand(7)
    assert torch.equal(last(every=1), first)
    assert not torch.allclose(last(seed=4), first, atol=1e-3)


def drawn(seed: int) -> torch.Tensor:
    """Which of 50 samples body and head used, [rounds, peers, 2]. All peers hold the same samples 0 … 49, and one step
    at η = 1 on ½(x − s)² lands on the sample."""
    samples = torch.arange(50, dtype=torch.float64).expand(PEERS, 50)
    zero = {name: torch.zeros((), dtype=torch.float64) for name in "uv"}
    task = Task.from_function(
        lambda p, s: 0.5 * ((p["u"] - s).square() + (p["v"] - s).square()).mean(), zero, samples, "v"
    )
    one = SGD(1.0, batch=1)
    return trajectory(DFedAlt(one, one), task, isolated(PEERS), 40, seed=seed)


def test_a_draw_depends_on_seed_purpose_round_and_peer() -> None:
    """Two of 50 samples coincide with probability .02: among 240 pairs 4.8, and more than 16 of them once
    in 100 000 (binomial). A key that forgets one of the four makes all of them coincide."""
    one, other = drawn(0), drawn(1)
    assert torch.equal(one, one.round())
    assert torch.equal(one, drawn(0))
    pairs = {"seed": (one, other), "purpose": (one[..., 0], one[..., 1]), "round": (one[1:], one[:-1]),
             "peer": (one, one.roll(1, 1))}  # fmt: skip
    for name, (left, right) in pairs.items():
        same = (left == right).flatten(0, 1).sum(0)  # of 240 (by round 234): of bodies and of heads, or of both
        assert int(same.max()) <= 16, name
    counts = torch.bincount(one.flatten().long(), minlength=50)
    assert float((counts - 9.6).square().sum() / 9.6) < 49 + 4 * 98**0.5  # χ² with 49 degrees of freedom


def test_rounds_by_hand_are_those_of_the_engine() -> None:
    """The helper of these tests drives the same rounds as `simulate`."""
    method, graph = METHODS["DFedPGP"]
    run = covey.simulate(method, classifier(), graph, rounds=3, seed=5, chunk=PEERS)
    by_hand = Rounds(method, classifier(), graph, seed=5).go(3)
    assert torch.equal(by_hand.models, run.rows)


@pytest.mark.parametrize("chunk", [4, 5])
@table
def test_chunks_change_rounding_only(method: Algorithm, graph: Graph, chunk: int) -> None:
    """10: peers worked on in parts. 5 of 6 leaves one peer over."""
    whole, parts = (trajectory(method, classifier(), graph, 3, chunk=size) for size in (PEERS, chunk))
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


@table
def test_one_peer_at_a_time_changes_rounding_only(method: Algorithm, graph: Graph) -> None:
    """10: plain autograd for one peer, in a buffer of its own, against the stacked gradient of all. SAM and push-sum
    take the gradient at another point than the row, which must not move the row."""
    whole, single = (trajectory(method, classifier(), graph, 3, chunk=size) for size in (PEERS, 1))
    torch.testing.assert_close(single, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", [FedAvg(STEP), FedAvgM(STEP)], ids=["FedAvg", "FedAvgM"])
def test_a_server_has_one_model(method: Algorithm) -> None:
    """FedAvg, FedAvgM: there is one w, the same in every row."""
    run = Rounds(method, restless(personal=()), server(PEERS, 0.5)).go(3)
    assert bool((run.peers.rows == run.peers.rows[0]).all())


def test_momentum_starts_anew_every_round() -> None:
    """0.4: with persistent momentum the second of two rounds would differ from a run's first from the same rows."""
    method, graph = DFedAvgM(replace(STEP, batch=None)), UNDIRECTED.bound(0, torch.ones(PEERS))
    run = Rounds(method, classifier(()), graph).go(1)
    again = Rounds(method, classifier(()), graph)
    again.peers.rows = run.peers.rows.clone()
    run.train()
    again.train()
    assert torch.equal(run.peers.rows, again.peers.rows)
