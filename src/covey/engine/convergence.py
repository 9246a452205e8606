"""When a run got somewhere, read off its history: the first look that reaches a target, the first from which on the
gradient is small. Seconds are those of training and exchanging on this machine; looking does not count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from covey.measure.stationarity import stays_below

History = Sequence[Mapping[str, Any]]


def reached(history: History, point: str, metric: str, target: float | None) -> Mapping[str, Any] | None:
    """The first evaluated round whose mean reaches the target (for a loss: falls to it)."""
    if target is None:
        return None
    for entry in history:
        value = entry.get(point, {}).get(metric, math.nan)
        if value <= target if metric == "loss" else value >= target:
            return entry
    return None


def round_of(entry: Mapping[str, Any] | None) -> int | None:
    return None if entry is None else entry["round"]


def seconds_of(entry: Mapping[str, Any] | None) -> float | None:
    return None if entry is None else entry["seconds"]["train"] + entry["seconds"]["exchange"]


def clock_of(entry: Mapping[str, Any] | None) -> float | None:
    """Simulated time, where the run has a clock."""
    return None if entry is None else entry["clock"]["seconds"]


def theory(history: History, below: float | None) -> dict[str, Any]:
    """The last gradient; M over the looks (its mean over all rounds is what DePRL's Theorem 1 bounds); the convergence
    time: from which look on the gradient stays below a threshold."""
    seen = [entry for entry in history if "theory" in entry]
    out: dict[str, Any] = {"gradient": seen[-1]["theory"]["gradient"] if seen else math.nan}
    for name in ("M", "M_heads"):
        values = [entry["theory"][name] for entry in seen if name in entry["theory"]]
        if values:
            out[name] = {"last": values[-1], "mean": sum(values) / len(values)}
    if below is not None:
        place = stays_below([entry["theory"]["gradient"] for entry in seen], below)
        first = None if place is None else seen[place]
        out["gradient_below"] = {"threshold": below, "round": round_of(first), "seconds": seconds_of(first)}
        if "clock" in history[-1]:
            out["gradient_below"]["clock"] = clock_of(first)
    return out
