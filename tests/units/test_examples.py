"""The examples run as they are, and come to what they claim."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_three() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {"sensor_network", "portfolio", "blackbox_tuning"}


def test_sensors_gain_by_their_neighbours() -> None:
    alone, together = example("sensor_network").main(rounds=600)
    assert together < alone / 4


def test_desks_keep_their_limit_and_use_it() -> None:
    held = example("portfolio").main(rounds=1500)[:, 0]
    pairs = held + held.roll(1)
    assert float(pairs.max()) < 0.8 + 2e-3 and float(pairs.min()) > 0.79


def test_sites_tune_a_black_box_within_their_bound() -> None:
    knobs = example("blackbox_tuning").main(rounds=500)
    apart = (knobs - knobs.roll(1, 0)).square().sum(1)
    assert float(apart.max()) < 0.05 + 0.05
    assert bool((knobs.abs() <= 1).all()) and float(torch.pdist(knobs).max()) > 0.1
