"""What a run goes on with besides its numbers: its pace, the seconds it has taken, the bits it has sent."""

from __future__ import annotations

import importlib
import itertools
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import covey
from covey.training.pace import Pace
from engines.table import CASES, task

CASE = next(case for case in CASES if case.name == "dfedpgp")


def simulate(rounds: int, **how: object) -> covey.Run:
    return covey.simulate(CASE.algorithm, task(), CASE.graph(), rounds=rounds, seed=3, **how)  # type: ignore[arg-type]


def test_a_pace_that_was_measured_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another measurement would find another pace, and another pace rounds differently."""
    for found, rounds, folder in ((Pace(3, 2), 2, "out"), (Pace(5, 1), 4, "resume")):
        monkeypatch.setattr("covey.peers.measure", lambda task, rows, batch, wanted, found=found: wanted or found)
        run = simulate(rounds, **{folder: tmp_path / "run"})
        assert run.peers.pace == Pace(3, 2)
        assert run.settings["run"]["pace"] == [3, 2]
        assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["run"]["pace"] == [3, 2]


def test_seconds_and_bits_go_on_where_they_stood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that ticks once when it is read, each block takes a second: one for training, one for the exchange,
    and two looks."""
    clock = itertools.count()
    engine = importlib.import_module("covey.engine.simulate")
    monkeypatch.setattr(engine, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    first = simulate(3, out=tmp_path / "run", chunk=3)
    assert first.history[-1]["seconds"] == {"train": 3.0, "exchange": 3.0, "evaluate": 6.0}
    resumed = simulate(5, resume=tmp_path / "run", chunk=3)
    for entry in resumed.history:
        t = entry["round"]
        assert entry["seconds"] == {"train": t, "exchange": t, "evaluate": 2 * t}
    assert resumed.summary()["seconds"] == {"train": 5.0, "exchange": 5.0, "evaluate": 10.0}
    sent = [entry["bits"]["formula"]["links"] for entry in resumed.history]
    assert sent == [t * sent[0] for t in range(1, 6)]  # always two neighbours each
    busiest = [entry["bits"]["busiest"] for entry in resumed.history]
    assert busiest == sorted(busiest)
