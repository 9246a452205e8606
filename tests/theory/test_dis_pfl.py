"""Dis-PFL: how many weights each tensor keeps, how masks move, who is averaged, what it costs (docs/papers.md, 3.9).

Equality with a naive loop is in `test_naive_methods.py`."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from covey import SGD, BadInput, Task
from covey.algorithms import DFedAvg, DFedAvgM, DisPFL, Local
from covey.compress.masked import masked
from covey.compress.payload import encode
from covey.graphs import Graph, from_matrix, isolated, random_directed, ring
from covey.rows import Field
from covey.training.masks import erk, renewed
from theory.problems import PEERS, classifier, column, quadratic, random
from theory.rounds import Rounds, trajectory

STEP = SGD(0.3, epochs=1, batch=5, momentum=0.9, weight_decay=1e-3, clip=2.0, decay=0.9)
PULL = random_directed(PEERS, 3, seed=3, weights="pull")


def fields(*shapes: tuple[int, ...]) -> list[Field]:
    found, at = [], 0
    for shape in shapes:
        found.append(Field(slice(at, at + math.prod(shape)), torch.Size(shape)))
        at += math.prod(shape)
    return found


# By hand, a matrix [a, b] keeps ε (a + b) of its ab numbers, and ε makes the whole: 10×10 and 40×10 of density .14 keep
# 70 of 500 = ε (20 + 50), ε = 1: 20 and 50. With a bias of 10, whose share ε is 1 at most: of .2 · 510 = 102 numbers ε
# = 102/80 > 1, so it is kept whole and the rest share 92 = ε 70: 26.29 and 65.71. A kernel [8, 4, 3, 3] counts 18.
@pytest.mark.parametrize(("shapes", "density", "kept"), [
    ([(10, 10), (40, 10)], 0.14, [20, 50]),
    ([(10, 10), (40, 10), (10,)], 0.2, [26, 66, 10]),
    ([(8, 4, 3, 3), (2, 9)], 29 / 306, [18, 11]),
    ([(10, 10), (3,), ()], 1.0, [100, 3, 1]),
    ([(10, 10), (1,)], 0.001, [1, 1]),
])  # fmt: skip
def test_densities(shapes: list[tuple[int, ...]], density: float, kept: list[int]) -> None:
    assert erk(fields(*shapes), density) == kept


def test_the_smallest_go_and_the_steepest_come() -> None:
    """By hand: of 4 kept a half goes, the weights .1 and −.2; of those that were masked 5 and 4 are the steepest, of
    which a kept one's 9 is none. Ties go to the lower column. Never more than there is room for."""
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0]], dtype=torch.bool)
    weight = torch.tensor([[0.1, 3.0, -0.2, 0.5, 0, 0, 0]])
    score = torch.tensor([[9.0, 0, 0, 0, 4.0, 1.0, 5.0]])
    [field] = fields((7,))
    assert renewed(mask, [field], weight, score, 0.5).long().tolist() == [[0, 1, 0, 1, 1, 0, 1]]
    assert renewed(mask, [field], weight, score, 0.49).long().tolist() == [[0, 1, 1, 1, 0, 0, 1]]
    assert renewed(mask, [field], 0 * weight, 0 * score, 0.5).long().tolist() == [[0, 0, 1, 1, 1, 1, 0]]
    assert renewed(mask, [field], weight, score, 1.0).long().tolist() == [[0, 1, 0, 0, 1, 1, 1]]
    assert torch.equal(renewed(mask, [field], weight, score, 0.0), mask)


@pytest.mark.parametrize("regrow", ["gradient", "random"])
def test_what_is_kept(regrow: str) -> None:
    """Numbers per tensor are constant and as ERK has them; masked weights are zero, through momentum and weight decay;
    masks differ from the start, move, and slow down as the cosine says."""
    run = Rounds(DisPFL(STEP, 0.5, regrow, rounds=8), classifier(()), PULL)  # type: ignore[arg-type]
    layout = run.peers.task.layout
    kept = erk(list(layout.parameters.values()), 0.5)
    assert sum(kept) / run.peers.rows.shape[1] == pytest.approx(0.5, abs=0.05)
    masks = [run.peers.state["mask"].clone()]
    for _ in range(10):
        run.train()
        assert bool((run.peers.rows[~masks[-1]] == 0).all())
        run.exchange()
        masks.append(run.peers.state["mask"].clone())
        assert bool((run.peers.rows[~masks[-1]] == 0).all())
        for field, number in zip(layout.parameters.values(), kept, strict=True):
            assert masks[-1][:, field.columns].sum(1).tolist() == [number] * PEERS
    assert len({tuple(row) for row in masks[0].tolist()}) == PEERS
    share = [0.25 * (1 + math.cos(math.pi * min(t, 8) / 8)) for t in range(10)]
    moved = [int((one & ~other).sum()) / PEERS for one, other in pairwise(masks)]
    assert moved == [sum(min(int(s * k), f.columns.stop - f.columns.start - k)
                         for f, k in zip(layout.parameters.values(), kept, strict=True)) for s in share]  # fmt: skip
    assert moved[0] > 3 and moved[8] == moved[9] == 0


