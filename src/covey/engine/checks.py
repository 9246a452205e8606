"""What a run refuses before it begins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import torch

from covey.algorithms.algorithm import Algorithm
from covey.engine.clock import Clock
from covey.errors import BadInput
from covey.graphs.graph import Graph
from covey.peers import Peers
from covey.tasks.module import correct
from covey.tasks.task import Task


def require_kinds(algorithm: Any, task: Any, graph: Any, device: str, clock: Any = None) -> None:
    """Users of Python mistake a name for the object that the command line would make of it."""
    wanted = (
        (algorithm, Algorithm, "an algorithm such as covey.algorithms.DFedAvg(covey.SGD(0.1))"),
        (task, Task, "a task such as covey.Task.from_module(…)"),
        (graph, Graph, "a graph such as covey.graphs.ring(20)"),
        (clock, Clock | None, "a clock such as covey.Clock(step_seconds=0.01, bandwidth=1e5)"),
    )
    for given, kind, example in wanted:
        if not isinstance(given, kind):
            raise BadInput(f"simulate() was given {given!r} where it needs {example}.")
    if "__dataclass_fields__" not in vars(type(algorithm)):
        raise BadInput(f"{type(algorithm).__name__} is no dataclass; put @dataclass(frozen=True) above its class.")
    require_device(device)


def require_device(name: str) -> None:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as problem:
        reason = str(problem).split("\n")[0]
        raise BadInput(
            f"The device '{name}' cannot be used ({reason}); use cpu, or cuda where there is one."
        ) from problem


def require_numbers(counts: Mapping[str, Any], target: float | None, task: Task) -> None:
    for name, value in counts.items():
        if value is not None and (not isinstance(value, int) or value < 1):
            raise BadInput(f"{name}={value!r} must be a whole number, 1 or more.")
    if target is not None and not math.isfinite(target):
        raise BadInput(f"target={target} is no number that could be reached.")
    if target is not None and target > 1 and task.metrics.get("accuracy") is correct:
        raise BadInput(f"target={target} cannot be reached: accuracy is a share of 1, such as 0.93 for 93 %.")


def require_state(peers: Peers) -> None:
    """What a method keeps can be saved, and divided among processes, only if it has a row per peer."""
    for name, value in cast(Mapping[str, Any], peers.state).items():
        if not isinstance(value, torch.Tensor) or value.dim() == 0 or len(value) != len(peers):
            raise BadInput(f"peers.state['{name}'] must be a tensor with a row per peer; it is {value!r:.60}.")
