"""Speed-up: the convergence time of Centralised over that of a method."""

from __future__ import annotations

import math

import pytest
import torch

import covey
from covey import SGD, graphs
from covey import algorithms as a
from covey.report import Record
from covey.report.record import Group
from covey.report.table import columns

B = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TASK = covey.Task.from_function(
    lambda p, own: 0.5 * (p["x"] - own).square().sum(), {"x": torch.zeros(3, dtype=torch.float64)}, B
)


def ran(eta: float, label: str, seconds: float | None = None, rounds: int = 30) -> Group:
    """‖∇F(x̄)‖ = (1 − η)^t ‖b̄‖, so it is below a tenth of that from round ln 0.1 / ln(1 − η) on."""
    below = 0.1 * float(B.mean(0).norm())
    clock = None if seconds is None else covey.Clock(step_seconds=seconds)
    run = covey.simulate(a.DPSGD(SGD(eta)), TASK, graphs.ring(6), rounds, gradient_below=below, clock=clock)
    record = Record.of(run)
    record.summary["algorithm"] = label
    return Group(label, [record])


def test_in_rounds_and_by_the_clock() -> None:
    assert [math.ceil(math.log(0.1) / math.log(1 - eta)) for eta in (0.1, 0.25)] == [22, 9]
    found = columns([ran(0.1, "Centralised"), ran(0.25, "mine"), ran(0.01, "slow")])["speed-up (rounds)"]
    assert [text for text, _ in found] == ["1×", "2.44×", "–"] and found[1][1] == pytest.approx(22 / 9)
    found = columns([ran(0.1, "Centralised", 1.0), ran(0.25, "mine", 4.0)])["speed-up (simulated time)"]
    assert found[1][1] == pytest.approx(22 / 36)


def test_none_without_a_reference_or_a_time() -> None:
    for groups in ([ran(0.25, "mine")], [ran(0.01, "Centralised"), ran(0.25, "mine")]):
        assert not any(name.startswith("speed-up") for name in columns(groups))
