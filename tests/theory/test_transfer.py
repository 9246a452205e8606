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
from torch import Tensor

from covey import BadInput
from covey.transfer import (
    Offer,
    choose,
    descend,
    dictionary,
    effective_ranks,
    excess_risk,
    fit_head,
    learn_source,
    phase1,
    phase2,
    theorem6,
)
from theory.problems import random

ROUNDING = 1e-10


def near(a: Tensor, b: Tensor, tolerance: float = ROUNDING) -> bool:
    return a.shape == b.shape and float((a - b).abs().max()) <= tolerance * (1 + float(b.abs().max()))


def projector(B: Tensor) -> Tensor:
    """Onto the columns of B, through the pseudo-inverse."""
    return B @ torch.linalg.pinv(B, rtol=1e-9)


def inverted(X: Tensor) -> Tensor:
    """Xᵀ(XXᵀ)⁻¹, for rows that are independent."""
    return X.T @ torch.linalg.inv(X @ X.T)


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
