"""What representation transfer refuses, each in one sentence that names what was given."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from covey import BadInput
from covey.transfer import (
    choose,
    descend,
    dictionary,
    effective_ranks,
    excess_risk,
    learn_source,
    phase1,
    phase2,
    theorem6,
)
from theory.problems import random

# What is refused


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.float64)


REFUSED = {
    "no source": (lambda: dictionary([]), "at least one representation"),
    "zero rank": (lambda: dictionary([zeros(4, 2), zeros(4, 1)]), "rank zero"),
    "unlike inputs": (lambda: dictionary([zeros(4, 2), zeros(5, 2)]), "one per input"),
    "not finite": (lambda: dictionary([torch.tensor([1.0, math.nan])]), "B_1 holds 1 entries"),
    "empty dictionary": (lambda: phase1(random(3, 4), random(3), zeros(4, 0)), "rank zero"),
    "zero dictionary": (lambda: phase1(random(3, 4), random(3), zeros(4, 2)), "rank zero"),
    "labels": (lambda: phase1(random(3, 4), random(2), random(4, 2)), "a row per sample"),
    "no samples": (lambda: phase2(zeros(0, 4), zeros(0), zeros(4)), "at least one sample"),
    "dictionary of others": (lambda: phase1(random(3, 4), random(3), random(5, 2)), "same space of inputs"),
    "theta": (lambda: phase2(random(3, 4), random(3), random(3)), "theta has the shape (3,)"),
    "infinite label": (lambda: phase2(random(3, 4), torch.tensor([1.0, math.inf, 0.0]), zeros(4)), "finite"),
    "rate": (lambda: descend(random(3, 4), random(3), zeros(4), lr=1e3), "diverge"),
    "tolerance": (lambda: phase2(random(3, 4), random(3), zeros(4), tolerance=2.0), "tolerance=2.0"),
    "source": (lambda: learn_source(random(3, 4), zeros(3)), "learned nothing"),
    "rank": (lambda: learn_source(random(3, 4), random(3), rank=0), "rank=0"),
    "covariance": (lambda: effective_ranks(random(3, 4), n=2), "symmetric"),
    "negative": (lambda: effective_ranks([1.0, -1.0], n=2), "negative"),
    "delta": (lambda: theorem6([1.0], n1=1, n2=1, q=1, noise=1.0, delta=1.0), "delta=1.0"),
    "risk": (lambda: excess_risk(zeros(3), zeros(3), zeros(4)), "[d] or [d, d]"),
    "level": (lambda: choose(random(3, 4), random(3), [], random(3, 4), random(3), level=0.0), "level=0.0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name: str) -> None:
    do, says = REFUSED[name]
    with pytest.raises(BadInput) as refusal:
        do()
    assert says in str(refusal.value) and "\n" not in str(refusal.value)