def test_only_those_who_have_a_weight_are_averaged() -> None:
    """By hand, weights (½, ¼, ¼) for all: column 0 is held by peers 0 and 1: (½·2 + ¼·6)/(¾) = 10/3; column 1 by peer 2
    alone: 8, whatever its weight; column 2 by nobody: 0. Each keeps what its own new mask has."""
    W = [[0.5, 0.25, 0.25]] * 3
    run = Rounds(DisPFL(SGD(0.1, steps=0), 0.5, prune=0.0), quadratic(torch.zeros(3, 3, dtype=torch.float64)),
                 from_matrix(W))  # fmt: skip
    run.train()
    run.peers.state["held"] = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=torch.bool)
    run.peers.state["mask"] = torch.tensor([[1, 1, 1], [1, 0, 0], [0, 1, 1]], dtype=torch.bool)
    run.peers.rows = torch.tensor([[2.0, 0, 0], [6, 0, 0], [0, 8, 0]], dtype=torch.float64)
    run.exchange()
    third = 10 / 3
    expected = torch.tensor([[third, 8, 0], [third, 0, 0], [0, 8, 0]], dtype=torch.float64)
    torch.testing.assert_close(run.peers.rows, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("method", "graph"), [(DFedAvgM(STEP), PULL), (DFedAvg(replace(STEP, momentum=0.0)), ring(PEERS))]
)
def test_density_one_is_dfedavg(method: DFedAvg, graph: Graph) -> None:
    task = classifier(())
    torch.testing.assert_close(trajectory(DisPFL(method.local, 1.0), task, graph, 4),
                               trajectory(method, task, graph, 4), rtol=0, atol=1e-12)  # fmt: skip


def test_alone_and_dense_it_is_local() -> None:
    task = classifier(())
    assert trajectory(DisPFL(STEP, 1.0), task, isolated(PEERS), 3).equal(
        trajectory(Local(STEP), task, isolated(PEERS), 3))  # fmt: skip


def test_a_message_costs_its_numbers_and_a_bitmap() -> None:
    """32 nnz + d by the formula; encoded, the bytes that the payloads of both things really have."""
    d, k = 40, 16
    x = random(3, d)
    mask = torch.zeros(3, d, dtype=torch.bool).scatter(1, torch.stack([torch.randperm(d)[:k] for _ in range(3)]), True)
    ours, places = masked(x, mask)
    assert ours.formula.tolist() == [32.0 * k + d] * 3 and places.formula.tolist() == [0.0] * 3
    assert torch.equal(ours.dense, x * mask) and torch.equal(places.dense, mask.double())
    for message in (ours, places):
        assert message.forms is not None
        for row in range(3):
            assert float(message.encoded[row]) == 8 * len(encode(message.forms[0], row))
    run = Rounds(DisPFL(STEP, 0.5), classifier(()), ring(PEERS)).go(2)
    nnz = int(run.peers.state["mask"][0].sum())
    assert run.link.traffic.formula.links == 2 * 2 * PEERS * (32 * nnz + run.peers.rows.shape[1])


@pytest.mark.parametrize(("how", "words"), [({"density": 0.0}, "density=0.0"), ({"density": 1.5}, "density=1.5"),
                                            ({"regrow": "all"}, "regrow='all'"), ({"prune": 2.0}, "prune=2.0"),
                                            ({"rounds": 0}, "rounds=0")])  # fmt: skip
def test_refused(how: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        DisPFL(STEP, **how)  # type: ignore[arg-type]


def test_masks_are_drawn_by_peer_and_seed() -> None:
    def first(seed: int, task: Task) -> Tensor:
        return Rounds(DisPFL(STEP, 0.5), task, isolated(len(task.train)), seed=seed).peers.state["mask"]

    wide = quadratic(random(3, 64))
    assert torch.equal(first(1, wide), first(1, wide)) and not torch.equal(first(1, wide), first(2, wide))
    assert torch.equal(first(1, quadratic(column(*[0.0] * 3))), torch.ones(3, 1, dtype=torch.bool))
