"""A run as its folder tells it, or as it came out of the simulator; runs that differ by the seed alone form a group."""

from __future__ import annotations

import json
import math
import statistics
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covey.engine import Run
from covey.errors import BadInput

Entry = dict[str, Any]
Along = Callable[[Entry], float]  # where an entry of the history lies on a horizontal axis


@dataclass(frozen=True)
class Record:
    """settings: config.toml · history: metrics.jsonl · summary: summary.json · per_peer: point -> metric -> numbers."""

    settings: dict[str, Any]
    history: list[Entry]
    summary: dict[str, Any]
    per_peer: dict[str, dict[str, list[float]]]
    folder: Path | None = None

    @staticmethod
    def of(run: Run) -> Record:
        per_peer = {p: {m: v.tolist() for m, v in scores.values.items()} for p, scores in run.scores.items()}
        return Record(dict(run.settings), run.history, run.summary(), per_peer)

    @staticmethod
    def read(folder: Path) -> Record:
        try:
            settings = tomllib.loads((folder / "config.toml").read_text())
            lines = (folder / "metrics.jsonl").read_text().splitlines()
            summary = json.loads((folder / "summary.json").read_text())
            per_peer = json.loads((folder / "per_peer.json").read_text())
            record = Record(settings, [json.loads(line) for line in lines], summary, per_peer, folder)
        except FileNotFoundError as problem:
            raise BadInput(
                f"{folder} holds no finished run: {Path(problem.filename).name} is missing; "
                f"if the run stopped, go on with: covey run --resume {folder}"
            ) from problem
        except (OSError, ValueError) as problem:
            raise BadInput(f"The run in {folder} cannot be read ({problem}).") from problem
        if not record.history or "algorithm" not in summary:
            raise BadInput(f"The run in {folder} cannot be read: it has no evaluated round.")
        return record

    @staticmethod
    def finished(folder: Path, rounds: int) -> bool:
        """Whether this folder holds a run that has done so many rounds."""
        try:
            return json.loads((folder / "summary.json").read_text())["rounds"] == rounds
        except (OSError, ValueError, KeyError, TypeError):
            return False

    @property
    def metric(self) -> str:
        """The first number by which models are judged: accuracy, or the loss where there is nothing else."""
        return next((name for name in self.history[-1]["mixed"] if name != "loss"), "loss")

    @property
    def points(self) -> list[str]:
        """The models that were judged: trained, mixed, average, and those of the method's own."""
        return list(self.summary["loss"])

    def curve(self, point: str, metric: str, along: Along) -> tuple[list[float], list[float]]:
        """What an axis takes, and the metric, of every look."""
        seen = [entry for entry in self.history if point in entry]
        return [along(entry) for entry in seen], [entry[point][metric] for entry in seen]

    @property
    def key(self) -> str:
        """What runs of one group have in common: everything but the seed and what follows from it."""
        run = {k: v for k, v in self.settings["run"].items() if k not in ("seed", "notes", "pace") and v is not None}
        kept = ("name", "module", "shared", "personal", "partition", "peers")
        task = {k: v for k, v in self.settings["task"].items() if k in kept}
        graph = self.settings["graph"]["name"]
        return json.dumps([_known(self.settings["algorithm"]), graph, task, run], sort_keys=True)


def _known(value: Any) -> Any:
    """Without what is not set: config.toml knows no null."""
    return {k: _known(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


@dataclass(frozen=True)
class Group:
    """Runs that differ by the seed alone."""

    label: str
    records: list[Record]

    @property
    def first(self) -> Record:
        return self.records[0]

    def over_seeds(self, value: Callable[[Record], float]) -> tuple[float, float | None]:
        """Mean, and the standard deviation where there are several."""
        values = [value(record) for record in self.records]
        known = all(math.isfinite(one) for one in values)
        return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 and known else None

    def score(self, point: str, what: str = "last") -> tuple[float, float | None]:
        metric = self.first.metric
        where = metric if metric in self.first.summary else "loss"
        return self.over_seeds(lambda one: one.summary[where].get(point, {}).get(what, math.nan))

    @property
    def bits(self) -> float:
        return self.over_seeds(lambda one: one.summary["bits"]["formula"]["links"])[0]

    @property
    def seconds(self) -> float:
        return self.over_seeds(lambda one: sum(one.summary["seconds"].values()))[0]

    @property
    def clocked(self) -> bool:
        """Whether these runs had a clock."""
        return "clock" in self.first.summary

    def cost(self, name: str) -> float:
        """Simulated `seconds`, or `joules`."""
        return self.over_seeds(lambda one: one.summary["clock"][name])[0] if self.clocked else 0.0

    def to_target(self, point: str, what: str = "rounds_to_target") -> tuple[float | None, int]:
        """The mean number of rounds (or simulated seconds) to the target over the seeds that reached it, and how many
        did."""
        rounds = [record.summary[what][point] for record in self.records]
        reached = [value for value in rounds if value is not None]
        return (statistics.fmean(reached) if reached else None), len(reached)

    def convergence(self, by: str) -> float | None:
        """The mean over seeds of the convergence time, as `round` or by the simulated `clock`; None where it is not
        known of every seed."""
        times = [one.summary.get("theory", {}).get("gradient_below", {}).get(by) for one in self.records]
        return None if None in times else statistics.fmean(times)


def grouped(records: Iterable[Record]) -> list[Group]:
    """Groups in the order of their first run; where several have one method, the label says in what they differ."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.key, []).append(record)
    found = list(groups.values())
    return [Group(_label(one[0], [other[0] for other in found]), one) for one in found]


def _label(record: Record, among: Sequence[Record]) -> str:
    name = str(record.summary["algorithm"])
    rivals = [_traits(other) for other in among if other.summary["algorithm"] == name]
    own = _traits(record)
    parts = [name]
    for place, trait in enumerate(own):
        if len({rival[place] for rival in rivals}) > 1:
            parts.append(trait)
            rivals = [rival for rival in rivals if rival[place] == trait]
    return " · ".join(parts) + (f" ({among.index(record) + 1})" if len(rivals) > 1 else "")


def _traits(record: Record) -> list[str]:
    """What may tell runs of one method apart, the plainest first."""
    summary = record.summary
    folder = "" if record.folder is None else f"{record.folder.parent.name}/{record.folder.name}"
    return [
        str(summary["graph"]), str(summary["data"]), str(summary["partition"]), f"{summary['peers']} peers",
        f"{summary['rounds']} rounds", folder,
    ]  # fmt: skip
