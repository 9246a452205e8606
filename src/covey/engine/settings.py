"""What a run is, resolved to plain values: the content of config.toml, and what must agree for a run to go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from covey.algorithms.algorithm import Algorithm
from covey.engine.run import versions
from covey.graphs.graph import Graph
from covey.peers import Peers
from covey.tasks.task import Task

Settings = dict[str, Any]


def resolved(algorithm: Algorithm, task: Task, graph: Graph, peers: Peers, run: Mapping[str, Any],
             command: Mapping[str, Any] | None) -> Settings:  # fmt: skip
    settings: Settings = {
        "algorithm": described(algorithm),
        "task": task.describe(),
        "graph": {"name": graph.name, "peers": graph.n, "stochasticity": graph.stochasticity, "seed": graph.seed},
        "run": {"peers": len(peers), **run},
        "versions": versions(),
    }
    return settings if command is None else settings | {"command": dict(command)}


def described(value: Any) -> Any:
    """A frozen configuration as plain values: {"name": class, field: value, …}; a function by its name."""
    if is_dataclass(value):
        own = {f.name: described(getattr(value, f.name)) for f in fields(value)}
        return {"name": type(value).__name__, **own}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [described(v) for v in value]
    return getattr(value, "__qualname__", None) or repr(value)


def identity(settings: Settings, task: Task, graph: Graph) -> dict[str, Any]:
    """What must not change between a stop and a resume: everything but how long and how closely to look."""
    free = {"rounds", "evaluate_every", "target", "notes", "device", "pace", "theory", "gradient_below",
            "similarity", "lambda2"}  # fmt: skip
    run = {f"run.{k}": v for k, v in settings["run"].items() if k not in free}
    parts = {f"{part}.{k}": v for part in ("graph", "task") for k, v in settings[part].items()}
    exact = {"graph.weights": graph.fingerprint, "task.digest": task.digest()}
    return {"algorithm": settings["algorithm"]} | run | parts | exact
