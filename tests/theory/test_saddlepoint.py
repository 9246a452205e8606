"""The saddle point of chapter 4 of the dissertation: by hand, against a loop that is written as the box is, against a
convex solver, and against its rates."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import covey
from covey import Task, compress, graphs, trigger
from covey.algorithms import SaddlePoint
from covey.constraints import Constraint, pairwise, proximity
from covey.randomness import key, normal
from covey.training.gradients import TwoPoint
from theory.problems import column, quadratic, random
from theory.rounds import Rounds

IDENTITY = compress.Identity()


def squares(b: Tensor) -> Task:
    """f_i = ‖x − b_i‖², which starts at b_i."""
    return Task.from_function(lambda p, own: (p["x"] - own).square().sum(), {"x": torch.zeros_like(b[0])}, b,
                              start={"x": b})  # fmt: skip


def two(constraint: Constraint, **how: Any) -> Rounds:
    """Two peers who would be at 0 and 2, and must be within 1."""
    return Rounds(SaddlePoint(0.01, 1.0, 5.0, IDENTITY, constraint, **how), squares(column(0, 2)), graphs.full(2))


TWO = {"proximity": proximity(1.0), "by autograd": pairwise(lambda a, b: (a - b).square().sum() - 1.0)}


@pytest.mark.parametrize("constraint", TWO.values(), ids=TWO)
def test_two_peers_by_hand(constraint: Constraint) -> None:
    """x̃ and λ after one, two and three iterations from x̃ = (0, 2), λ = 0."""
    run = two(constraint)
    for x, dual in ((0.0, 0.03), (0.0024, 0.059997), (0.0071402405759999985, 0.0897992307)):
        run.go()
        torch.testing.assert_close(run.peers.rows, column(x, 2 - x), rtol=0, atol=1e-15)
        torch.testing.assert_close(run.peers.state["dual"], column(dual, dual), rtol=0, atol=1e-15)
    torch.testing.assert_close(run.models[0, 0], torch.tensor(0.0024 / 3, dtype=torch.float64), rtol=0, atol=1e-15)


@pytest.mark.parametrize("constraint", TWO.values(), ids=TWO)
def test_the_regularised_saddle_point(constraint: Constraint) -> None:
    """g = δηλ, x₁ = (.5 up to O(δη)), found by bisection on λ: x₂ − x₁ = 2 / (1 + 4λ)."""
    low, high = 0.0, 1.0
    while high - low > 1e-15:
        middle = (low + high) / 2
        low, high = (middle, high) if (2 / (1 + 4 * middle)) ** 2 - 1 > 0.01 * middle else (low, middle)
    gap = 2 / (1 + 4 * low)
    run = two(constraint, output="last").go(1200)
    torch.testing.assert_close(run.models, column(1 - gap / 2, 1 + gap / 2), rtol=0, atol=1e-9)
    torch.testing.assert_close(run.peers.state["dual"], column(low, low), rtol=0, atol=1e-9)
    assert run.models[0, 0] == pytest.approx(0.499377, abs=1e-6) and low == pytest.approx(0.249378, abs=1e-6)
    report = run.algorithm.report(run.peers, run.link)["constraints"]
    assert report["worst"] == pytest.approx(0.01 * low, abs=1e-9) and report["worst_pair"] == [0, 1]


# The box, line by line ------------------------------------------------------------------------------------------


def ball(x: list[float], radius: float) -> list[float]:
    size = math.sqrt(sum(v * v for v in x))
    return [v * min(1.0, radius / size) for v in x] if size > 0 else list(x)


def top(x: list[float]) -> list[float]:
    best = max(range(len(x)), key=lambda place: (abs(x[place]), -place))
    return [v if place == best else 0.0 for place, v in enumerate(x)]


def box(b: list[list[float]], edges: list[tuple[int, int]], T: int, eta: float, delta: float, radius: float, c: float,
        compressed: bool) -> tuple[list[list[float]], list[list[float]], dict[tuple[int, int], float]]:  # fmt: skip
    """Algorithm 2 for f_i = ½‖x − b_i‖²; returns x̃, the running averages and λ of every ordered edge."""
    n, d = len(b), len(b[0])
    near = [[j for j in range(n) if (i, j) in edges or (j, i) in edges] for i in range(n)]
    raw = [ball(row, radius) for row in b]
    hat, mean = [[0.0] * d for _ in b], [[0.0] * d for _ in b]
    dual = {(i, j): 0.0 for i in range(n) for j in near[i]}
    for t in range(1, T + 1):
        for i in range(n):
            gap = [v - w for v, w in zip(raw[i], hat[i], strict=True)]
            hat[i] = [w + q for w, q in zip(hat[i], top(gap) if compressed and t > 1 else gap, strict=True)]
        x = [ball(row, radius) for row in hat]
        mean = [
            [m * (t - 1) / t + v / t for m, v in zip(old, now, strict=True)] for old, now in zip(mean, x, strict=True)
        ]
        old, fresh = dict(dual), []
        for i in range(n):
            step = [eta * (v - w) for v, w in zip(x[i], b[i], strict=True)]
            for j in near[i]:
                step = [s + 2 * eta * old[i, j] * 2 * (v - w) for s, v, w in zip(step, x[i], x[j], strict=True)]
                g = sum((v - w) ** 2 for v, w in zip(x[i], x[j], strict=True)) - c
                dual[i, j] = max(0.0, old[i, j] + eta * (g - delta * eta * old[i, j]))
            fresh.append(ball([r - s for r, s in zip(raw[i], step, strict=True)], radius))
        raw = fresh
    return raw, mean, dual


@pytest.mark.parametrize("compressed", [False, True], ids=["uncompressed", "Top1"])
def test_it_is_the_box(compressed: bool) -> None:
    """Five peers on a chord and a line, where the ball and the constraints are active."""
    b = random(5, 3, seed=2) * 2
    matrix = torch.eye(5, dtype=torch.float64)
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 3)]
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = 0.2
    matrix -= torch.diag(matrix.sum(1) - 1)
    task = Task.from_function(lambda p, own: 0.5 * (p["x"] - own).square().sum(), {"x": torch.zeros(3).double()}, b,
                              start={"x": b})  # fmt: skip
    how = compress.TopK(1) if compressed else IDENTITY
    run = Rounds(SaddlePoint(0.05, 2.0, 2.0, how, proximity(6.0)), task, graphs.from_matrix(matrix)).go(60)
    raw, mean, dual = box(b.tolist(), edges, 60, 0.05, 2.0, 2.0, 6.0, compressed)
    torch.testing.assert_close(run.peers.rows, torch.tensor(raw, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(run.models, torch.tensor(mean, dtype=torch.float64), rtol=0, atol=1e-12)
    assert max(dual.values()) > 0.01 and min(dual.values()) == 0.0
    ids, own = run.peers.state["neighbours"], run.peers.state["dual"]
    for i in range(5):
        for slot, j in enumerate(ids[i].tolist()):
            assert float(own[i, slot]) == pytest.approx(dual.get((i, j), 0.0), abs=1e-12)


# What always holds ----------------------------------------------------------------------------------------------

GRAPH = graphs.erdos_renyi(9, 0.4, seed=1)
COMPRESSORS = {"identity": IDENTITY, "sign": compress.Sign(), "top": compress.TopK(1), "signtop": compress.SignTopK(2),
               "random": compress.QSGD(3)}  # fmt: skip
USER = pairwise(lambda a, b: (a - b).exp().sum() + 0.1 * (a * b).sum() - 4.5)


@pytest.mark.parametrize("constraint", [proximity(0.3), USER], ids=["proximity", "a function that is not symmetric"])
@pytest.mark.parametrize("how", COMPRESSORS.values(), ids=COMPRESSORS)
def test_multipliers_are_symmetric_to_the_bit(how: compress.Compressor, constraint: Constraint) -> None:
    """And at least 0, and bounded by √Σ max g² / (δη); x̃, x and x̄ lie in X; all hold the same copies."""
    eta, delta, radius = 0.05, 3.0, 1.5
    method = SaddlePoint(eta, delta, radius, how, constraint, trigger=trigger.norm(0.1))
    run = Rounds(method, quadratic(3 * random(9, 4, seed=3), start=random(9, 4, seed=4)), GRAPH)
    largest = 0.0
    for _ in range(40):
        before = method.region.project(run.peers.state["hat"])
        run.go()
        state = run.peers.state
        dual, ids = state["dual"], state["neighbours"]
        edges = torch.zeros(9, 9, dtype=torch.float64)
        g, _ = constraint(before, before[ids.clamp(min=0)], run.peers.ids, ids)
        largest = max(largest, float(g.abs().norm()))
        for i in range(9):
            for slot, j in enumerate(ids[i].tolist()):
                if j >= 0:
                    edges[i, j] = dual[i, slot]
                    assert torch.equal(state["copies"][i, slot], state["hat"][j])
        assert torch.equal(edges, edges.T) and float(edges.min()) >= 0
        assert float(edges.norm()) <= largest / (delta * eta) + 1e-12
        for x in (run.peers.rows, run.models):
            assert float(x.norm(dim=1).max()) <= radius * (1 + 1e-15)
    assert float(edges.max()) > 0.1


def test_user_functions_are_what_autograd_says() -> None:
    """`pairwise` of ‖a − b‖² − c is `proximity(c)`, in value and slope; slopes by finite differences for another."""
    x, ids = random(9, 4, seed=5), torch.arange(9)
    slots, _ = GRAPH.round(0).weights.senders()
    others = x[slots.clamp(min=0)]
    same = pairwise(lambda a, b: (a - b).square().sum() - 0.3)
    for one, other in zip(proximity(0.3)(x, others, ids, slots), same(x, others, ids, slots), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
    g, slope = USER(x, others, ids, slots)
    for i in range(9):
        for slot, j in enumerate(slots[i].tolist()):
            if j < 0:
                assert g[i, slot] == 0 and not slope[i, slot].any()
                continue
            for place in range(4):
                values = []
                for way in (1e-6, -1e-6):
                    moved = x[i].clone()
                    moved[place] += way
                    a, b = (moved, x[j]) if i < j else (x[j], moved)
                    values.append(float((a - b).exp().sum() + 0.1 * (a @ b) - 4.5))
                assert float(slope[i, slot, place]) == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-7)


def test_bounds_of_each_edge() -> None:
    """A matrix of bounds; infinity bounds nothing."""
    c = torch.full((3, 3), math.inf, dtype=torch.float64)
    c[0, 1] = c[1, 0] = 0.25
    run = Rounds(SaddlePoint(0.02, 0.1, 9.0, IDENTITY, proximity(c), output="last"), squares(column(0, 2, 9)),
                 graphs.full(3)).go(1500)  # fmt: skip
    torch.testing.assert_close(run.models, column(0.75, 1.25, 9), rtol=0, atol=2e-3)


def test_local_steps_and_silence() -> None:
    """K steps of λ = 0 are K of gradient descent; who is silent is remembered as it was."""
    b = random(4, 2, seed=6)
    task, far = quadratic(b, start=-b), proximity(100.0)
    run = Rounds(SaddlePoint(0.1, 1.0, 9.0, IDENTITY, far, steps=5), task, graphs.ring(4)).go(3)
    torch.testing.assert_close(run.peers.rows, b - 2 * b * 0.9**15, rtol=0, atol=1e-14)
    quiet = Rounds(SaddlePoint(0.1, 1.0, 9.0, IDENTITY, far, trigger=trigger.never), task, graphs.ring(4)).go(3)
    assert torch.equal(quiet.peers.state["hat"], -b)
    assert quiet.link.traffic.formula.broadcast == 32 * 2 * 4  # the first messages


# Two values instead of a gradient -------------------------------------------------------------------------------


@pytest.mark.parametrize("zeta", [1e-4, 0.5])
def test_the_two_point_estimate(zeta: float) -> None:
    """For a quadratic it is d ⟨∇f, u⟩ u for every ζ: its mean is ∇f, its mean square d‖∇f‖²; ‖u‖ = 1."""
    draws, d = 20_000, 6
    H, b = random(d, d, seed=7), random(d, seed=8)
    task = Task.from_function(lambda p, own: p["x"] @ H @ p["x"] + b @ p["x"], {"x": random(d, seed=9)},
                              torch.zeros(draws)).probed(zeta)  # fmt: skip
    rows = task.start(torch.arange(draws), 0, "common")
    found = TwoPoint(task, "all", zeta)(rows, (torch.zeros(draws),), key(3, torch.arange(draws)))
    true = (H + H.T) @ rows[0] + b
    g = found.value
    error = (g.mean(0) - true).norm() / (g - true).square().sum(1).mean().div(draws).sqrt()
    assert float(error) < 3.0  # in standard errors
    squares_of = g.square().sum(1)
    assert float((squares_of.mean() - d * true.square().sum()).abs() / squares_of.std() * draws**0.5) < 4.0
    along = (g @ true) / g.norm(dim=1) ** 2  # g = d ⟨∇f, u⟩ u, so ⟨g, ∇f⟩ = ‖g‖² / d
    torch.testing.assert_close(along, torch.full_like(along, 1 / d), rtol=1e-5, atol=1e-6)


def test_a_black_box_is_asked_inside_the_set_and_at_both_points_alike() -> None:
    """A function of numpy arrays gives the bits that the same function of tensors gives."""
    asked: list[tuple[float, float]] = []
    b = random(4, 3, seed=10) * 3

    def cost(p: dict[str, Any], own: Any) -> float:
        asked.append((float((p["x"] ** 2).sum() ** 0.5), float(own[0])))
        return float(((p["x"] - own) ** 2).sum())

    def sample(own: Tensor, keys: Tensor) -> Tensor:
        return own + normal(keys, 3)

    torch_cost = Task.from_function(lambda p, own: (p["x"] - own).square().sum(), {"x": torch.zeros(3).double()}, b,
                                    sample=sample)  # fmt: skip
    black = Task.from_blackbox(cost, {"x": torch.zeros(3).double()}, b, sample=sample)
    method = SaddlePoint(0.05, 1.0, 1.0, compress.Sign(), proximity(0.5), "bandit", 0.2)
    one, other = (Rounds(method, task, graphs.ring(4)).go(30) for task in (torch_cost, black))
    torch.testing.assert_close(one.peers.rows, other.peers.rows, rtol=0, atol=1e-12)
    sizes, samples = zip(*asked, strict=True)
    assert max(sizes) <= 1 + 1e-12 and max(sizes) > 0.95
    assert len(set(samples)) == len(samples) / 2  # each ξ is used twice: at x + ζu and at x − ζu
    for t in range(30):
        block = samples[t * 8 : (t + 1) * 8]
        assert block[:4] == block[4:]


def test_every_method_takes_a_probed_black_box() -> None:
    """The estimate is a gradient like any other: gossip on two values per step finds the mean."""
    b = random(4, 2, seed=11)
    task = Task.from_blackbox(lambda p, own: float(((p["x"] - own) ** 2).sum()), {"x": torch.zeros(2).double()}, b)
    method = covey.algorithms.DFedAvg(covey.SGD(0.05, decay=0.98))
    run = covey.simulate(method, task.probed(1e-3), graphs.full(4), rounds=250, evaluate_every=250)
    torch.testing.assert_close(run.params["x"], b.mean(0).expand(4, 2), rtol=0, atol=0.05)
