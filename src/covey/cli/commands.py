"""The commands that train and report: run, compare, report, list."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
import torch
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from covey import data, graphs, models
from covey.cli import methods
from covey.cli.jobs import Job, jobs_of
from covey.cli.progress import Watch
from covey.cli.settings import Compare, Run
from covey.errors import BadInput
from covey.report import Record, comparison, grouped, summary_table, table, write_page


@dataclass(frozen=True, kw_only=True)
class Report:
    """Print the table of finished runs and write them into one page."""

    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN")]  # folders of runs, or of comparisons
    out: Annotated[Path, arg(metavar="FILE")] = Path("report.html")  # the page


@dataclass(frozen=True, kw_only=True)
class List:
    """Say what can be named."""

    what: Positional[Literal["algorithms", "graphs", "data", "models"]]


def train(settings: Run | Compare, console: Console) -> list[Record]:
    """All runs of a command, one after another; then the table, and what belongs into the folder."""
    jobs = jobs_of(settings)
    target = settings.resume or settings.out
    several = len(jobs) > 1 or isinstance(settings, Compare)
    watch = Watch(console, settings.quiet, max(len(job.label) for job in jobs))
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    records: list[Record] = []
    chunk = settings.chunk
    with watch.watching():
        for job in jobs:
            job = replace(job, settings=replace(job.settings, chunk=chunk))
            begin = _beginning(settings, target) if several and not records else None
            record = job.run(_both(begin, watch.run(job.label, job.settings.rounds)))
            records.append(replace(record, folder=job.folder))
            chunk = chunk or pace_of(record.settings)  # one task, one pace: so that a repetition gives equal numbers
    groups = grouped(records)
    if target is not None:
        if several:
            _write_command(replace(settings, chunk=chunk), target)
            (target / "comparison.json").write_text(json.dumps(comparison(groups), indent=1))
        write_page(groups, target / "report.html")
    if not settings.quiet:
        console.print()
        console.print(table(groups) if several else summary_table(records[0]))
        for note in dict.fromkeys(note for record in records for note in record.summary["notes"]) if several else ():
            console.print(f"! {note}", style="yellow", markup=False, highlight=False, soft_wrap=True)
        if target is not None:
            inside = "a folder per run, comparison.json" if several else "config.toml, metrics.jsonl, summary.json"
            console.print(f"\n{target}: {inside}, report.html", markup=False, highlight=False, soft_wrap=True)
    return records


def pace_of(settings: dict[str, Any]) -> str | None:
    """The measured pace of a run, as --chunk takes it."""
    return ":".join(str(number) for number in settings["run"].get("pace", ())) or None


def _beginning(settings: Run | Compare, target: Path | None) -> Callable[[], None]:
    """A folder of several runs says what it is as soon as the first run has proved that it can begin."""

    def begin() -> None:
        if target is not None:
            _write_command(settings, target)

    return begin


def _write_command(settings: Run | Compare, target: Path) -> None:
    kept = {name: value for name, value in settings.kept().items() if value is not None}
    (target / "config.toml").write_text(tomli_w.dumps({"command": kept}))


def _both(first: Callable[[], None] | None, then: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
    begun = first is None

    def after(t: int, entry: Any) -> None:
        nonlocal begun
        if not begun and first is not None:
            first()
            begun = True
        then(t, entry)

    return after


def report(settings: Report, console: Console) -> None:
    if not settings.runs:
        raise BadInput("Name the folders of finished runs, as in: covey report runs/*")
    records = [Record.read(folder) for given in settings.runs for folder in _folders(given)]
    kinds = {record.metric for record in records}
    if len(kinds) > 1:
        raise BadInput(f"These runs are judged by different numbers ({', '.join(sorted(kinds))}); report them apart.")
    groups = grouped(records)
    if not settings.out.parent.is_dir():
        raise BadInput(f"There is no folder {settings.out.parent} to write {settings.out.name} into.")
    write_page(groups, settings.out)
    console.print(table(groups))
    console.print(f"{settings.out}: curves, peers and settings", markup=False, highlight=False)


def _folders(given: Path) -> Sequence[Path]:
    """A run, or all runs of a comparison."""
    if not given.is_dir():
        raise BadInput(f"There is no folder {given}.")
    if (given / "metrics.jsonl").exists():
        return [given]
    inside = [one.parent for one in given.glob("*/metrics.jsonl")]
    return sorted(inside, key=lambda one: (one / "config.toml").stat().st_mtime) or [given]


def say(settings: List, console: Console) -> None:
    rows: dict[str, Callable[[], list[tuple[str, ...]]]] = {
        "algorithms": lambda: [(name, _first_line(kind)) for name, kind in sorted(methods.known().items())],
        "graphs": lambda: [*graphs.NAMES],
        "data": lambda: [(name, "") for name in data.NAMES],
        "models": lambda: [_model(name, network) for name, network in models.NETWORKS.items()],
    }
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(no_wrap=True)
    made.add_column(style="dim")
    for cells in rows[settings.what]():
        made.add_row(*(cell.replace("[", "\\[") for cell in cells))
    console.print(made)


def _model(name: str, network: models.Network) -> tuple[str, ...]:
    """Its name, what it is, and its size for inputs as its paper has them."""
    return name, network.summary, f"{network.parameters:,} parameters for {network.typical}".replace(",", " ")


def _first_line(thing: object) -> str:
    return "" if thing is None else (inspect.getdoc(thing) or "").split("\n", 1)[0]


__all__ = ["Compare", "Job", "List", "Report", "Run", "pace_of", "report", "say", "train"]
