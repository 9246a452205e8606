"""Centralised, the reference of what pooling would give, and epidemic learning, whose graph is the method."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import covey
from covey import SGD, UnsoundGraph
from covey.algorithms import Centralised, DFedAvg, Epidemic, Local
from covey.graphs import centre, epidemic, isolated, parse, random_undirected, ring
from theory.problems import PEERS, classifier, column, noisy_quadratic, quadratic, random, spread_samples
from theory.rounds import Rounds, trajectory

STEP = SGD(0.3, epochs=1, batch=5, momentum=0.9, weight_decay=1e-3, clip=2.0, decay=0.9)


def digits(peers: int) -> covey.data.Federated:
    return covey.data.load("digits", peers=peers, partition="dirichlet:0.3", samples=20, seed=1)


def task_of(data: covey.data.Federated) -> covey.Task:
    return covey.Task.from_module(covey.models.build("mlp", data), data, personal="head")


def test_centralised_is_local_of_one_peer_who_has_everything() -> None:
    data = digits(5)
    x, y = data.train.pooled(data.train.unique())
    alone = covey.data.from_peers([(x, y, x, y)], transform=None)
    many = Rounds(Centralised(SGD(0.1, epochs=1, batch=16, momentum=0.9)), task_of(data), centre(5))
    one = Rounds(Local(SGD(0.1, epochs=1, batch=16, momentum=0.9)), task_of(alone), isolated(1), chunk=5)
    for _ in range(3):
        many.go()
        one.go()
        assert torch.equal(many.models, one.models.expand(5, -1))
    assert many.link.traffic.formula.links == 0.0
    assert int(many.peers.effort.sum()) == math.ceil(len(y) / 16)  # an epoch is a pass over all, by one


def test_centralised_is_judged_on_each_peers_own_test_data() -> None:
    data = digits(5)
    run = covey.simulate(Centralised(SGD(0.1, steps=40, batch=16)), task_of(data), centre(5), rounds=2, similarity=True)
    assert len(run.scores["mixed"].values["accuracy"]) == 5
    assert float(run.scores["mixed"].values["accuracy"].std()) > 0
    assert run.settings["task"]["train"] == run.settings["task"]["smallest"] == 100
    assert run.similarity["labels"].shape == (5, 5)
    assert run.summary()["bits"]["formula"]["links"] == 0


def test_centralised_gradient_descent_finds_the_optimum_of_the_sum() -> None:
    """½(x − b_i)², b = (1, 2, 3, 10): x ← .9x + .4, and the mean 4 in the end. By batches of peers: theirs."""
    run = Rounds(Centralised(SGD(0.1)), quadratic(column(1, 2, 3, 10)), centre(4)).go(2)
    torch.testing.assert_close(run.models, column(*[0.76] * 4), rtol=0, atol=1e-14)
    torch.testing.assert_close(run.go(300).models, column(*[4.0] * 4), rtol=0, atol=1e-12)
    some = Rounds(Centralised(SGD(1.0, batch=1)), quadratic(column(1, 2, 3, 10)), centre(4))
    assert {float(some.go().models[0]) for _ in range(60)} == {1.0, 2.0, 3.0, 10.0}


def test_the_noise_of_centralised_does_not_fall_with_the_number_of_peers() -> None:
    """It is one worker with all the data: at rate 1 and batch 1, x is one sample, of variance 1 and not 1/m, which is
    what m peers that average reach. 4 standard errors of a variance over 200 looks at 32 coordinates."""
    b = spread_samples(8, 4, 32)
    run = Rounds(Centralised(SGD(1.0, batch=1)), noisy_quadratic(b.flatten(0, 1)[:, None]), centre(32))
    looks = torch.stack([run.go().models[0] for _ in range(200)])
    assert float(looks.square().mean()) == pytest.approx(1, abs=4 * math.sqrt(2 / 200 / 32))


def test_centralised_wants_its_place() -> None:
    with pytest.raises(UnsoundGraph, match="take centre"):
        covey.simulate(Centralised(SGD(0.1)), quadratic(column(1, 2)), ring(2), rounds=1)


# Epidemic ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(12, 3), (20, 5), (7, 6)])
def test_each_tells_k_others_and_weighs_alike_what_it_hears(n: int, k: int) -> None:
    graph, hearing = epidemic(n, k, seed=2), set()
    for t in range(12):
        W = graph.round(t).weights.dense()
        told = (W != 0).sum(0) - 1
        assert told.tolist() == [k] * n
        for row in W:
            heard = row[row != 0]
            assert torch.equal(heard, torch.full_like(heard, 1 / len(heard)))
            hearing.add(len(heard))
        assert bool((W.diagonal() > 0).all())
    assert len(hearing) > 1 or k == n - 1


def test_the_mean_weight_of_an_edge_is_the_same_for_all() -> None:
    """E[W] is doubly stochastic: 4 standard errors over 3000 rounds; the weight of one round is at most 1/2."""
    n, rounds = 6, 3000
    graph = epidemic(n, 2, seed=1)
    total = torch.stack([graph.round(t).weights.dense() for t in range(rounds)])
    columns = total.sum(1)
    assert float(columns.std()) > 0.1  # in a round they are not one
    assert np.abs(columns.mean(0).numpy() - 1).max() < 4 * float(columns.std()) / math.sqrt(rounds)


def test_what_a_round_hands_over_is_the_mean_of_what_was_heard() -> None:
    graph = epidemic(PEERS, 2, seed=3)
    run = Rounds(Epidemic(SGD(0.1, steps=0)), quadratic(0 * column(*range(PEERS)), start=column(*range(PEERS))), graph)
    for t in range(4):
        before = run.models
        heard = graph.round(t).weights.dense() != 0
        expected = torch.stack([before[row].mean(0) for row in heard])
        torch.testing.assert_close(run.go().models, expected, rtol=0, atol=1e-14)


def test_the_oracle_is_dfedavg_on_a_random_regular_graph() -> None:
    task, graph = classifier(()), random_undirected(PEERS, 3, seed=1)
    assert trajectory(Epidemic(STEP), task, graph, 3).equal(trajectory(DFedAvg(STEP), task, graph, 3))


def test_a_graph_that_stays_is_no_epidemic() -> None:
    for graph in (ring(4), parse("epidemic:2:fixed", 4)):
        with pytest.raises(UnsoundGraph, match="drawn anew"):
            covey.simulate(Epidemic(SGD(0.1)), quadratic(random(4, 1)), graph, rounds=1)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 2), (16, 4), (20, 5), (100, 7)])
def test_the_usual_number_of_recipients_is_the_logarithm(n: int, k: int) -> None:
    assert parse("epidemic", n).name == f"epidemic:{k}"
