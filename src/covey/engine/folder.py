"""The folder of a run: config.toml, metrics.jsonl, summary.json, per_peer.json, checkpoint/, where it
was asked for similarity.npz (a matrix [peers, peers] each: see `covey.measure.similarity`), and later report.html."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from covey.engine import checkpoint
from covey.engine.run import Entry, Run
from covey.errors import BadInput, DamagedCheckpoint


class Folder:
    """Where a run is written. Nothing is created before `begin`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoint = self.path / "checkpoint"

    def require_empty(self) -> None:
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise BadInput(
                f"The folder {self.path} is not empty; choose another, or go on with what is there: "
                f"--resume {self.path} (resume='{self.path}')."
            )

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Write what the run is."""
        import tomli_w

        self.path.mkdir(parents=True, exist_ok=True)
        checkpoint.write_atomically(self.path / "config.toml", tomli_w.dumps(_without_none(settings)).encode())

    def append(self, entry: Entry) -> None:
        with open(self.path / "metrics.jsonl", "a") as file:
            file.write(json.dumps(_strict(entry)) + "\n")

    def history_until(self, round: int) -> list[Entry]:
        """The entries up to a round; later ones, which a stopped run wrote after its last checkpoint, are cut off."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        history: list[Entry] = []
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                entry = _lenient(json.loads(line))
            except ValueError as problem:
                if number == len(lines):
                    break  # the torn last line of a killed run
                raise DamagedCheckpoint(f"Line {number} of {path} cannot be read; start anew.") from problem
            if entry["round"] > round:
                break
            history.append(entry)
        text = "".join(json.dumps(_strict(entry)) + "\n" for entry in history)
        checkpoint.write_atomically(path, text.encode())
        return history

    def finish(self, run: Run, also: Mapping[str, Any] | None = None) -> None:
        summary = {**run.summary(), **(also or {})}
        checkpoint.write_atomically(self.path / "summary.json", json.dumps(_strict(summary), indent=1).encode())
        if not run.scores:
            return  # nothing was left to do: what was written then stands
        per_peer = {
            point: {name: value.tolist() for name, value in scores.values.items()}
            for point, scores in run.scores.items()
        }
        checkpoint.write_atomically(self.path / "per_peer.json", json.dumps(_strict(per_peer)).encode())
        if run.settings["run"].get("similarity"):
            blob = io.BytesIO()
            np.savez(blob, **{name: matrix.float().numpy() for name, matrix in run.similarity.items()})  # pyright: ignore[reportArgumentType]
            checkpoint.write_atomically(self.path / "similarity.npz", blob.getvalue())


def _strict(value: Any) -> Any:
    """JSON knows no NaN: what is unknown is null."""
    if isinstance(value, Mapping):
        return {k: _strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lenient(value: Any) -> Any:
    """The other way round."""
    if isinstance(value, dict):
        return {k: _lenient(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_lenient(v) for v in value]
    return math.nan if value is None else value


def _without_none(value: Any) -> Any:
    """TOML knows no null: what is not set is left out."""
    if isinstance(value, Mapping):
        return {str(k): _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_none(v) for v in value]
    return value
