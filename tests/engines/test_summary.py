"""The numbers of summary.json, from a history that is written by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import covey
from covey import SGD, Task
from covey.algorithms import DFedAlt
from covey.engine.run import Entry, Run
from covey.graphs import isolated
from covey.measure import Scores


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def run(history: list[Entry], target: float | None = None) -> dict[str, Any]:
    """The summary of a run that had this history."""
    task = Task.from_function(lambda p, own: (p["x"] - own).square().sum(), {"x": torch.zeros(1)}, torch.ones(2, 1))
    done = covey.simulate(covey.algorithms.Local(SGD(0.1)), task, isolated(2), rounds=1, target=target)
    return Run(done.peers, done.rows, done.traffic, done.settings, history).summary()


def entry(round: int, accuracy: float, loss: float = 1.0, **more: object) -> Entry:
    point = {"accuracy": accuracy, "loss": loss, "std": accuracy / 10, "worst_decile": accuracy / 4}
    return {"round": round, "mixed": point, "average": {"accuracy": -accuracy, "loss": -loss}, "train_loss": loss / 2,
            "consensus": loss / 8, "seconds": {"train": float(round), "exchange": 0.5}, **more}  # fmt: skip


def test_last_best_and_spread_are_those_of_the_curve() -> None:
    history = [entry(1, 0.5, 3.0), entry(2, 0.875, 0.25), entry(3, 0.25, 0.5), entry(4, 0.75, 2.0)]
    found = run(history)
    assert found["accuracy"]["mixed"] == {
        "last": 0.75, "mean_last_10": 0.59375, "best": 0.875, "std": 0.075, "worst_decile": 0.1875,
    }  # fmt: skip
    assert found["loss"]["mixed"] == {"last": 2.0, "mean_last_10": 1.4375, "best": 0.25}
    assert found["accuracy"]["average"] == {"last": -0.75, "mean_last_10": -0.59375, "best": -0.25}
    assert found["loss"]["average"]["best"] == -3.0
    assert (found["train_loss"], found["consensus"], found["seconds"]) == (1.0, 0.25, {"train": 4.0, "exchange": 0.5})


def test_what_is_unknown_is_not_the_best() -> None:
    found = run([entry(1, 0.5, math.nan), entry(2, 0.25, 3.0), entry(3, 0.375, 4.0)])["loss"]["mixed"]
    assert (found["best"], found["last"]) == (3.0, 4.0)
    assert math.isnan(run([entry(1, 0.5, math.nan)])["loss"]["mixed"]["best"])


def test_the_mean_is_over_the_last_ten_rounds() -> None:
    """Rounds 1 … 24 with accuracy t²/1024: the squares of 15 … 24 are 225, …, 576 and add up to 3885."""
    found = run([entry(t, t * t / 1024, loss=-t) for t in range(1, 25)])
    assert found["accuracy"]["mixed"]["mean_last_10"] == pytest.approx(388.5 / 1024, abs=1e-15)
    assert found["loss"]["mixed"]["mean_last_10"] == -19.5


def test_rounds_without_a_look_count_among_the_last_ten() -> None:
    """Looks after rounds 4, 8, 12, 16, 20 and 22: of rounds 13 … 22 three were looked at."""
    found = run([entry(t, t * t / 1024, loss=-t) for t in (4, 8, 12, 16, 20, 22)])
    assert found["accuracy"]["mixed"]["mean_last_10"] == pytest.approx((256 + 400 + 484) / 3 / 1024, abs=1e-15)
    assert found["loss"]["mixed"]["mean_last_10"] == pytest.approx(-58 / 3, abs=1e-14)


def test_a_target_is_reached_in_the_first_round_that_has_it_exactly() -> None:
    history = [entry(3, 0.25), entry(6, 0.49), entry(9, 0.5), entry(12, 0.25), entry(15, 0.75)]
    for target, first in ((0.5, 9), (0.51, 15), (0.25, 3), (0.76, None), (None, None)):
        found = run(history, target)["rounds_to_target"]
        assert (found["target"], found["mixed"], found["average"]) == (target, first, None)


def test_a_loss_reaches_its_target_from_above() -> None:
    """Where there is no accuracy: F = (x − 1)², x ← x − .25 · 2 (x − 1) halves the distance, so F = 1/4, 1/16, 1/64."""
    task = Task.from_function(lambda p, own: (p["x"] - own).square().sum(), {"x": torch.zeros(1)}, torch.ones(2, 1))
    for target, first in ((0.25, 1), (0.24, 2), (0.0625, 2), (0.05, 3), (0.01, None)):
        done = covey.simulate(covey.algorithms.Local(SGD(0.25)), task, isolated(2), rounds=3, target=target)
        assert done.summary()["rounds_to_target"]["mixed"] == first


def test_the_smallest_mass_is_that_of_the_whole_run() -> None:
    found = run([entry(1, 0.5, mass=0.75), entry(2, 0.5, mass=0.125), entry(3, 0.5, mass=0.5)])
    assert found["smallest_mass"] == 0.125
    assert "smallest_mass" not in run([entry(1, 0.5)])


def test_the_training_loss_is_that_of_the_last_phase() -> None:
    """½(u + v − b)² from 0, b = 1 and 3, η = .5: the head's step sees ½b², mean 2.5; then v = b/2, and the body's step
    sees ½(b/2)², mean .625."""
    zero = {name: torch.zeros(1, dtype=torch.float64) for name in "uv"}
    task = Task.from_function(lambda p, b: 0.5 * (p["u"] + p["v"] - b).square().sum(), zero, column(1, 3)[:, None], "v")
    done = covey.simulate(DFedAlt(SGD(0.5), SGD(0.5)), task, isolated(2), rounds=1)
    assert done.history[0]["train_losses"] == {"personal": 2.5, "shared": 0.625}
    assert done.history[0]["train_loss"] == done.summary()["train_loss"] == 0.625


@pytest.mark.parametrize(("count", "tenth"), [(1, 1), (9, 1), (10, 1), (11, 2), (20, 2), (25, 3), (30, 3)])
def test_the_worst_decile_is_the_mean_over_the_tenth_that_fares_worst(count: int, tenth: int) -> None:
    values = [(7 * k % count) ** 2 / 1024 for k in range(count)]
    shuffled = torch.tensor([*values[::2], math.nan, *values[1::2]], dtype=torch.float64)
    found = Scores({"accuracy": shuffled, "loss": shuffled}).summary()
    assert found["worst_decile"] == pytest.approx(sum(sorted(values)[:tenth]) / tenth, abs=1e-15)


def test_peers_weigh_the_same_and_their_spread_is_that_of_a_population() -> None:
    """2, 4, 4, 4, 5, 5, 7, 9: mean 5, squared distances 32, so σ = 2 (and 2.138 for a sample of more); median 4.5."""
    values = column(2, 4, math.nan, 4, 4, 5, 5, 7, 9)
    found = Scores({"accuracy": values, "loss": 3 * values}).summary()
    assert found == {"accuracy": 5.0, "loss": 15.0, "std": 2.0, "worst_decile": 2.0}
    assert Scores({"loss": values}).summary() == {"loss": 5.0}


def test_where_nobody_can_be_judged_all_is_unknown() -> None:
    nobody = column(math.nan, math.nan)
    assert all(math.isnan(value) for value in Scores({"accuracy": nobody, "loss": nobody}).summary().values())
