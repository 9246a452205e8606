"""What must hold in every round, whatever is learned: docs/papers.md, 3.8. The numbers are its items."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from covey import SGD, exchange
from covey.algorithms import (
    DPSGD,
    GTDSGD,
    OSGP,
    SGP,
    Algorithm,
    DePRL,
    DFedAlt,
    DFedAvgM,
    DFedAvgMP,
    DFedPGP,
    DFedSalt,
    DFedSAM,
    Ditto,
    DSGDm,
    FedAvg,
    FedAvgM,
    FedPer,
    FedRep,
    Local,
    QGDSGDm,
)  # fmt: skip
from covey.graphs import (
    Graph,
    exponential,
    from_matrix,
    one_peer_exponential,
    random_directed,
    random_undirected,
    ring,
    server,
)  # fmt: skip
from theory.problems import PEERS, classifier, column
from theory.rounds import Rounds

ROUNDS = 4
STEP = SGD(0.3, epochs=1, batch=5, momentum=0.9, weight_decay=1e-3, clip=2.0, decay=0.9)
HEAD = SGD(0.1, steps=3, batch=5, momentum=0.5)
OVERLAP = exchange.PushSum(overlap=True)

PUSH = random_directed(PEERS, 2, seed=3)
PULL = random_directed(PEERS, 2, seed=3, weights="pull")
HALF = server(PEERS, 0.5, seed=2)

PLAIN = replace(STEP, momentum=0.0)
WHOLE = {"DFedAvgM": DFedAvgM(STEP), "D-PSGD": DPSGD(STEP), "DFedSAM": DFedSAM(replace(STEP, sam=0.1), gossips=2),
         "DSGDm": DSGDm(STEP), "QG-DSGDm": QGDSGDm(PLAIN), "GT-DSGD": GTDSGD(PLAIN)}  # fmt: skip
GOSSIP = WHOLE | {"DFedAvgM-P": DFedAvgMP(STEP), "DFedAlt": DFedAlt(HEAD, STEP), "DePRL": DePRL(HEAD, STEP),
                  "DFedSalt": DFedSalt(HEAD, replace(STEP, sam=0.1))}  # fmt: skip
PUSHING = {"SGP": SGP(STEP), "OSGP": OSGP(STEP, by=OVERLAP), "DFedPGP": DFedPGP(HEAD, STEP),
           "DFedPGP overlapped": DFedPGP(HEAD, STEP, by=OVERLAP)}  # fmt: skip
SERVED = {"FedAvg": FedAvg(STEP), "FedAvgM": FedAvgM(STEP), "FedPer": FedPer(STEP), "FedRep": FedRep(HEAD, STEP),
          "Ditto": Ditto(STEP)}  # fmt: skip
EVERY = ([(name, method, ring(PEERS)) for name, method in {"Local": Local(STEP), **GOSSIP}.items()]
         + [(name, method, PUSH) for name, method in PUSHING.items()]
         + [(name, method, HALF) for name, method in SERVED.items()])  # fmt: skip
PRIVATE = [case for case in EVERY if isinstance(case[1], DFedAlt | DFedAvgMP)]

DOUBLY = {"ring": ring(PEERS), "exponential": exponential(PEERS), "in turn": one_peer_exponential(PEERS),
          "random": random_undirected(PEERS, 3, seed=1)}  # fmt: skip


def table(cases: list[tuple[str, Algorithm, Graph]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("method", "graph"), [case[1:] for case in cases], ids=[case[0] for case in cases])


# 1 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", DOUBLY.values(), ids=DOUBLY)
@pytest.mark.parametrize("method", GOSSIP.values(), ids=GOSSIP)
def test_doubly_stochastic_gossip_keeps_the_mean(method: Algorithm, graph: Graph) -> None:
    run = Rounds(method, classifier(), graph)
    for _ in range(ROUNDS):
        run.train()
        before, apart = run.mean, run.peers.shared.std(0).max()
        run.exchange()
        torch.testing.assert_close(run.mean, before, rtol=0, atol=1e-14)
        assert 0 < run.peers.shared.std(0).max() < apart


@pytest.mark.parametrize("method", [DFedAvgM(STEP), SGP(STEP)], ids=["gossip", "push-sum"])
def test_pulling_moves_the_mean_but_never_expands(method: Algorithm) -> None:
    """A graph made symmetric in silence would keep the mean."""
    run = Rounds(method, classifier(), PULL)
    for _ in range(ROUNDS):
        run.train()
        before = run.peers.shared.clone()
        run.exchange()
        after = run.peers.shared
        assert bool((after.amax(0) <= before.amax(0) + 1e-14).all())
        assert bool((after.amin(0) >= before.amin(0) - 1e-14).all())
        assert float((after.mean(0) - before.mean(0)).abs().max()) > 1e-3
        torch.testing.assert_close(run.peers.state.get("mass", run.peers.ones()), run.peers.ones(), rtol=0, atol=1e-14)


# 2 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [PUSH, from_matrix(torch.tensor(
    [[0.2, 0, 0, 0, 0, 0.5], [0.8, 0.1, 0, 0, 0, 0], [0, 0.9, 0.3, 0, 0, 0],
     [0, 0, 0.7, 0.4, 0, 0], [0, 0, 0, 0.6, 0.5, 0], [0, 0, 0, 0, 0.5, 0.5]], dtype=torch.float64))],
    ids=["random", "cycle"])  # fmt: skip
@pytest.mark.parametrize("method", PUSHING.values(), ids=PUSHING)
def test_push_sum_keeps_its_sums(method: Algorithm, graph: Graph) -> None:
    """Σμ = m and Σu kept by the exchange, with what is in flight; every μ > 0; training never moves a mass."""
    run = Rounds(method, classifier(), graph)

    def total(own: Tensor) -> Tensor:
        flying = [x for x in run.link.in_flight.values() if x.shape == own.shape]
        return own.sum(0) + sum(x.sum(0) for x in flying)

    overlapped = method in (PUSHING["OSGP"], PUSHING["DFedPGP overlapped"])
    for _ in range(8):
        mass = run.peers.state["mass"].clone()
        run.train()
        assert torch.equal(run.peers.state["mass"], mass)
        before = total(run.peers.shared)
        run.exchange()
        mass = run.peers.state["mass"]
        assert float(mass.min()) > 0
        torch.testing.assert_close(total(mass), column(PEERS)[0], rtol=0, atol=1e-13)
        torch.testing.assert_close(total(run.peers.shared), before, rtol=0, atol=1e-12)
        assert (len(run.link.in_flight) == 2) == overlapped  # bodies and masses, in flight together
        if overlapped:
            assert float(mass.sum()) < PEERS
    assert float(mass.std()) > 1e-3  # the graph is not regular, so mass is at work


# 5 ---------------------------------------------------------------------------------------------------------------


@table(PRIVATE)
def test_a_head_enters_no_message(method: Algorithm, graph: Graph) -> None:
    clean, spoilt, permuted = (Rounds(method, classifier(), graph).go(2) for _ in range(3))
    for run in (clean, spoilt, permuted):
        run.train()
    spoilt.peers.personal[1] = torch.nan
    order = torch.arange(PEERS).flip(0)
    permuted.peers.personal = permuted.peers.personal[order]
    for run in (clean, spoilt, permuted):
        run.exchange()
        assert torch.equal(run.peers.shared, clean.peers.shared)
    others = torch.arange(PEERS) != 1
    assert torch.equal(spoilt.peers.personal[others], clean.peers.personal[others])
    assert bool(spoilt.peers.personal[1].isnan().all())
    assert torch.equal(permuted.peers.personal, clean.peers.personal[order])
    body, edges = 5 * 3 + ("mass" in clean.peers.state), 0  # and one number for a mass
    for t in range(3):
        now = graph.round(t)
        edges += 2 * int(now.active.sum()) if now.hub else int(now.out_degree().sum())
    assert clean.link.traffic.formula.links == 32 * body * edges


def test_a_body_that_is_not_finite_reaches_its_neighbours_only() -> None:
    """The control of the above: what does enter a message is noticed, and by those who hear it."""
    run = Rounds(DFedAlt(HEAD, STEP), classifier(), ring(PEERS))
    run.train()
    run.peers.shared[1] = torch.nan
    run.exchange()
    assert run.peers.shared.isnan().all(1).tolist() == [True, True, True, False, False, False]


# 6 ---------------------------------------------------------------------------------------------------------------


@table(PRIVATE)
def test_a_frozen_group_is_bit_identical(method: Algorithm, graph: Graph) -> None:
    """Momentum, weight decay and the mass of one group never reach the other."""
    if isinstance(method, DFedAlt):
        rest = SGD(0.1, steps=0)
        heads, bodies = replace(method, shared=rest), replace(method, personal=rest)
        if isinstance(method, DFedSalt):
            heads = replace(heads, on="personal")
        for only, frozen in ((heads, "shared"), (bodies, "personal")):
            run = Rounds(only, classifier(), graph).go(2)
            before, all_before = getattr(run.peers, frozen).clone(), run.peers.rows.clone()
            run.train()
            assert torch.equal(getattr(run.peers, frozen), before)
            assert not torch.equal(run.peers.rows, all_before)
        both, first = Rounds(method, classifier(), graph), Rounds(heads, classifier(), graph)
        both.train()
        first.train()
        assert torch.equal(both.peers.personal, first.peers.personal)  # the body's phase leaves new heads alone
    run = Rounds(method, classifier(), graph).go(1)
    run.train()
    heads_then = run.peers.personal.clone()
    run.exchange()
    assert torch.equal(run.peers.personal, heads_then)


@pytest.mark.parametrize("method", SERVED.values(), ids=SERVED)
def test_who_is_not_sampled_stays(method: Algorithm) -> None:
    """FedPer: an unsampled client's head is bit-unchanged; all have the server's body."""
    run = Rounds(method, classifier(heads=method in (SERVED["FedPer"], SERVED["FedRep"])), HALF)
    slept = torch.zeros(PEERS, dtype=torch.bool)
    for _ in range(6):
        heads = run.peers.personal.clone()
        own = {
            name: value.clone()
            for name, value in run.peers.state.items()
            if name in ("stale", "personal") or "steps" in name
        }
        run.train()
        run.exchange()
        active = run.peers.active
        assert int(active.sum()) == PEERS // 2
        slept |= ~active
        assert torch.equal(run.peers.personal[~active], heads[~active])
        assert heads.shape[1] == 0 or not (run.peers.personal[active] == heads[active]).all(1).any()
        assert bool((run.peers.shared == run.peers.shared[0]).all())
        for name, value in own.items():
            assert torch.equal(run.peers.state[name][~active], value[~active]), name
            assert not torch.equal(run.peers.state[name][active], value[active]), name
    assert slept.all()
