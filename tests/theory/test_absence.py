"""Peers that come and go: what the graph declares holds in every round, the absent are untouched, and averages still
converge to where they should."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import covey
from covey import SGD, BadInput, exchange, graphs
from covey.algorithms import OSGP, DFedAvg, FedAvg, FedAvgM
from covey.graphs import absent
from theory.problems import column, quadratic, random
from theory.rounds import Rounds

EXAMPLES = settings(max_examples=40, deadline=None)
NEIGHBOURS = ["full", "ring", "torus:3x4", "grid:3x4", "grid:3x4:row", "exponential", "one_peer_exponential",
              "isolated", "erdos_renyi:0.5", "erdos_renyi:0.5:row", "random_doubly_stochastic", "random_directed:3",
              "random_directed:3:pull", "random_directed:11", "random_undirected:3",
              "random_directed:3:fixed"]  # fmt: skip
SERVERS = ["server:1.0", "server:1.0:size", "server:0.5", "server:5", "server:0.5:size"]
N = 12
SIZES = torch.arange(1, N + 1)
traces = st.lists(st.lists(st.sampled_from([0, 1]), min_size=N, max_size=N), min_size=1, max_size=4)


@EXAMPLES
@given(text=st.sampled_from(NEIGHBOURS), trace=traces, seed=st.integers(0, 2**40), t=st.integers(0, 30))
def test_what_a_graph_declares_holds_whoever_is_away(text: str, trace: list[list[int]], seed: int, t: int) -> None:
    whole = graphs.parse(text, N).bound(seed, SIZES)
    graph = absent(whole, trace)
    before, now = whole.round(t).weights.dense().numpy(), graph.round(t)
    W, there = now.weights.dense().numpy(), np.array(trace[t % len(trace)], dtype=bool)
    assert np.array_equal(now.active.numpy(), there)
    assert W.min() >= 0 and (graph.row_stochastic or graph.column_stochastic)
    assert not graph.row_stochastic or np.abs(W.sum(1) - 1).max() < 1e-12
    assert not graph.column_stochastic or np.abs(W.sum(0) - 1).max() < 1e-12
    assert not graph.symmetric or np.array_equal(W, W.T)
    kept = (whole.row_stochastic, whole.column_stochastic, whole.symmetric)
    if whole.symmetric or not whole.doubly_stochastic:
        assert (graph.row_stochastic, graph.column_stochastic, graph.symmetric) == kept
    else:
        assert graph.column_stochastic and not graph.row_stochastic
    both = np.outer(there, there) & ~np.eye(N, dtype=bool)
    assert np.array_equal(W[both], before[both])  # who is there hears the others as before
    assert np.array_equal(W[~there], np.eye(N)[~there]) and np.array_equal(W[:, ~there], np.eye(N)[:, ~there])
    assert (np.diag(W) >= np.diag(before) - 1e-15).all()


@EXAMPLES
@given(text=st.sampled_from(SERVERS), trace=traces, seed=st.integers(0, 2**40), t=st.integers(0, 30))
def test_a_server_samples_those_who_are_there(text: str, trace: list[list[int]], seed: int, t: int) -> None:
    whole = graphs.parse(text, N).bound(seed, SIZES)
    now = absent(graphs.parse(text, N), trace).bound(seed, SIZES).round(t)
    there, W = np.array(trace[t % len(trace)], dtype=bool), now.weights.dense().numpy()
    asked, wanted = now.active.numpy(), int(whole.round(t).active.sum())
    assert now.hub and not (asked & ~there).any() and asked.sum() == min(wanted, there.sum())
    if not there.any():
        assert np.array_equal(W, np.eye(N))
        return
    share = np.where(asked, SIZES.numpy() if text.endswith("size") else 1.0, 0.0)
    assert np.abs(W - share / share.sum()).max() < 1e-15
    everybody = absent(whole, [[1] * N]).round(t)
    assert np.array_equal(everybody.active, whole.round(t).active)
    if asked.sum() == wanted:  # those who were sampled anyway and are there still are
        assert not (whole.round(t).active.numpy() & there & ~asked).any()


def test_how_often() -> None:
    n, rounds, p = 40, 500, 0.3
    graph = absent(graphs.ring(n), p).bound(5, torch.ones(n))
    away = torch.stack([~graph.round(t).active for t in range(rounds)]).double()
    spread = math.sqrt(p * (1 - p))
    assert abs(float(away.mean()) - p) < 4 * spread / math.sqrt(n * rounds)
    assert float((away.mean(0) - p).abs().max()) < 4.5 * spread / math.sqrt(rounds)
    lag = float(((away[1:] - p) * (away[:-1] - p)).mean()) / spread**2
    assert abs(lag) < 4 / math.sqrt(n * rounds)  # a round does not tell the next one
    other = absent(graphs.full(n), p).bound(5, torch.ones(n))
    assert torch.equal(graph.round(7).active, other.round(7).active)  # methods on other graphs miss the same peers
    assert not torch.equal(graph.round(7).active, absent(graphs.ring(n), p, seed=6).round(7).active)


@pytest.mark.parametrize("text", ["ring", "random_undirected:3"])
def test_gossip_finds_the_mean_all_the_same(text: str) -> None:
    x = random(N, 3)
    mean = x.mean(0)
    graph, apart = absent(graphs.parse(text, N), 0.3).bound(0, SIZES), []
    for t in range(600):
        x = graph.round(t).weights.apply(x)
        torch.testing.assert_close(x.mean(0), mean, rtol=0, atol=1e-13)
        apart.append(float((x - mean).norm()))
    assert all(b <= a + 1e-14 for a, b in itertools.pairwise(apart)) and apart[-1] < 1e-10


@pytest.mark.parametrize("text", ["random_directed:2", "exponential"])
def test_push_sum_finds_the_mean_and_pulling_does_not(text: str) -> None:
    x = torch.cat([random(N, 1), torch.ones(N, 1, dtype=torch.float64)], 1)
    mean = float(x[:, 0].mean())
    graph = absent(graphs.parse(text, N), 0.3).bound(0, SIZES)
    for t in range(300):
        x = graph.round(t).weights.apply(x)
        assert x.sum(0).tolist() == pytest.approx([N * mean, N], abs=1e-12)
    assert (x[:, 0] / x[:, 1]).tolist() == pytest.approx([mean] * N, abs=1e-12)
    assert float(x[:, 1].std()) > 1e-3


def test_mail_waits_for_the_absent() -> None:
    """Overlapped push-sum: what is in flight to somebody who is away arrives when it is back, and no mass is lost."""
    trace = [[1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]]
    graph = absent(graphs.from_matrix([[0.5, 0, 0, 0.5], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]]), trace)
    run = Rounds(
        OSGP(SGD(0.0), by=exchange.PushSum(overlap=True)), quadratic(random(4, 2), random(4, 2, seed=1)), graph
    )
    first = run.peers.shared.sum(0)
    for t in range(12):
        before = run.peers.rows.clone()
        run.go()
        away = torch.tensor(trace[t % 4]) == 0
        assert torch.equal(run.peers.rows[away], before[away])
        flying = [x.sum(0) for x in run.link.in_flight.values()]
        torch.testing.assert_close(run.peers.state["mass"].sum(0) + flying[1], column(4.0)[0], rtol=0, atol=1e-13)
        torch.testing.assert_close(run.peers.shared.sum(0) + flying[0], first, rtol=0, atol=1e-13)


def test_a_round_that_nobody_attends_changes_nothing() -> None:
    trace = [[1] * 4, [0] * 4, [1] * 4]
    for method in (FedAvg(SGD(0.1)), FedAvgM(SGD(0.1))):
        run = Rounds(method, quadratic(random(4, 2)), absent(graphs.server(4), trace)).go(1)
        before = run.peers.rows.clone(), {name: value.clone() for name, value in run.peers.state.items()}
        sent = run.link.traffic.formula.links
        run.go(1)
        assert torch.equal(run.peers.rows, before[0]) and run.link.traffic.formula.links == sent
        assert all(torch.equal(run.peers.state[name], value) for name, value in before[1].items())
        assert not torch.equal(run.go(1).peers.rows, before[0])
    ring = covey.simulate(DFedAvg(SGD(0.1)), quadratic(random(4, 2)), absent(graphs.ring(4), trace), rounds=3)
    assert [math.isnan(entry["train_loss"]) for entry in ring.history] == [False, True, False]


def test_the_absent_pay_nothing() -> None:
    run = covey.simulate(DFedAvg(SGD(0.1)), quadratic(random(4, 2)), absent(graphs.ring(4), [[1, 1, 0, 1]]), rounds=1)
    assert run.traffic.formula.links == 2 * 64 + 64 + 64  # 0 has two neighbours, 1 and 3 have one each, 2 has none
    assert run.peers.effort.tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize(("who", "says"), [
    ([[1, 0, 1]], "has numbers for 3 peers, but the run has 4"), (1.0, "of at least 0 and below 1, not 1.0"),
    (-0.1, "not -0.1"), ([[1, 0, 2, 1]], "2, is out of range; use 1 and 0"), ("often", "is no number")])  # fmt: skip
def test_refused_in_a_sentence(who: object, says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        absent(graphs.ring(4), who)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
