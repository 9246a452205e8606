"""Evaluation against arithmetic in plain Python: every peer's own model on its own samples, of which some have one and
some have many, whether peers are stacked or taken one at a time."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import covey
from covey import Task
from covey.measure import Evaluator
from covey.training.pace import Pace
from theory.problems import random

TESTED, INPUTS, HIDDEN, CLASSES, EPS = (1, 6, 3, 9, 2), 4, 3, 3, 1e-5
N = len(TESTED)
X = [random(n, INPUTS, seed=20 + n) * 2 for n in TESTED]
Y = [torch.arange(n) * (n + 1) % CLASSES for n in TESTED]


class Net(nn.Module):
    """All that is different in training: batch statistics and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(INPUTS, HIDDEN, dtype=torch.float64)
        self.norm = nn.BatchNorm1d(HIDDEN, EPS, dtype=torch.float64)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(HIDDEN, CLASSES, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(torch.relu(self.norm(self.body(x)))))


class Louder(nn.Module):
    """A switch that stacking allows: in training all scores are tripled and turned round."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(INPUTS, CLASSES, bias=False, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * (-3 if self.training else 1)


def task(module: nn.Module) -> Task:
    parts = [(own[:1].repeat(2, 1), y[:1].repeat(2), own, y) for own, y in zip(X, Y, strict=True)]
    return Task.from_module(module, covey.data.from_peers(parts, classes=CLASSES))


def models(problem: Task) -> Tensor:
    """A row per peer, all numbers drawn, variances positive."""
    rows = random(N, problem.layout.width, seed=30)
    for name, value in problem.layout.unpack(rows).items():
        if name == "norm.running_var":
            value.abs_().add_(0.1)
    return rows


def by_hand(model: dict[str, Tensor], x: Tensor, y: Tensor) -> tuple[float, float]:
    """Accuracy and mean cross-entropy of one model, sample by sample."""
    named = {name: value.tolist() for name, value in model.items()}
    right, loss = 0, 0.0
    for sample, label in zip(x.tolist(), y.tolist(), strict=True):
        bent = []
        for h in range(HIDDEN):
            value = named["body.bias"][h] + sum(named["body.weight"][h][c] * sample[c] for c in range(INPUTS))
            value = (value - named["norm.running_mean"][h]) / math.sqrt(named["norm.running_var"][h] + EPS)
            bent.append(max(0.0, value * named["norm.weight"][h] + named["norm.bias"][h]))
        scores = [named["head.bias"][k] + sum(named["head.weight"][k][h] * bent[h] for h in range(HIDDEN))
                  for k in range(CLASSES)]  # fmt: skip
        right += scores[label] == max(scores)
        loss += math.log(sum(math.exp(score) for score in scores)) - scores[label]
    return right / len(y), loss / len(y)


def row_of(problem: Task, rows: Tensor, peer: int) -> dict[str, Tensor]:
    return {name: value[peer] for name, value in problem.layout.unpack(rows).items()}


@pytest.mark.parametrize("chunk", [1, 2, 3, N])
def test_each_peer_is_judged_on_all_its_samples_and_no_others_in_evaluation_mode(chunk: int) -> None:
    """Peers have 1 to 9 test samples. What stands beside a peer, dropout and the batch's own statistics count for
    nothing."""
    problem = task(Net())
    rows = models(problem)
    assert problem.data is not None
    found = Evaluator(problem, Pace.fixed(chunk), rows[:1]).personal(rows, problem.data.test).values
    expected = [by_hand(row_of(problem, rows, i), X[i], Y[i]) for i in range(N)]
    assert found["accuracy"].tolist() == [accuracy for accuracy, _ in expected]
    assert found["loss"].tolist() == pytest.approx([loss for _, loss in expected], abs=1e-13)
    assert 0 < float(found["accuracy"].mean()) < 1


@pytest.mark.parametrize("chunk", [1, 2, N])
def test_a_module_that_minds_its_mode_is_in_evaluation_mode(chunk: int) -> None:
    problem = task(Louder())
    rows = models(problem)
    assert problem.data is not None
    found = Evaluator(problem, Pace.fixed(chunk), rows[:1]).personal(rows, problem.data.test).values
    for i, weight in enumerate(row.reshape(CLASSES, INPUTS).tolist() for row in rows):
        losses = []
        for sample, label in zip(X[i].tolist(), Y[i].tolist(), strict=True):
            scores = [sum(w * value for w, value in zip(own, sample, strict=True)) for own in weight]
            losses.append(math.log(sum(math.exp(score) for score in scores)) - scores[label])
        assert float(found["loss"][i]) == pytest.approx(sum(losses) / len(losses), abs=1e-13)


@pytest.mark.parametrize("chunk", [1, N])
def test_one_model_is_judged_on_pooled_samples_in_evaluation_mode(chunk: int) -> None:
    problem = task(Net())
    rows = models(problem)
    assert problem.data is not None
    test = problem.data.test
    found = Evaluator(problem, Pace.fixed(chunk), rows[:1]).pooled(rows[1], test.unique(), test)
    accuracy, loss = by_hand(row_of(problem, rows, 1), torch.cat(X), torch.cat(Y))
    assert found["accuracy"] == pytest.approx(accuracy, abs=1e-15)
    assert found["loss"] == pytest.approx(loss, abs=1e-13)


@pytest.mark.parametrize("chunk", [1, N])
def test_judging_moves_no_number(chunk: int) -> None:
    problem = task(Net())
    rows = models(problem)
    before = rows.clone()
    assert problem.data is not None
    evaluator = Evaluator(problem, Pace.fixed(chunk), rows[:1])
    first = evaluator.personal(rows, problem.data.test).values
    evaluator.pooled(rows[3], problem.data.test.unique(), problem.data.test)
    again = evaluator.personal(rows, problem.data.test).values
    assert torch.equal(rows, before)
    assert all(torch.equal(first[name], again[name]) for name in first)
