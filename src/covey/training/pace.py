"""How many peers are worked on at once: measured on the device at the start of a run, then kept.

Stacking pays where a peer's step is small against the cost of a call, and loses where the weights of the chunk fall
out of the cache; no rule of thumb held for all networks that were tried, so both ways are timed. The choice changes
results by float rounding only, and it is written into the run's config.toml, so a repeated or resumed run keeps it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.tasks.task import Batch, Task
from covey.training.gradients import OneAtATime, Stacked

_CANDIDATES = (8, 16, 32, 64, 128, 512, 2048)
_SECONDS = 0.04  # of timing per candidate
_SMALL = 1 << 16  # numbers in all rows together under which everything is stacked unmeasured


@dataclass(frozen=True)
class Pace:
    """chunk: peers per chunk. stack_from: the fewest peers worth a stacked call; fewer are taken one at a time."""

    chunk: int
    stack_from: int = 1

    @staticmethod
    def fixed(chunk: int) -> Pace:
        return Pace(chunk, 2 if chunk == 1 else 1)


def measure(task: Task, rows: Tensor, batch: int | None, wanted: Pace | None = None) -> Pace:
    """The fastest pace for these rows with mini-batches of this size; or the one that is wanted, if it can be had."""
    alone = Pace.fixed(1)
    if len(rows) == 1 or wanted == alone:
        return alone
    if task.why_alone is not None:
        warnings.warn(f"Peers are worked on one at a time: {task.why_alone}.", stacklevel=2)
        return alone
    examples = _Examples(task, rows, batch)
    with warnings.catch_warnings():
        # torch warns of layers that it stacks slowly (an LSTM): whether that pays is what is measured here
        warnings.filterwarnings("ignore", message="There is a performance drop")
        problem = _stacking_fails(task, rows, examples)
        if problem is None:
            small = rows.numel() <= _SMALL
            return wanted or (Pace.fixed(len(rows)) if small else _fastest(task, rows, examples))
    warnings.warn(f"Peers are worked on one at a time, because they cannot be stacked: {problem}", stacklevel=2)
    return alone


class _Examples:
    """One batch for each of the first m peers, all of the size that most peers have."""

    def __init__(self, task: Task, rows: Tensor, batch: int | None) -> None:
        self.task, self.rows = task, rows
        typical = int(task.train.counts.median())
        self.size, self.whole = max(1, min(typical, batch or typical)), batch is None
        able = (task.train.counts >= self.size).nonzero()[:, 0]
        self.able = able if batch is not None else (task.train.counts == typical).nonzero()[:, 0]

    def take(self, m: int) -> tuple[Tensor, Batch, Tensor]:
        who = self.able[torch.arange(m) % len(self.able)]
        data = self.task.train
        positions = torch.arange(self.size).expand(m, -1)
        batch = data.everything(who) if self.whole else data.pooled(data.locate(who[:, None], positions))
        return self.rows[:m].clone(), batch, torch.arange(m, device=self.rows.device)


def _stacking_fails(task: Task, rows: Tensor, examples: _Examples) -> str | None:
    """Why the stacked gradient cannot be used; None where it agrees with the one taken for a peer alone."""
    point, batch, keys = examples.take(2)
    one = OneAtATime(task, "all", rows)
    reference = one(point[:1], tuple(part[:1] for part in batch), keys[:1]).value.clone()
    try:
        value = Stacked(task, "all")(point, batch, keys).value[:1]
    except Exception as problem:
        return str(problem).strip().split("\n")[0]
    error = float((value - reference).norm() / reference.norm().clamp(min=1e-12))
    return None if error < 1e-2 or not reference.isfinite().all() else f"gradients differ by {error:.1e}"


def _fastest(task: Task, rows: Tensor, examples: _Examples) -> Pace:
    single = OneAtATime(task, "all", rows)
    point, batch, keys = examples.take(1)

    def one_step() -> None:
        single.flat.copy_(point)
        single(single.flat, batch, keys)

    alone = _seconds(one_step)
    stacked = Stacked(task, "all")

    def together(m: int) -> float:
        point, batch, keys = examples.take(m)
        return _seconds(lambda: stacked(point, batch, keys))

    best, seconds = 1, alone
    for m in sorted({c for c in _CANDIDATES if c < len(rows)} | {min(len(rows), _CANDIDATES[-1])}):
        now = together(m)
        if now / m < 0.95 * seconds / best:
            best, seconds = m, now
        elif now / m > 1.5 * seconds / best:
            break
    if best == 1:
        return Pace.fixed(1)
    # A call costs `fixed` and then `each` peer; alone a peer costs more than `each`, since stacking was found to pay.
    few = together(2)
    each = max(0.0, (seconds - few) / (best - 2))
    fixed = max(0.0, few - 2 * each)
    return Pace(best, min(best, max(2, math.ceil(fixed / (alone - each))) if alone > each else best))


def _seconds(work: Callable[[], object]) -> float:
    """The least time of one call, over a few."""
    work()
    times: list[float] = []
    while len(times) < 2 or (sum(times) < _SECONDS and len(times) < 50):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)
