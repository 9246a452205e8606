"""Gradients at the mean model, M(k) of DePRL and convergence times, against closed forms and plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

import covey
from covey import SGD, Task, graphs, peers
from covey import algorithms as a
from covey.engine.convergence import seconds_of
from covey.engine.convergence import theory as summarised
from covey.errors import BadInput
from covey.measure.stationarity import Squares, consensus_error, deprl_m, stays_below
from covey.peers import Peers
from covey.training.pace import Pace
from engines.table import task
from theory.problems import column, quadratic, random


def test_the_gradient_at_the_mean_of_quadratics_falls_geometrically() -> None:
    """F_i(x) = ½‖x − b_i‖² and doubly stochastic W: x̄ ← x̄ − η(x̄ − b̄), so ‖∇F(x̄)‖ = (1 − η)^t ‖b̄‖ on any graph."""
    b, eta = random(6, 3, seed=1), 0.25
    below = float(b.mean(0).norm()) * 0.1  # (3/4)^t < 0.1 from t = 9 on
    run = covey.simulate(a.DPSGD(SGD(eta)), quadratic(b), graphs.ring(6), 12, gradient_below=below)
    for t, entry in enumerate(run.history, start=1):
        assert entry["theory"]["gradient"] == pytest.approx((1 - eta) ** t * float(b.mean(0).norm()), rel=1e-9)
        assert entry["theory"]["shared"] == pytest.approx(entry["theory"]["gradient"] ** 2)
        assert entry["theory"]["heads"] == 0 and "M" not in entry["theory"]
    found = run.summary()["theory"]
    assert found["gradient"] == run.history[-1]["theory"]["gradient"]
    assert found["gradient_below"]["round"] == 9 == math.ceil(math.log(0.1) / math.log(1 - eta))
    assert found["gradient_below"]["seconds"] == seconds_of(run.history[8])
    assert run.settings["run"]["theory"]  # a threshold asks for it


def by_hand(b: Sequence[float], rounds: int, alphas: Sequence[float], beta: float, tau: int) -> list[dict[str, float]]:
    """DePRL on ring(n) for F_i(φ, θ) = ½(θφ − b_i)², and its M(k), in plain numbers."""
    n = len(b)
    phi, theta = [1.0] * n, [0.0] * n
    found: list[dict[str, float]] = []
    for k in range(rounds):
        mean = sum(phi) / n
        head = [mean * (theta[i] * mean - b[i]) for i in range(n)]
        consensus = sum((p - mean) ** 2 for p in phi) / n
        for _ in range(tau):
            theta = [t - alphas[k] * p * (t * p - y) for t, p, y in zip(theta, phi, b, strict=True)]
        body = sum(theta[i] * (theta[i] * mean - b[i]) for i in range(n)) / n
        ratio = alphas[k] * tau / beta
        half = [p - beta * t * (t * p - y) for t, p, y in zip(theta, phi, b, strict=True)]
        phi = [(half[i - 1] + half[i] + half[(i + 1) % n]) / 3 for i in range(n)]
        mean = sum(phi) / n
        slopes = [(mean * (theta[i] * mean - b[i]), theta[i] * (theta[i] * mean - b[i])) for i in range(n)]
        found.append({
            "M": body**2 + ratio * (sum(head) / n) ** 2 + consensus,
            "M_heads": body**2 + ratio * sum(g * g for g in head) / n + consensus,
            "shared": (sum(s[1] for s in slopes) / n) ** 2,
            "heads": sum(s[0] ** 2 for s in slopes) / n,
            "objective": sum(0.5 * (theta[i] * mean - b[i]) ** 2 for i in range(n)) / n,
        })  # fmt: skip
        found[-1]["gradient"] = math.sqrt(found[-1]["shared"] + found[-1]["heads"])
    return found


def scalars(b: Sequence[float]) -> Task:
    params = {"phi": torch.ones(1, dtype=torch.float64), "theta": torch.zeros(1, dtype=torch.float64)}
    return Task.from_function(
        lambda p, y: 0.5 * (p["phi"] * p["theta"] - y).square().sum(), params, column(*b), personal="theta"
    )


@pytest.mark.parametrize("every", [1, 2])
def test_m_of_deprl_is_that_of_a_plain_loop(every: int) -> None:
    b, decay = (1.0, 2.0, 6.0, -1.0, 0.5), 0.5
    method = a.DePRL(SGD(0.1, steps=2, decay=decay), SGD(0.1))
    run = covey.simulate(method, scalars(b), graphs.ring(5), 4, theory=True, evaluate_every=every)
    wanted = by_hand(b, 4, [0.1 * decay**k for k in range(4)], 0.1, 2)
    assert [entry["round"] for entry in run.history] == list(range(every, 5, every))
    for entry in run.history:
        assert entry["theory"] == pytest.approx(wanted[entry["round"] - 1], rel=1e-9)
    found = run.summary()["theory"]
    assert found["M"]["mean"] == pytest.approx(sum(e["theory"]["M"] for e in run.history) / len(run.history))
    assert found["M_heads"]["last"] == run.history[-1]["theory"]["M_heads"]
    assert "gradient_below" not in found


def test_the_first_m_in_numbers() -> None:
    """b = (1, 2, 6), φ = 1, θ = 0, α = β = 0.1, τ = 2: heads (.19, .38, 1.14); their first gradients are −b."""
    run = covey.simulate(a.DePRL(SGD(0.1, steps=2), SGD(0.1)), scalars((1, 2, 6)), graphs.full(3), 1, theory=True)
    body = (0.19 * 0.81 + 0.38 * 1.62 + 1.14 * 4.86) / 3
    assert run.history[0]["theory"]["M"] == pytest.approx(body**2 + 2 * 3**2)
    assert run.history[0]["theory"]["M_heads"] == pytest.approx(body**2 + 2 * 41 / 3)


def test_the_printed_m_misses_heads_whose_gradients_cancel() -> None:
    start = Squares.of(torch.zeros(2, 1), torch.tensor([[1.0], [-1.0]]))
    assert start == Squares(shared=0.0, heads=1.0, heads_mean=0.0) and start.gradient == 1
    assert deprl_m(start, Squares(0.0, 0.0, 0.0), ratio=3.0, consensus=0.5) == {"M": 0.5, "M_heads": 3.5}
    assert consensus_error(torch.tensor([[0.0, 1.0], [2.0, 1.0]])) == 1


def test_optimal_peers_have_nothing_to_gain() -> None:
    """Each head fits its own peer at the common φ: every quantity is zero, though the heads differ."""
    b = (1.0, 2.0, 6.0)
    params = {"phi": torch.ones(1, dtype=torch.float64), "theta": torch.zeros(1, dtype=torch.float64)}
    own = Task.from_function(
        lambda p, y: 0.5 * (p["phi"] * p["theta"] - y).square().sum(), params, column(*b), personal="theta",
        start={"theta": column(*b)},
    )  # fmt: skip
    run = covey.simulate(a.DePRL(SGD(0.1, steps=2), SGD(0.1)), own, graphs.full(3), 2, theory=True)
    assert set(run.history[-1]["theory"].values()) == {0.0}


def test_stays_below() -> None:
    assert stays_below([3, 2, 1, 0.5], 2) == 2
    assert stays_below([3, 0.5, 3, 0.5, 0.4], 1) == 3  # not the first time it is below
    assert stays_below([0.1], 1) == 0
    assert stays_below([0.5, 3], 1) is None and stays_below([], 1) is None and stays_below([math.nan], 1) is None
    history = [
        {"round": 5 * k, "seconds": {"train": 2.0 * k, "exchange": 1.0, "evaluate": 9.0}, "theory": {"gradient": g}}
        for k, g in enumerate((4.0, 0.5, 0.4), start=1)
    ]
    assert summarised(history, 1.0)["gradient_below"] == {"threshold": 1.0, "round": 10, "seconds": 5.0}
    assert summarised(history, 0.1)["gradient_below"] == {"threshold": 0.1, "round": None, "seconds": None}


def test_seconds_to_target_are_those_of_the_round_that_reached_it() -> None:
    b = random(4, 2, seed=1)
    target = float((b - b.mean(0)).square().sum(1).mean()) / 2 * 1.01
    run = covey.simulate(a.DPSGD(SGD(0.5)), quadratic(b), graphs.full(4), 20, target=target)
    summary = run.summary()
    first = summary["rounds_to_target"]["mixed"]
    assert 1 < first < 20
    seconds = run.history[first - 1]["seconds"]
    assert summary["seconds_to_target"]["mixed"] == seconds["train"] + seconds["exchange"]
    assert summary["seconds_to_target"]["target"] == target
    assert covey.simulate(a.DPSGD(SGD(0.5)), quadratic(b), graphs.full(4), 2).summary()["seconds_to_target"] == {
        "target": None, "trained": None, "mixed": None,
    }  # fmt: skip


def test_a_resumed_run_sees_the_same(tmp_path: Path) -> None:
    """The point at which a round begins is looked at anew where the look after the round before was not in memory."""

    def simulate(**how: object) -> covey.Run:
        method = a.DFedPGP(SGD(0.1, steps=2, batch=4), SGD(0.2, epochs=1, batch=4))
        how = {"seed": 3, "chunk": 3, "theory": True, "init": "heads", **how}
        return covey.simulate(method, task(), graphs.random_directed(6, 2), 4, **how)  # type: ignore[arg-type]

    def stop(round: int, entry: object) -> None:
        if round == 2:
            raise KeyboardInterrupt

    whole = simulate()
    with pytest.raises(KeyboardInterrupt):
        simulate(out=tmp_path / "run", checkpoint_every=2, on_round=stop)
    resumed = simulate(resume=tmp_path / "run")
    assert [e["theory"] for e in resumed.history] == [e["theory"] for e in whole.history]
    assert all(e["theory"]["M_heads"] > e["theory"]["M"] > 0 for e in whole.history)


def test_looking_does_not_choose_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pace is measured once, with the mini-batches of training, whatever gradients are looked at."""
    asked: list[int | None] = []

    def measure(task: Task, rows: torch.Tensor, batch: int | None, wanted: Pace | None = None) -> Pace:
        asked.append(batch)
        return Pace.fixed(2)

    monkeypatch.setattr(peers, "measure", measure)
    covey.simulate(a.DFedAlt(SGD(0.1, batch=4), SGD(0.1, batch=4)), task(), graphs.ring(6), 2, theory=True)
    assert asked == [4]


