"""Excess risk, effective ranks and the terms of Theorem 6: numbers by hand, and spectra whose ranks are known."""

from __future__ import annotations

import math

import pytest
import torch

from covey.transfer import (
    Offer,
    effective_ranks,
    excess_risk,
    theorem6,
)
from theory.linear import near
from theory.problems import random

# Risk


def test_excess_risk_is_what_a_sample_sees() -> None:
    """R(θ) − R(θ*) over many samples, within 4 standard errors; a diagonal as a vector is the same matrix."""
    S = torch.tensor([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.5]], dtype=torch.float64)
    theta, truth = random(3, seed=1), random(3, seed=2)
    X = random(40_000, 3, seed=3) @ torch.linalg.cholesky(S).T
    seen = (X @ (theta - truth)).square()
    assert abs(float(excess_risk(theta, truth, S) - seen.mean())) < 4 * float(seen.std()) / 200
    values = torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64)
    assert near(excess_risk(theta, truth, values), excess_risk(theta, truth, torch.diag(values)))
    both = excess_risk(torch.stack([theta, truth], 1), torch.stack([truth, truth], 1), S)
    assert both.tolist() == [float(excess_risk(theta, truth, S)), 0.0]


def test_effective_ranks_by_hand() -> None:
    """λ = 4, 2, 1, 1: r = 8/4, 4/2, 2/1, 1/1; R = 64/22, 16/6, 4/2, 1/1."""
    ranks = effective_ranks([1.0, 4.0, 1.0, 2.0], n=2)
    assert ranks.r.tolist() == [2.0, 2.0, 2.0, 1.0]
    assert near(ranks.R, torch.tensor([64 / 22, 16 / 6, 2.0, 1.0], dtype=torch.float64))
    assert ranks.k_star == 0 and ranks.R_at_k_star == pytest.approx(64 / 22)
    assert effective_ranks([1.0, 4.0, 1.0, 2.0], n=2, b=1.01).k_star is None


def test_effective_ranks_of_known_spectra() -> None:
    d = 50
    flat = effective_ranks(torch.ones(d), n=20)
    assert near(flat.r, torch.arange(d, 0, -1, dtype=torch.float64)) and near(flat.R, flat.r)
    assert flat.k_star == 0 and effective_ranks(torch.ones(d), n=51).k_star is None
    half = effective_ranks(0.5 ** torch.arange(200, dtype=torch.float64), n=2)  # Σ_{i>k} λ_i = 2λ_{k+1}, up to the end
    assert near(half.r[:100], torch.full((100,), 2.0, dtype=torch.float64))
    assert near(half.R[:100], torch.full((100,), 3.0, dtype=torch.float64))
    spiked = torch.cat([torch.tensor([1000.0, 100.0]), torch.ones(d - 2)])
    assert effective_ranks(spiked, n=20).k_star == 2  # the two large ones are left to the head
    Q = torch.linalg.qr(random(d, d, seed=1))[0]
    turned = effective_ranks(Q @ torch.diag(spiked.double()) @ Q.T, n=20)
    assert near(turned.r, effective_ranks(spiked, n=20).r, 1e-8) and turned.k_star == 2


def test_theorem_6_by_hand() -> None:
    """λ = (4, 2, 1, 1), n₁ = 8, n₂ = 2, q = 3, σ² = 0.5, ε² = 0.1, δ = 1/e: λ₁/λ_d · r₀/n₂ = 4, log 1/δ = 1, k* = 0."""
    t = theorem6([4.0, 2.0, 1.0, 1.0], n1=8, n2=2, q=3, noise=0.5, misfit=0.1, delta=1 / math.e,
                 offer=Offer(m=5, k=2, n_s=100, r=0.5, kappa=10.0))  # fmt: skip
    assert t.head == pytest.approx(4 * 0.5 / 8 * (3 + 1))
    assert t.misfit == pytest.approx(0.4)
    assert t.noise == pytest.approx(0.5 * (0 + 2 * 22 / 64))
    assert t.sources == pytest.approx(4 * 0.5 * (1 / 250 + (2 * 4 * math.log(1000) + 2) / 50))
    assert t.total == pytest.approx(t.head + t.misfit + t.noise + t.sources)
    assert t.room == pytest.approx(4 * 1 * 16 / (8 * 10)) and t.scratch == pytest.approx(0.5 * 4 / 10)
    assert (t.simplified, t.deviation) == (1.0, 1.0)


def test_theorem_6_says_where_it_says_nothing() -> None:
    assert math.isinf(theorem6([1.0, 1.0], n1=5, n2=5, q=1, noise=1.0).noise)  # no k*: two inputs, five samples
    assert math.isinf(theorem6([1.0] * 9 + [0.0], n1=5, n2=5, q=1, noise=1.0).head)  # λ_d = 0


def test_the_best_split_of_samples_is_in_half() -> None:
    """(5.9) is largest at n₁ = n₂."""
    room = {n1: theorem6(torch.arange(1.0, 50.0), n1=n1, n2=40 - n1, q=1, noise=1.0).room for n1 in range(1, 40)}
    assert max(room, key=lambda n1: room[n1]) == 20
