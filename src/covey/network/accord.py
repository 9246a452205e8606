"""What all peers of a run must have in common, as words that a person can compare.

An accord is a flat table, `algorithm.shared.lr -> 0.1`. Neighbours show it to each other whenever they connect, so
that a difference is named before it does harm. It holds settings, names and shapes; of numbers learned from data, none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch

from covey.algorithms.algorithm import Algorithm
from covey.engine.run import versions
from covey.engine.settings import described
from covey.graphs.graph import Graph
from covey.network.settings import Settings
from covey.tasks.digest import digest
from covey.tasks.task import Init, Task

Accord = Mapping[str, str]

_FREE = ("version.",)  # what may differ between two sites; said, but not refused
_SAID = 4  # differences that one sentence names
_MOST = 60  # letters of a value that it quotes


def differences(mine: Accord, theirs: Accord, them: str) -> str | None:
    """One sentence that names what differs, or None where the run can begin."""
    keys = [k for k in sorted(mine.keys() | theirs.keys()) if mine.get(k) != theirs.get(k) and not k.startswith(_FREE)]
    if not keys:
        return None
    named = [f"{key} is {_short(mine.get(key))} here and {_short(theirs.get(key))} at {them}" for key in keys[:_SAID]]
    more = f" (and {len(keys) - _SAID} more)" if len(keys) > _SAID else ""
    return f"The settings differ: {'; '.join(named)}{more}; make them alike."


def _short(value: str | None) -> str:
    if value is None:
        return "not set"
    return value if len(value) <= _MOST else value[:_MOST] + "…"


def accord_of(algorithm: Algorithm, task: Task, graph: Graph, settings: Settings) -> Accord:
    """What this peer shows of its settings. `task` as the algorithm prepared it, `graph` bound to the seed."""
    run = settings.run
    words = {
        "roster": ", ".join(settings.roster),
        "run.rounds": run.rounds,
        "run.seed": run.seed,
        "run.init": run.init,
        "run.evaluate_every": run.evaluate_every,
        "graph.name": graph.name,
        "graph.seed": graph.seed,
        "graph.weights": graph.fingerprint,
        "data.classes": None if task.data is None else task.data.classes,
        "data.labels": ", ".join(settings.data.labels),
        "model.order": digest(*task.layout.parameters, *task.layout.statistics),
    }
    words |= {f"version.{name}": value for name, value in versions().items()}
    words |= _flat("algorithm", described(algorithm))
    return {key: str(value) for key, value in (words | _model(task, run.seed, run.init)).items()}


def _flat(name: str, value: Any) -> dict[str, Any]:
    """{"lr": 0.1} under the name "algorithm.shared" -> "algorithm.shared.lr": 0.1."""
    if not isinstance(value, dict):
        return {name: value}
    table = cast("dict[str, Any]", value)
    return {key: one for inner, each in table.items() for key, one in _flat(f"{name}.{inner}", each).items()}


def _model(task: Task, seed: int, init: Init) -> dict[str, str]:
    """Names, shapes and groups; and a digest of what all peers start from alike."""
    layout, start = task.layout, task.start(torch.tensor([0]), seed, "common")
    found = {"model.type": str(start.dtype).removeprefix("torch.")}
    for group in ("shared", "personal"):
        for name, one in layout.members(group, layout.statistics | layout.parameters).items():
            found[f"model.{name}"] = f"{group} {'x'.join(map(str, one.shape)) or 'number'}"
    alike = {"common": start, "heads": start[:, layout.shared]}
    return found | ({"model.start": digest(alike[init])} if init in alike else {})
