"""What is written down of a round, on rows set by hand: prediction (u + v) x, loss ½(p − y)², u shared, v personal."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import covey
from covey import SGD, Task
from covey.algorithms import SGP, Algorithm, DFedAlt, DFedPGP
from covey.data.samples import Samples
from covey.engine.look import Looker
from covey.graphs import full, random_directed
from covey.link import InProcessLink
from covey.peers import Peers
from covey.training.pace import Pace

REST = SGD(0.1)
LABELS = [1.0, 3.0, 9.0, 40.0]
OWN = [[0, 0, 1], [1, 0], [1, 1, 0, 2]]  # who is tested on which label; the fourth belongs to nobody


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.head = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.body.sum() + self.head)


def looked(method: Algorithm, chunk: int, rows: list[list[float]], mass: list[float] | None = None) -> Looker:
    """Three peers with test samples in common, and these rows: u₁, u₂, v."""
    y = torch.tensor(LABELS, dtype=torch.float64)[:, None]
    x = torch.ones_like(y)
    data = covey.data.from_peers([(x, y, x, y)] * 3)
    index, starts = torch.tensor([k for own in OWN for k in own]), torch.tensor([0, 3, 5, 9])
    task = method.prepare(Task.from_module(Sum(), replace(data, test=Samples((x, y), index, starts)), "head",
                                           loss=lambda p, y: 0.5 * (p - y).square().mean()))  # fmt: skip
    link = InProcessLink(full(3) if mass is None else random_directed(3, 1))
    peers = Peers(task, torch.arange(3), 3, pace=Pace.fixed(chunk))
    method.start(peers, link)
    peers.rows = torch.tensor(rows, dtype=torch.float64)
    if mass is not None:
        peers.state["mass"] = torch.tensor(mass, dtype=torch.float64)[:, None]
    return Looker(method, peers, link)


def loss(model: float, labels: list[int]) -> float:
    return sum(0.5 * (model - LABELS[k]) ** 2 for k in labels) / len(labels)


ROWS = [[1.0, 0.5, 2.0], [-3.0, 1.0, 0.25], [0.5, 4.0, -8.0]]


@pytest.mark.parametrize("chunk", [1, 3])
def test_the_average_is_the_mean_model_on_every_test_sample_once(chunk: int) -> None:
    """The mean of ROWS is (−.5, 5.5/3, −5.75/3), on the labels 1, 3 and 9 however many peers are tested on them."""
    found = looked(DFedAlt(REST, REST), chunk, ROWS).mixed()
    model = -0.5 + 5.5 / 3 - 5.75 / 3
    assert found["average"]["loss"] == pytest.approx(loss(model, [0, 1, 2]), rel=1e-14)
    each = [loss(sum(row), own) for row, own in zip(ROWS, OWN, strict=True)]
    assert found["mixed"]["loss"] == pytest.approx(sum(each) / 3, rel=1e-14)


def test_consensus_is_the_mean_squared_distance_of_bodies_from_their_mean() -> None:
    """Bodies (1, .5), (−3, 1), (.5, 4) around (−.5, 11/6); heads are apart because they should be."""
    found = looked(DFedAlt(REST, REST), 3, ROWS).mixed()["consensus"]
    apart = [(u + 0.5) ** 2 + (w - 11 / 6) ** 2 for u, w, _ in ROWS]
    assert found == pytest.approx(sum(apart) / 3, rel=1e-14)


@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("method", [DFedPGP(REST, REST), SGP(REST)], ids=["body", "whole model"])
def test_pushed_rows_are_judged_at_the_model_they_stand_for_at_both_points(method: Algorithm, chunk: int) -> None:
    """With mass .5, 2 and .25 a row's shared columns stand for themselves divided by it. A head is as it is, except
    where all is shared."""
    mass = [0.5, 2.0, 0.25]
    models = [[u / m, w / m, v if isinstance(method, DFedPGP) else v / m]
              for (u, w, v), m in zip(ROWS, mass, strict=True)]  # fmt: skip
    expected = sum(loss(sum(model), own) for model, own in zip(models, OWN, strict=True)) / 3
    looker = looked(method, chunk, ROWS, mass)
    mixed = looker.mixed()
    assert looker.trained()["trained"]["loss"] == pytest.approx(expected, rel=1e-14)
    assert mixed["mixed"]["loss"] == pytest.approx(expected, rel=1e-14)
    mean = [sum(column) / 3 for column in zip(*models, strict=True)]
    assert mixed["average"]["loss"] == pytest.approx(loss(sum(mean), [0, 1, 2]), rel=1e-14)
    shared = 2 if isinstance(method, DFedPGP) else 3
    apart = [sum((model[c] - mean[c]) ** 2 for c in range(shared)) for model in models]
    assert mixed["consensus"] == pytest.approx(sum(apart) / 3, rel=1e-14)
    assert mixed["mass"] == 0.25
