"""Sources: what they learn, and which of them help a target. The reference for a rank is alternating least squares."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from covey.transfer import (
    choose,
    dictionary,
    excess_risk,
    learn_source,
    phase1,
    phase2,
)
from theory.linear import near
from theory.problems import random

# Sources


def test_a_source_of_one_output_gives_its_direction() -> None:
    X, truth = random(30, 6, seed=1), random(6, seed=2)
    source = learn_source(X, X @ truth, rank=3)
    assert source.B.shape == (6, 1) and near(source.theta, truth)


def test_a_source_of_many_outputs_is_the_best_of_its_rank() -> None:
    """Against alternating least squares on B and W, which has no other local minimum here."""
    X = random(40, 7, seed=1)
    Y = X @ random(7, 2, seed=2) @ random(2, 5, seed=3) + 0.3 * random(40, 5, seed=4)
    source = learn_source(X, Y, rank=2)
    assert source.B.shape == (7, 2) and source.w.shape == (2, 5)
    assert near(source.B.T @ source.B, torch.eye(2, dtype=torch.float64))
    B = random(7, 2, seed=5)
    for _ in range(300):
        W = torch.linalg.pinv(X @ B) @ Y
        B = torch.linalg.pinv(X) @ Y @ torch.linalg.pinv(W)
    assert near(source.theta, B @ W, 1e-8)
    assert learn_source(X, X @ random(7, 2, seed=2) @ random(2, 5, seed=3)).B.shape == (7, 2)  # the rank is found


def test_learned_sources_carry_a_target_with_fewer_samples_than_inputs() -> None:
    """The whole chain: 8 rich sources of one output in a common space of 3 dimensions, and 12 samples for a target with
    60 inputs. The floor is σ²q/(n − q − 1); scratch cannot reach the part of θ* that 12 rows do not see."""
    d, common = 60, random(60, 3, seed=1)
    sources = []
    for i in range(8):
        X = random(400, d, seed=10 + i)
        sources.append(learn_source(X, X @ common @ random(3, seed=30 + i) + 0.1 * random(400, seed=50 + i)).B)
    V = dictionary(sources, rank=3)
    truth, X = common @ random(3, seed=70), random(12, d, seed=71)
    y = X @ truth + 0.1 * random(12, seed=72)
    ones, zero = torch.ones(d), torch.zeros(d)
    transferred, scratch = (float(excess_risk(t, truth, ones)) for t in (phase1(X, y, V), phase2(X, y, zero)))
    assert transferred < 0.02 * scratch


# The choice


def choice_problem(helpful: int, others: int) -> tuple[list[Tensor], Tensor, Tensor, Tensor, Tensor]:
    sources = [random(30, 2, seed=i) for i in range(helpful + others)]
    truth = torch.cat(sources[:helpful], dim=1) @ (1 + random(2 * helpful, seed=90).abs())
    X, held = random(25, 30, seed=91), random(40, 30, seed=92)
    return sources, X, X @ truth + 0.1 * random(25, seed=93), held, held @ truth + 0.1 * random(40, seed=94)


def test_the_sources_that_help_are_found_and_no_others() -> None:
    sources, X, y, X_held, y_held = choice_problem(3, 7)
    order = [7, 0, 5, 2, 9, 1, 3, 4, 6, 8]
    found = choose(X, y, [sources[i] for i in order], X_held, y_held)
    assert {order[i] for i in found.sources} == {0, 1, 2}
    assert found.helps and len(found.errors) == 4
    assert all(b < a for a, b in itertools.pairwise(found.errors))
    V = dictionary([sources[order[i]] for i in found.sources])
    again = float((y_held - X_held @ phase1(X, y, V)).square().mean())
    assert found.errors[-1] == pytest.approx(again)
    assert found.errors[0] == pytest.approx(float(y_held.square().mean()))


def test_a_duplicate_is_never_chosen() -> None:
    sources, X, y, X_held, y_held = choice_problem(1, 0)
    assert len(choose(X, y, [sources[0]] * 4, X_held, y_held).sources) == 1
    assert choose(X, y, sources, X_held, y_held, always=sources).sources == ()


def test_where_nothing_helps_nothing_is_chosen() -> None:
    _, X, _, X_held, _ = choice_problem(1, 0)
    noise, noise_held = random(25, seed=1), random(40, seed=2)
    found = choose(X, noise, [random(30, 3, seed=i) for i in range(3, 6)], X_held, noise_held)
    assert found.sources == () and not found.helps