def test_a_threshold_that_is_none_is_refused() -> None:
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(BadInput, match="use a number above 0"):
            covey.simulate(a.DPSGD(SGD(0.1)), quadratic(random(3, 2)), graphs.full(3), 1, gradient_below=wrong)


def test_gradients_over_much_data_are_taken_in_pieces_and_are_the_same() -> None:
    sizes = (1300, 40, 700, 512)
    generator = torch.Generator().manual_seed(0)
    data = covey.data.from_peers([
        (torch.randn(size, 3, generator=generator).double(), torch.arange(size) % 4, torch.ones(2, 3).double(),
         torch.arange(2)) for size in sizes
    ])  # fmt: skip
    own = Task.from_module(nn.Linear(3, 4).double(), data)
    for chunk in (1, 3):
        some = Peers(own, torch.arange(4), 4, pace=Pace.fixed(chunk))
        rows = some.rows + random(4, 16, seed=2)
        found = own.layout.unpack(some.grad(rows=rows))
        for i in range(4):
            x, y = data.train.of(i)
            model = nn.Linear(3, 4).double()
            model.load_state_dict({name: value[i] for name, value in own.layout.unpack(rows).items()})
            nn.functional.cross_entropy(model(x), y).backward()
            torch.testing.assert_close(found["weight"][i], model.weight.grad, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(found["bias"][i], model.bias.grad, rtol=1e-10, atol=1e-12)
