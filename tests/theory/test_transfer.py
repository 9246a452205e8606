"""Representation transfer, chapter 5 of the dissertation. References here are normal equations, pseudo-inverses and
loops, on problems small and well conditioned enough for them; the package itself uses none of these."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from covey.transfer import (
    descend,
    dictionary,
    excess_risk,
    fit_head,
    phase1,
    phase2,
)
from theory.linear import inverted, near, projector
from theory.problems import random

# The dictionary


def test_the_dictionary_is_an_orthonormal_basis_of_all_sources() -> None:
    sources = [random(12, k, seed=k) for k in (2, 1, 3)]
    V = dictionary(sources)
    assert V.shape == (12, 6)
    assert near(V.T @ V, torch.eye(6, dtype=torch.float64))
    assert near(V @ V.T, projector(torch.cat(sources, dim=1)), 1e-8)


@pytest.mark.parametrize("scale", [1.0, 1e-18, 1e18])
def test_repeated_mixed_and_rescaled_sources_change_neither_rank_nor_span(scale: float) -> None:
    A, B = random(12, 3, seed=1), random(12, 2, seed=2)
    once = dictionary([A, B])
    mixed = A @ random(3, 3, seed=3)
    again = dictionary([A, A, mixed, scale * B, -2 * scale * B, torch.zeros(12, 2, dtype=torch.float64)])
    assert again.shape == once.shape == (12, 5)
    assert near(again @ again.T, once @ once.T, 1e-9)


def test_a_source_that_went_through_float32_brings_no_rounding_along() -> None:
    B = random(200, 3, seed=1)
    assert dictionary([B, B.float()]).shape == (200, 3)
    assert dictionary([B, B + 1e-3 * random(200, 3, seed=2)]).shape == (200, 6)  # noise is another direction …
    kept = dictionary([B, B + 1e-3 * random(200, 3, seed=2)], rank=3)  # … unless the rank is known
    assert float((kept @ kept.T - projector(B)).norm()) < 0.02


def test_many_noisy_sources_show_their_common_space() -> None:
    """m sources of one output each: every θ_i is one direction, and l of them span V* (Assumption 12). The error of the
    span falls with the noise, in proportion."""
    common, noise = random(40, 4, seed=1), random(40, 30, seed=3)
    theta = common @ random(4, 30, seed=2)
    miss = []
    for level in (1e-2, 1e-4):
        V = dictionary([*(theta + level * noise).T], rank=4)
        miss.append(float((V @ V.T - projector(common)).norm()))
    assert miss[0] < 0.1
    assert miss[1] / miss[0] == pytest.approx(1e-2, rel=0.05)


# Phase 1


def test_phase_1_is_least_squares_on_the_head() -> None:
    X, y, V = random(20, 8, seed=1), random(20, seed=2), random(8, 3, seed=3)
    head = fit_head(X, y, V)
    Z = X @ V
    assert near(head.w, torch.linalg.inv(Z.T @ Z) @ Z.T @ y)
    assert near(head.theta, V @ head.w) and near(phase1(X, y, V), head.theta)
    assert head.unique and head.rank == 3


@pytest.mark.parametrize("n", [5, 6, 30])
def test_a_target_in_the_span_is_found_exactly_and_phase_2_leaves_it(n: int) -> None:
    V = dictionary([random(40, 2, seed=1), random(40, 3, seed=2)])
    truth = V @ random(5, seed=3)
    X1, X2 = random(n, 40, seed=4), random(15, 40, seed=5)
    one = phase1(X1, X1 @ truth, V)
    assert near(one, truth, 1e-9)
    assert near(phase2(X2, X2 @ truth, one), one, 1e-9)


def test_too_few_samples_give_the_head_of_smallest_norm_and_say_so() -> None:
    X, y, V = random(3, 10, seed=1), random(3, seed=2), dictionary([random(10, 6, seed=3)])
    with pytest.warns(UserWarning, match="3 samples determine 3 of the 6 directions"):
        theta = phase1(X, y, V)
    head = fit_head(X, y, V)
    assert (head.rank, head.unique) == (3, False)
    assert near(head.w, inverted(X @ V) @ y)
    assert near(X @ theta, y)  # it interpolates
    other = head.w + 0.1 * (torch.eye(6, dtype=torch.float64) - projector((X @ V).T)) @ random(6, seed=4)
    assert near(X @ V @ other, y) and float(other.norm()) > float(head.w.norm())


def test_no_warning_where_the_head_is_determined() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        phase1(random(6, 10, seed=1), random(6, seed=2), random(10, 6, seed=3))


def test_excess_risk_of_phase_1_is_noise_times_q_over_n_minus_q_minus_1() -> None:
    """Gaussian inputs, θ* in the span: E EER = σ²q/(n − q − 1). Regressed on that over (n, q); σ² = 0.49. The slope is
    within 4 of its standard errors of σ², and those are small enough that q/n in its place is refused."""
    noise, runs, d = 0.49, 150, 12
    x, dull, y, error = [], [], [], []
    for q, n in itertools.product((2, 5), (12, 16, 30)):
        V = dictionary([random(d, q, seed=q)])
        truth, risks = V @ random(q, seed=9), []
        for r in range(runs):
            X = random(n, d, seed=1000 * n + 10 * r + q)
            z = math.sqrt(noise) * random(n, seed=500_000 + 1000 * n + 10 * r + q)
            risks.append(float(excess_risk(phase1(X, X @ truth + z, V), truth, torch.ones(d))))
        x.append(q / (n - q - 1))
        dull.append(q / n)
        y.append(np.mean(risks))
        error.append(np.std(risks, ddof=1) / math.sqrt(runs))

    def slope(x: list[float]) -> tuple[float, float]:
        w = np.array(error) ** -2.0
        return float(w @ (np.array(x) * y) / (w @ np.square(x))), float((w @ np.square(x)) ** -0.5)

    found, spread = slope(x)
    assert abs(found - noise) < 4 * spread
    wrong, spread = slope(dull)
    assert abs(wrong - noise) > 4 * spread


# Phase 2


def test_phase_2_of_one_sample_by_hand() -> None:
    """X = [1 1 0], y = 3, θ₁ = (1, 0, 2): the residual 2 is spread over the row, 2/2 · (1, 1, 0)."""
    X, y, one = [[1.0, 1.0, 0.0]], [3.0], [1.0, 0.0, 2.0]
    two = torch.tensor([2.0, 1.0, 2.0], dtype=torch.float64)
    assert near(phase2(X, y, one), two, 1e-14)
    assert near(descend(X, y, one).theta, two, 1e-11)


@pytest.mark.parametrize("outputs", [None, 3])
def test_phase_2_is_the_closest_interpolator(outputs: int | None) -> None:
    more = () if outputs is None else (outputs,)
    X, y, one = random(6, 15, seed=1), random(6, *more, seed=2), random(15, *more, seed=3)
    two = phase2(X, y, one)
    assert near(X @ two, y)
    rows = projector(X.T)
    assert near(rows @ (two - one), two - one)  # it moved along rows of X only
    assert near(two, rows @ (inverted(X) @ y) + one - rows @ one)  # Lemma 9
    other = two + (torch.eye(15, dtype=torch.float64) - rows) @ random(15, *more, seed=4)
    assert near(X @ other, y) and float((other - one).norm()) > float((two - one).norm())
    assert near(phase2(X, X @ one, one), one)  # what fits already stays


def test_gradient_descent_tends_to_phase_2_at_the_rate_of_its_smallest_singular_value() -> None:
    """‖θ_t − θ₂‖ falls by 1 − (s_min/s_max)² per step in the end, although f is not strongly convex for n < d."""
    rows = torch.linalg.qr(random(30, 4, seed=1))[0].T
    X = torch.linalg.qr(random(4, 4, seed=2))[0] * torch.tensor([4.0, 3.0, 2.0, 1.0]) @ rows
    y, one = random(4, seed=3), random(30, seed=4)
    two = phase2(X, y, one)
    done = descend(X, y, one)
    assert done.converged and near(done.theta, two, 1e-9)
    steps = np.array([100, 130, 160, 190])
    away = [math.log(float((descend(X, y, one, steps=int(t)).theta - two).norm())) for t in steps]
    assert np.polyfit(steps, away, 1)[0] == pytest.approx(math.log(1 - (1 / 4) ** 2), rel=1e-4)


def test_stopped_descent_says_that_it_is_no_phase_2() -> None:
    X, y = random(8, 30, seed=1), random(8, seed=2)
    early = descend(X, y, torch.zeros(30), steps=3)
    assert early.steps == 3 and not early.converged
    naive = torch.zeros(30, dtype=torch.float64)
    rate = 1 / (2 / 8 * float(torch.linalg.eigvalsh(X.T @ X)[-1]))
    for _ in range(3):
        naive = naive - rate * (2 / 8) * X.T @ (X @ naive - y)
    assert near(early.theta, naive)


def test_the_recipe_knows_where_descent_is_after_so_many_steps() -> None:
    file = Path(__file__).parents[2] / "recipes" / "dissertation_table_5_1.py"
    spec = importlib.util.spec_from_file_location("table_5_1", file)
    assert spec is not None and spec.loader is not None
    recipe = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = recipe
    spec.loader.exec_module(recipe)
    X, y, one = random(8, 8, seed=1), random(8, 2, seed=2), random(8, 2, seed=3)
    for steps, theta in zip((1, 7, 50), recipe.after(X, y, one, (1, 7, 50)), strict=True):
        assert near(theta, descend(X, y, one, steps=steps).theta)


def test_at_n_equal_d_phase_2_solves_the_square_system() -> None:
    """With λ from 0.37 to 1e-4 as in Table 5.1; forming XᵀX would leave 1e-16 · cond², here 1e-6."""
    d = 60
    scale = (torch.exp(-torch.arange(1, d + 1, dtype=torch.float64)) + 1e-8).sqrt()
    X, truth = random(d, d, seed=1) * scale, random(d, seed=2)
    condition = float(torch.linalg.cond(X))
    assert condition > 1e4
    assert float((phase2(X, X @ truth, torch.zeros(d)) - truth).norm() / truth.norm()) < 1e-14 * condition


def test_a_repeated_sample_at_n_equal_d_does_not_explode() -> None:
    """The square matrix is singular then; rounding must not decide where θ goes."""
    X, y, one = random(10, 10, seed=1), random(10, seed=2), random(10, seed=3)
    X[9], y[9] = X[0], y[0]
    assert near(phase2(X, y, one), phase2(X[:9], y[:9], one), 1e-9)
    X[9] = X[0] + 1e-17
    assert float(phase2(X, y, one).norm()) < 100


def test_rows_that_repeat_up_to_the_rounding_of_their_type_do_not_explode() -> None:
    X = random(6, 10, seed=1).float()
    X[5] = X[0] / 3
    assert float((3 * X[5] - X[0]).abs().max()) > 0  # float32 cannot say X/3
    assert float(phase2(X, random(6, seed=2), torch.zeros(10)).norm()) < 10
    assert fit_head(X, random(6, seed=2), random(10, 8, seed=3)).rank == 5


def test_lists_are_not_rounded_to_float32() -> None:
    assert phase2([[1.0]], [0.1], [0.0]).item() == pytest.approx(0.1, abs=1e-16)


def test_contradicting_samples_are_met_half_way() -> None:
    """One input seen with labels 1 and 2: the best fit is 1.5, and of the models with it the closest."""
    two = phase2([[2.0, 0.0], [2.0, 0.0]], [1.0, 2.0], [5.0, 7.0])
    assert near(two, torch.tensor([0.75, 7.0], dtype=torch.float64), 1e-14)


def test_more_samples_than_inputs_make_phase_2_ordinary_least_squares() -> None:
    X, y = random(30, 5, seed=1), random(30, seed=2)
    ols = torch.linalg.inv(X.T @ X) @ X.T @ y
    assert near(phase2(X, y, random(5, seed=3)), ols) and near(phase2(X, y, torch.zeros(5)), ols)
