"""Methods against numbers worked out by hand or by a separate numpy script.

The number beside each is its section of docs/papers.md, where the equation stands. Numbers have six decimals, so they
are met to 6e-7.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import covey
from covey import SGD, Task
from covey.algorithms import (
    DPSGD,
    SGP,
    Algorithm,
    DePRL,
    DFedAlt,
    DFedAvg,
    DFedAvgM,
    DFedPGP,
    DFedSalt,
    FedAvg,
    FedAvgM,
    FedRep,
    Local,
)  # fmt: skip
from covey.graphs import Graph, from_matrix, full, isolated, ring, server
from theory.problems import bowl, column, quadratic
from theory.rounds import Rounds

PRINTED = 6e-7
B = column(1, 2, 3, 10)
LIMIT = 180  # rounds after which 0.9^t < 1e-8


def after(rounds: int, method: Algorithm, task: Task, graph: Graph) -> Tensor:
    run = covey.simulate(method, task, graph, rounds=rounds, evaluate_every=rounds, chunk=len(task.train))
    return torch.cat([value.flatten(1) for value in run.params.values()], 1)


# algorithm, graph, {round: the four x}; F_i = ½(x − b_i)², b = (1, 2, 3, 10), x⁰ = 0, η = 0.1
ON_QUADRATIC = {
    # 3.2: w^k = b_i + (1−η)^k (w⁰ − b_i), here k = 3 per round: b_i (1 − .729), b_i (1 − .729²)
    "Local": (Local(SGD(0.1, steps=3)), isolated(4), {1: (0.271, 0.542, 0.813, 2.71),
                                                      2: (0.468559, 0.937118, 1.405677, 4.68559)}),
    # 3.2
    "D-PSGD cta": (DPSGD(SGD(0.1), order="cta"), ring(4), {1: (0.1, 0.2, 0.3, 1.0),
                                                           2: (0.523333, 0.38, 0.77, 1.366667),
                                                           LIMIT: (3.730030, 3.617796, 3.990900, 4.661274)}),
    "D-PSGD atc": (DPSGD(SGD(0.1)), ring(4), {1: (0.433333, 0.2, 0.5, 0.466667),
                                              2: (0.763333, 0.54, 0.85, 0.886667),
                                              LIMIT: (4.003663, 3.758242, 4.098901, 4.139194)}),
    # 3.2
    "DFedAvg": (DFedAvg(SGD(0.1, steps=3)), ring(4), {1: (1.174333, 0.542, 1.355, 1.264667),
                                                      60: (4.026017, 3.377330, 4.264678, 4.331975)}),
    # By hand: heavy ball from y⁰ = 0 with g = y − b, θ = .9: v = −b, −1.8b, −2.34b; y = .1b, .28b, .514b. So a round
    # is x ← W(b + .486(x − b)), also the second, since the velocity starts at 0 again; Wb = (13/3, 2, 5, 14/3).
    # Round 2 is W(.514b + .486x¹): .514b + .486x¹ = (1.596484, 1.527608, 2.79102, 6.305752); row sums / 3.
    "DFedAvgM": (DFedAvgM(SGD(0.1, steps=3, momentum=0.9)), ring(4), {1: (2.227333, 1.028, 2.57, 2.398667),
                                                                       2: (3.143281, 1.971704, 3.541460, 3.564419)}),
    # 3.2: w ← .729 w + .271 · 4
    "FedAvg": (FedAvg(SGD(0.1, steps=3)), server(4), {1: (1.084,) * 4, 2: (1.874236,) * 4}),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_QUADRATIC)
def test_quadratic(name: str) -> None:
    algorithm, graph, expected = ON_QUADRATIC[name]
    for rounds, x in expected.items():
        torch.testing.assert_close(after(rounds, algorithm, quadratic(B), graph), column(*x), rtol=0, atol=PRINTED)


@pytest.mark.parametrize("name", ["D-PSGD cta", "D-PSGD atc", "DFedAvg"])
def test_fixed_point_stays(name: str) -> None:
    algorithm, graph, expected = ON_QUADRATIC[name]
    fixed = column(*expected[max(expected)])
    moved = after(1, algorithm, quadratic(B, start=fixed), graph)
    torch.testing.assert_close(moved, fixed, rtol=0, atol=PRINTED)


def test_both_orders_of_dpsgd_have_mean_four() -> None:
    for name in ("D-PSGD cta", "D-PSGD atc"):
        algorithm, graph, _ = ON_QUADRATIC[name]
        assert after(LIMIT, algorithm, quadratic(B), graph).mean() == pytest.approx(4, abs=1e-6)


# By hand: two clients, F = ½(w − b)², b = (1, 3), one step at η = .5: the clients' mean is w/2 + 1, so
# Δ = w − (w/2 + 1) = w/2 − 1, s ← ½ s + Δ, w ← w − η_s s.
#   η_s = 1:  Δ = −1, −.5, 0, .25;          s = −1, −1, −.5, 0;                   w = 1, 2, 2.5, 2.5
#   η_s = .5: Δ = −1, −.75, −.4375;         s = −1, −1.25, −1.0625;               w = .5, 1.125, 1.65625
SERVER_MOMENTUM = {1.0: (1.0, 2.0, 2.5, 2.5), 0.5: (0.5, 1.125, 1.65625)}


@pytest.mark.parametrize("rate", SERVER_MOMENTUM)
def test_server_momentum(rate: float) -> None:
    method = FedAvgM(SGD(0.5), beta=0.5, server_lr=rate)
    for rounds, w in enumerate(SERVER_MOMENTUM[rate], start=1):
        assert after(rounds, method, quadratic(column(1, 3)), server(2)).tolist() == [[w], [w]]


def test_server_weighs_by_size() -> None:
    """3.2: w ← Σ (n_i/Σn) w_i. Two clients with 1 and 3 samples, at b = 4 and 8, one step at η = .5 from 0: ½(w − b)²
    gives w_i = 2 and 4, so w = 3.5 by size and 3 if all weigh the same."""
    x = [torch.ones(k, 1, dtype=torch.float64) for k in (1, 3)]
    data = covey.data.from_peers([(x[0], 4 * x[0], x[0], 4 * x[0]), (x[1], 8 * x[1], x[1], 8 * x[1])])
    module = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(module.weight)
    task = Task.from_module(module, data, loss=lambda p, y: 0.5 * (p - y).square().mean())
    for weights, w in (("size", 3.5), ("equal", 3.0)):
        run = covey.simulate(FedAvg(SGD(0.5)), task, server(2, weights=weights), rounds=1)
        assert run.params["weight"].flatten().tolist() == pytest.approx([w, w], abs=1e-12)


# 3.3: edges 1→2, 1→3, 2→3, 3→1 and self-loops, columns (⅓,⅓,⅓), (0,½,½), (½,0,½); x⁰ = (0, 3, 6), no gradients
PUSH = torch.tensor([[2, 0, 3], [2, 3, 0], [2, 3, 3]], dtype=torch.float64) / 6
PULL = torch.tensor([[3, 0, 3], [3, 3, 0], [2, 2, 2]], dtype=torch.float64) / 6  # the same edges, rows uniform
PUSHED = {  # round: x, w, z
    1: ((3, 1.5, 4.5), (0.833333, 0.833333, 1.333333), (3.6, 1.8, 3.375)),
    2: ((3.25, 1.75, 4), (0.944444, 0.694444, 1.361111), (3.441176, 2.52, 2.938776)),
    60: ((3, 2, 4), (1, 0.666667, 1.333333), (3, 3, 3)),
}


def test_push_sum_keeps_its_sums_on_a_matrix_given_as_a_list() -> None:
    """Sums 3 and 9 always; a matrix rounded to float32 loses 2e-8 of them per round."""
    run = Rounds(SGP(SGD(0.1, steps=0)), quadratic(column(0, 0, 0), column(0, 3, 6)), from_matrix(PUSH.tolist())).go(60)
    assert float(run.peers.rows.sum()) == pytest.approx(9, abs=1e-12)
    assert float(run.peers.state["mass"].sum()) == pytest.approx(3, abs=1e-12)


@pytest.mark.parametrize("rounds", PUSHED)
def test_push_sum(rounds: int) -> None:
    run = Rounds(SGP(SGD(0.1, steps=0)), quadratic(column(0, 0, 0), column(0, 3, 6)), from_matrix(PUSH)).go(rounds)
    x, w, z = (column(*values) for values in PUSHED[rounds])
    torch.testing.assert_close(run.peers.rows, x, rtol=0, atol=PRINTED)
    torch.testing.assert_close(run.peers.state["mass"], w, rtol=0, atol=PRINTED)
    torch.testing.assert_close(run.models, z, rtol=0, atol=PRINTED)


def test_push_sum_on_rows_that_sum_to_one_finds_another_value() -> None:
    """3.3: Perron weights 4/9, 2/9, 1/3 give 0 + 6/9 + 6/3 = 2.666667, and the mass stays 1."""
    run = Rounds(SGP(SGD(0.1, steps=0)), quadratic(column(0, 0, 0), column(0, 3, 6)), from_matrix(PULL)).go(60)
    torch.testing.assert_close(run.models, column(*[2.666667] * 3), rtol=0, atol=PRINTED)
    torch.testing.assert_close(run.peers.state["mass"], column(1, 1, 1), rtol=0, atol=1e-15)


def two_part(value: float, head: float, start: Tensor | None = None, product: bool = False) -> Task:
    """F_i = ½(u + v − b_i)², or ½(u v − b_i)²; b = (1, 2, 6), v personal."""
    first = {name: torch.tensor([x], dtype=torch.float64) for name, x in (("u", value), ("v", head))}

    def loss(p: dict[str, Tensor], b: Tensor) -> Tensor:
        return 0.5 * ((p["u"] * p["v"] if product else p["u"] + p["v"]) - b).square().sum()

    return Task.from_function(loss, first, column(1, 2, 6), "v", start=None if start is None else {"u": start})


# 3.4: ½(θφ − b_i)², everybody hears everybody, θ = 0, φ = 1, α = β = .1, τ = 2
REPRESENTATION = {1: ((0.19, 0.38, 1.14), 1.21033), 2: ((0.362747, 0.725494, 2.176482), 1.488427)}


@pytest.mark.parametrize("rounds", REPRESENTATION)
@pytest.mark.parametrize(("method", "graph"), [(DePRL, full(3)), (FedRep, server(3))], ids=["DePRL", "FedRep"])
def test_shared_representation(method: type[DFedAlt], graph: Graph, rounds: int) -> None:
    heads, body = REPRESENTATION[rounds]
    found = after(rounds, method(SGD(0.1, steps=2), SGD(0.1)), two_part(1.0, 0.0, product=True), graph)
    expected = torch.cat([column(body, body, body), column(*heads)], 1)
    torch.testing.assert_close(found, expected, rtol=0, atol=PRINTED)


# 3.4: ½(u + v − b_i)² on the graph of 3.3, u⁰ = (0, 3, 6), v⁰ = 0, one step each at .1
PUSHED_BODIES = {  # round: v, u, μ, z
    1: ((0.1, -0.1, 0), (3.03, 1.485, 4.485), (0.833333, 0.833333, 1.333333), (3.636, 1.782, 3.36375)),
    2: ((-0.1736, -0.0682, 0.263625), (3.289051, 1.684730, 4.045861), (0.944444, 0.694444, 1.361111),
        (3.482525, 2.426011, 2.972469)),
}  # fmt: skip


@pytest.mark.parametrize("rounds", PUSHED_BODIES)
def test_pushed_bodies(rounds: int) -> None:
    task = two_part(0.0, 0.0, start=column(0, 3, 6))
    run = Rounds(DFedPGP(SGD(0.1), SGD(0.1)), task, from_matrix(PUSH)).go(rounds)
    v, u, mass, z = (column(*values) for values in PUSHED_BODIES[rounds])
    torch.testing.assert_close(run.peers.rows, torch.cat([u, v], 1), rtol=0, atol=PRINTED)
    torch.testing.assert_close(run.peers.state["mass"], mass, rtol=0, atol=PRINTED)
    torch.testing.assert_close(run.models, torch.cat([z, v], 1), rtol=0, atol=PRINTED)


# 3.4: ½(u + v − 3)², u = 1, v = .5, η = .1, ρ = .7: g = −1.5, SAM's g = −2.2. By hand beyond the text:
# head first with SAM: v = .72; then g = −1.28, u = 1.128, or with SAM at u too g = −1.98, u = 1.198.
STEEPEST = {  # name: personal, shared, on, (u, v)
    "Alt": (SGD(0.1, steps=0), SGD(0.1), "shared", (1.15, 0.5)),
    "Salt": (SGD(0.1, steps=0), SGD(0.1, sam=0.7), "shared", (1.22, 0.5)),
    "Salt-V": (SGD(0.1, sam=0.7), SGD(0.1), "personal", (1.128, 0.72)),
    "Salt-UV": (SGD(0.1, sam=0.7), SGD(0.1, sam=0.7), "both", (1.198, 0.72)),
}


@pytest.mark.parametrize("name", STEEPEST)
def test_sharpness_aware(name: str) -> None:
    personal, shared, on, (u, v) = STEEPEST[name]
    params = {"u": torch.tensor([1.0], dtype=torch.float64), "v": torch.tensor([0.5], dtype=torch.float64)}
    task = Task.from_function(lambda p, b: 0.5 * (p["u"] + p["v"] - b).square().sum(), params, column(3, 3), "v")
    found = after(1, DFedSalt(personal, shared, on=on), task, isolated(2))
    torch.testing.assert_close(found, torch.tensor([[u, v]] * 2, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_norm_of_sam_is_per_peer_over_the_trained_part() -> None:
    """By hand: ½‖u − b‖² + ½(v − 100)², u = 0, ρ = .5, η = .1. b = (3, 4): g = −(3, 4), ε = −(.3, .4), u = (.33, .44).
    b = (0, 8): u = (0, .85). b = 0: g = 0, so ε = 0 and u stays 0, not 0/0. A norm over (u, v) or over all peers would
    give (.3015, .402) or less."""
    params = {name: torch.zeros(k, dtype=torch.float64) for name, k in (("u", 2), ("v", 1))}
    task = Task.from_function(
        lambda p, b: 0.5 * (p["u"] - b).square().sum() + 0.5 * (p["v"] - 100).square().sum(),
        params, torch.tensor([[3.0, 4.0], [0.0, 8.0], [0.0, 0.0]], dtype=torch.float64), "v",
    )  # fmt: skip
    found = after(1, DFedSalt(SGD(0.1, steps=0), SGD(0.1, sam=0.5)), task, isolated(3))
    expected = torch.tensor([[0.33, 0.44, 0], [0, 0.85, 0], [0, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_one_gossip_step_on_a_ring() -> None:
    """3.1: (1,2,3,10) → (13/3, 2, 5, 14/3); Σ(x − 4)² falls from 50 to 50/9, since λ = 1, ⅓, ⅓, −⅓."""
    mixed = after(1, DFedAvg(SGD(0.1, steps=0)), quadratic(0 * B, start=B), ring(4))
    torch.testing.assert_close(mixed, column(13 / 3, 2, 5, 14 / 3), rtol=0, atol=1e-14)
    assert float((mixed - 4).square().sum()) == pytest.approx(50 / 9, abs=1e-13)


# 3.5: Φ_k = ½ a_k w², ring of 4, η = .1: spectral radius of W·diag((1 − ηa_k)^T) on the ring
COMMON_MINIMUM = {  # a, T: radius
    ((0.5, 1, 1.5, 2), 1): 0.876247,
    ((0.5, 1, 1.5, 2), 10): 0.345249,
    ((0, 1, 1.5, 2), 1): 0.889386,
    ((0, 1, 1.5, 2), 10): 0.477002,
}


@pytest.mark.parametrize(("a", "steps"), COMMON_MINIMUM)
def test_spectral_radius_under_interpolation(a: tuple[float, ...], steps: int) -> None:
    round_map = after(1, DFedAvg(SGD(0.1, steps=steps)), bowl(a), ring(4))
    radius = float(torch.linalg.eigvals(round_map).abs().max())
    assert radius == pytest.approx(COMMON_MINIMUM[a, steps], abs=PRINTED)


def test_one_round_from_ones_under_interpolation() -> None:
    """3.5: (.883333, .9, .85, .866667) on the ring; the server's factor: mean (1 − ηa_k)^T, .875 or .312916."""
    a = (0.5, 1, 1.5, 2)
    from_ones = after(1, DFedAvg(SGD(0.1)), bowl(a), ring(4)).sum(1)  # the map is linear: rows of unit vectors add up
    expected = torch.tensor([0.883333, 0.9, 0.85, 0.866667], dtype=torch.float64)
    torch.testing.assert_close(from_ones, expected, rtol=0, atol=PRINTED)
    for steps, factor in ((1, 0.875), (10, 0.312916)):
        of_server = after(1, FedAvg(SGD(0.1, steps=steps)), bowl(a), server(4)).sum(1)
        torch.testing.assert_close(of_server, torch.full((4,), factor, dtype=torch.float64), rtol=0, atol=PRINTED)
