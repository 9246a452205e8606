"""A peer borrows its neighbours' representations: what is sent, what is fitted, what stays untouched."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

from covey import SGD, BadInput, Task
from covey.algorithms import Local
from covey.data import from_peers
from covey.graphs import Graph, from_matrix, full, ring
from covey.transfer import Borrowed, borrow, dictionary, penultimate, phase1
from theory.problems import random
from theory.rounds import Rounds

PEERS, INPUTS, WIDTH = 4, 9, 2
REST = Local(SGD(0.1, steps=0))


def linear_networks(validation: bool = True, personal: str = "head", noise: float = 0.05) -> Task:
    """x ↦ w·Bx in float64. Peer 0's truth lies in the span of B_0 and B_2; the bodies B_i start unlike."""
    body, head = nn.Linear(INPUTS, WIDTH, bias=False), nn.Linear(WIDTH, 1, bias=False)
    module = nn.Sequential(OrderedDict(body=body, head=head)).double()
    truth = bodies()[0].T @ random(WIDTH, seed=1) + bodies()[2].T @ (1 + random(WIDTH, seed=2).abs())
    sets = []
    for i in range(PEERS):
        x = random(60, INPUTS, seed=10 + i)
        y = (x @ truth + noise * random(60, seed=20 + i))[:, None]
        sets.append((x[:40], y[:40], x[40:], y[40:]))
    data = from_peers(sets)
    return Task.from_module(module, data.hold_out(0.5, 0) if validation else data, personal,
                            loss=nn.functional.mse_loss)  # fmt: skip


def bodies() -> list[Tensor]:
    return [random(WIDTH, INPUTS, seed=30 + i) for i in range(PEERS)]


def covey_of(task: Task, graph: Graph) -> Rounds:
    run = Rounds(REST, task, graph)
    run.peers.shared = torch.stack([B.flatten() for B in bodies()])
    run.link.begin(0)
    return run


def lend(run: Rounds) -> list[Borrowed]:
    return borrow(run.peers, run.link, "head", level=0.05)


def test_the_neighbour_that_helps_is_found_and_fitted_as_phase_1_on_the_dictionary() -> None:
    run = covey_of(linear_networks(), full(PEERS))
    mine = lend(run)[0]
    assert (mine.peer, mine.sources) == (0, (2,))
    data = run.peers.task.data
    assert data is not None
    x, y = data.train.of(0)
    wide = torch.cat([torch.ones(len(x), 1), x], dim=1)  # the constant is an input like any other
    V = torch.block_diag(torch.ones(1, 1), dictionary([bodies()[0].T, bodies()[2].T]))
    theta = phase1(wide, y, V)
    x_test, y_test = data.test.of(0)
    expected = torch.cat([torch.ones(len(x_test), 1), x_test], dim=1) @ theta
    assert float((mine.predict(x_test) - expected).abs().max()) < 1e-10
    assert float((mine.predict(x_test) - y_test).square().mean()) < 4 * 0.05**2 * (1 + 5 / (20 - 5 - 1))


def test_without_a_choice_every_neighbour_lends_and_no_validation_is_needed() -> None:
    run = covey_of(linear_networks(validation=False), ring(PEERS))
    models = borrow(run.peers, run.link, "head")
    assert [(m.sources, m.choice) for m in models] == [((1, 3), None), ((0, 2), None), ((1, 3), None), ((0, 2), None)]
    assert models[0].head.theta.shape == (1 + 3 * WIDTH, 1) and models[0].head.unique


def test_only_neighbours_lend() -> None:
    """Peer 0 hears 1 and 3 on a ring; the one that would help is across."""
    mine = lend(covey_of(linear_networks(), ring(PEERS)))[0]
    assert set(mine.sources) <= {1, 3}
    alone = torch.eye(PEERS, dtype=torch.float64)
    assert all(b.sources == () for b in lend(covey_of(linear_networks(), from_matrix(alone))))


def test_no_head_is_sent_and_nothing_is_changed() -> None:
    run, broken = (covey_of(linear_networks(), full(PEERS)) for _ in range(2))
    broken.peers.personal = torch.full_like(broken.peers.personal, torch.nan)
    x = random(5, INPUTS, seed=3)
    before = {name: value.clone() for name, value in run.peers.state.items()} | {"rows": run.peers.rows.clone()}
    for one, other in zip(lend(run), lend(broken), strict=True):
        assert one.sources == other.sources and torch.equal(one.predict(x), other.predict(x))
    after = run.peers.state | {"rows": run.peers.rows}
    assert after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)


def test_a_representation_is_paid_for_once() -> None:
    run = covey_of(linear_networks(), full(PEERS))
    before = run.link.traffic.as_dict()["formula"]["broadcast"]
    lend(run)
    assert run.link.traffic.as_dict()["formula"]["broadcast"] - before == PEERS * 32 * WIDTH * INPUTS


def test_the_features_are_what_the_head_is_given() -> None:
    module = nn.Sequential(OrderedDict(body=nn.Linear(4, 3), act=nn.Dropout(0.5), head=nn.Linear(3, 2))).double()
    module.train()
    module.act.eval()
    x = random(6, 4)
    features = penultimate(module, "head", x)
    assert torch.equal(features, module.body(x)) and features.dtype == torch.float64
    assert module.training and module.head.training and not module.act.training
    with pytest.raises(BadInput, match="no part 'tail' to be its head; its parts are body, act, head"):
        penultimate(module, "tail", x)


def test_refused_in_one_sentence() -> None:
    function = Task.from_function(lambda p, own: p["x"].square().sum(), {"x": torch.zeros(2)}, torch.zeros(PEERS, 2))
    for task, says in (
        (function, "made by Task.from_module"),
        (linear_networks(validation=False), "validation=0.2"),
        (linear_networks(personal="body"), "personal but no part of 'head'"),
    ):
        with pytest.raises(BadInput, match=says):
            lend(Rounds(REST, task, full(PEERS)))
