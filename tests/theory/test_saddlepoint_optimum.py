"""The saddle point against a convex solver, against its rates, and on networks; and the sets it projects onto."""

from __future__ import annotations

import math
from itertools import pairwise as neighbours_of
from typing import Any

import pytest
import torch
from torch import Tensor

import covey
from covey import Task, compress, constraints, graphs
from covey.algorithms import SaddlePoint
from covey.constraints import proximity
from covey.randomness import normal
from theory.problems import random
from theory.rounds import Rounds
from theory.test_saddlepoint import IDENTITY, squares

# Against a convex solver ----------------------------------------------------------------------------------------


def solved(b: Tensor, edges: list[tuple[int, int]], c: float) -> tuple[Tensor, Tensor, float]:
    """min Σ‖x_i − b_i‖² with ‖x_i − x_j‖² ≤ c on the edges: x*, the multipliers of the edges, F*."""
    cvxpy = pytest.importorskip("cvxpy", reason="cvxpy solves the problem independently; pip install 'covey[dev]'")
    x = cvxpy.Variable(tuple(b.shape))
    bounds = [cvxpy.sum_squares(x[i] - x[j]) <= c for i, j in edges]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x - b.numpy())), bounds)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    duals = torch.tensor([float(bound.dual_value.item()) for bound in bounds], dtype=torch.float64)
    return torch.as_tensor(x.value), duals, float(problem.value)


def test_the_optimum_and_the_multipliers_to_the_order_of_the_regularisation() -> None:
    """Six peers on a ring, most constraints active. The error of x and λ is proportional to δη."""
    b, edges = 2 * random(6, 3, seed=12), [*neighbours_of(range(6)), (0, 5)]
    best, multipliers, _ = solved(b, edges, 0.8)
    assert int((multipliers > 1e-3).sum()) >= 4
    errors = []
    for delta in (8.0, 4.0, 2.0):
        run = Rounds(SaddlePoint(0.02, delta, 20.0, IDENTITY, proximity(0.8), output="last"), squares(b),
                     graphs.ring(6)).go(2500)  # fmt: skip
        ids, dual = run.peers.state["neighbours"], run.peers.state["dual"]
        found = torch.stack([dual[i, ids[i].tolist().index(j)] for i, j in edges])
        errors.append((float((run.models - best).norm()), float((2 * found - multipliers).norm())))
        gap = (run.models[[i for i, _ in edges]] - run.models[[j for _, j in edges]]).square().sum(1) - 0.8
        active = found > 1e-3
        torch.testing.assert_close(gap[active], delta * 0.02 * found[active], rtol=0, atol=1e-6)  # g = δηλ
    for (x, dual_error), (half_x, half_dual) in neighbours_of(errors):
        assert 1.8 < x / half_x < 2.2 and 1.7 < dual_error / half_dual < 2.2
    assert errors[-1][0] < 0.04


def test_the_closed_form_where_no_constraint_is_active() -> None:
    """10‖x‖² + b̄ᵀx has its least value −‖b̄‖²/40 at −b̄/20, and λ stays 0."""
    b = random(5, 4, seed=13)
    task = Task.from_function(
        lambda p, own: 10 * p["x"].square().sum() + own @ p["x"], {"x": torch.ones(4).double()}, b
    )
    run = covey.simulate(SaddlePoint(0.01, 1.0, 7.0, IDENTITY, proximity(3.0), output="last"), task, graphs.ring(5),
                         rounds=200, evaluate_every=200)  # fmt: skip
    torch.testing.assert_close(run.params["x"], -b / 20, rtol=0, atol=1e-12)
    assert run.summary()["loss"]["mixed"]["last"] == pytest.approx(-float(b.square().sum()) / 200, abs=1e-12)
    assert not run.peers.state["dual"].any() and run.summary()["constraints"]["violated"] == 0


