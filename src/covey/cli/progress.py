"""What is seen while runs are under way: bars on a terminal, a line every few seconds elsewhere, or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from covey.engine.run import Entry

_SECONDS = 5.0  # between two lines where there is no terminal

Report = Callable[[int, Entry | None], None]


class _Pace(ProgressColumn):
    """Rounds per second, counted from the first round that this process has done."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f} rounds/s", style="dim")


class Watch:
    """Shows the progress of one run after another."""

    def __init__(self, console: Console, quiet: bool, width: int = 0) -> None:
        self._console, self._quiet, self._width = console, quiet, width
        self._bars: Progress | None = None

    @contextmanager
    def watching(self) -> Generator[Watch]:
        if self._quiet or not self._console.is_terminal:
            yield self
            return
        columns = (TextColumn(f"{{task.description:<{self._width}}}"), BarColumn(30), MofNCompleteColumn(),
                   TextColumn("{task.fields[score]}"), _Pace())  # fmt: skip
        with Progress(*columns, console=self._console) as self._bars:
            yield self
        self._bars = None

    def run(self, label: str, rounds: int) -> Report:
        """What to call after every round of this run."""
        if self._quiet:
            return lambda t, entry: None
        return self._bar(self._bars, label, rounds) if self._bars is not None else self._lines(label, rounds)

    def _bar(self, bars: Progress, label: str, rounds: int) -> Report:
        task = bars.add_task(label, total=rounds, score="")

        def report(t: int, entry: Entry | None) -> None:
            bars.update(task, completed=t)
            if entry is not None:
                bars.update(task, score=said(entry))

        return report

    def _lines(self, label: str, rounds: int) -> Report:
        begin = last = time.monotonic()
        done = score = None

        def report(t: int, entry: Entry | None) -> None:
            nonlocal last, done, score
            now = time.monotonic()
            done = t - 1 if done is None else done
            score = score if entry is None else said(entry)
            if now - last >= _SECONDS or t == rounds:
                pace = (t - done) / max(now - begin, 1e-9)
                line = f"{label:<{self._width}}  round {t}/{rounds}  {score or ''}  {pace:.1f} rounds/s"
                self._console.print(line, highlight=False, markup=False)
                last = now

        return report


def said(entry: Entry) -> str:
    """The number to watch: what the models that peers would use now are worth."""
    metric = next((name for name in entry["mixed"] if name != "loss"), "loss")
    value = entry["mixed"][metric]
    return f"{metric} {value:.4g}" if metric == "loss" else f"{metric} {100 * value:.1f} %"