def gaps(feedback: Any, iterations: tuple[int, ...]) -> list[float]:
    """F(x̄) − F* after T iterations with η = a/√T, one number per message; the violation is checked, too."""
    b, edges = 2 * random(6, 2, seed=14), [*neighbours_of(range(6)), (0, 5)]
    _, _, least = solved(b, edges, 0.8)

    def sample(own: Tensor, keys: Tensor) -> Tensor:
        return own + 0.5 * normal(keys, 2)

    task = Task.from_function(lambda p, own: (p["x"] - own).square().sum(), {"x": torch.zeros(2).double()}, b,
                              sample=sample)  # fmt: skip
    found = []
    for T in iterations:
        method = SaddlePoint(0.5 / math.sqrt(T), 1.0, 6.0, compress.SignTopK(1), proximity(0.8), feedback, 1 / T)
        run = Rounds(method, task, graphs.ring(6)).go(T)
        found.append(float((run.models - b).square().sum()) - least)
        assert run.algorithm.report(run.peers, run.link)["constraints"]["worst"] <= T**-0.25
    return found


@pytest.mark.parametrize("feedback", ["sample", "bandit"])
def test_the_gap_and_the_violation_fall_with_the_number_of_iterations(feedback: Any) -> None:
    """√T |gap| stays under one constant; with samples, four times the iterations leave half the gap, or nearly."""
    few, many = gaps(feedback, (400, 1600))
    assert abs(few) * 20 < 12 and abs(many) * 40 < 12
    if feedback == "sample":
        assert 0.4 < many / few < 0.65


@pytest.mark.soak
def test_rates_in_the_number_of_iterations() -> None:
    """The slope of log |F(x̄) − F*| over log T is −1/2, and over the last factor of four nearest to it."""
    y = [math.log(abs(gap)) for gap in gaps("sample", (1000, 4000, 16000))]
    first, last = ((y[k + 1] - y[k]) / math.log(4) for k in range(2))
    assert (first + last) / 2 < -0.42 and -0.56 < last < -0.45, (first, last)


# Networks -------------------------------------------------------------------------------------------------------


def test_a_network_is_bounded_where_it_is_shared() -> None:
    """Heads are shared and bounded, bodies stay at home and free; no theory, but the bound is kept."""
    data = covey.data.load("digits", peers=4, partition="pathological:3", samples=40, seed=0)
    torch.manual_seed(0)
    task = Task.from_module(covey.models.mlp(64, 16, 10), data, personal="body")
    found = {}
    for c in (0.5, 100.0):
        method = SaddlePoint(0.02, 1.0, 50.0, compress.TopK(0.3), proximity(c), steps=4, batch=10, output="last")
        run = covey.simulate(method, task, graphs.ring(4), rounds=120, evaluate_every=120)
        found[c] = run.summary()["constraints"]["worst"] + c
        assert run.summary()["accuracy"]["mixed"]["last"] > 0.9
    assert found[0.5] < 0.6 < 2.0 < found[100.0]


def test_regions() -> None:
    """Projections are the nearest points; of the shrunk set, every sphere of radius ζ lies in the set."""
    x = 3 * random(50, 2, seed=15)
    triangle = constraints.region(lambda z: _to_triangle(z), inside=(0.3, 0.3), radius=0.2)
    for region in (constraints.ball(1.5), constraints.box((-1, 0), 2.0), triangle):
        for near, zeta in ((region, 0.0), (region.shrunk(0.1), 0.1)):
            p = near.project(x)
            torch.testing.assert_close(near.project(p), p, rtol=0, atol=1e-12)
            towards = ((x - p)[:, None] * (p[None] - p[:, None])).sum(-1)  # ⟨x − p, q − p⟩ ≤ 0 for every q in the set
            assert float(towards.max()) <= 1e-9 < float((x - p).norm())
            for angle in torch.linspace(0, 6.3, 40):
                around = p + zeta * torch.tensor([angle.cos(), angle.sin()])
                torch.testing.assert_close(region.project(around), around, rtol=0, atol=1e-7)


def _to_triangle(z: Tensor) -> Tensor:
    """x, y ≥ 0, x + y ≤ 1, by alternating Dykstra steps."""
    x, first, second = z, torch.zeros_like(z), torch.zeros_like(z)
    for _ in range(200):
        y = (x + first).clamp(min=0)
        first = x + first - y
        over = ((y + second).sum(-1, keepdim=True) - 1).clamp(min=0) / 2
        x, second = y + second - over, over.expand_as(z)
    return x
