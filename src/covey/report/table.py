"""The tables of the terminal, and the same numbers as plain values for comparison.json."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from covey.report import units
from covey.report.record import Group, Record

Cell = tuple[str, float]  # what is shown; what it is compared by, NaN where it is not


def comparison(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """A row per method: mean and standard deviation over seeds (None for a single one) of what the table shows."""
    rows: list[dict[str, Any]] = []
    for group in groups:
        first = group.first.summary
        scores = {
            point: {what: _pair(group.score(point, what)) for what in ("last", "mean_last_10", "best", "worst_decile")}
            for point in group.first.points
        }
        rows.append({
            "method": group.label,
            **{name: first[name] for name in ("algorithm", "graph", "data", "partition", "peers", "rounds")},
            "seeds": [record.summary["seed"] for record in group.records],
            "metric": group.first.metric,
            "scores": scores,
            "rounds_to_target": [record.summary["rounds_to_target"] for record in group.records],
            "bits": [record.summary["bits"] for record in group.records],
            "seconds": [record.summary["seconds"] for record in group.records],
            **{name: [record.summary[name] for record in group.records]
               for name in ("clock", "clock_to_target") if name in first},
            "notes": notes(group),
        })  # fmt: skip
    return rows


def notes(group: Group) -> list[str]:
    return list(dict.fromkeys(note for record in group.records for note in record.summary["notes"]))


def _pair(value: tuple[float, float | None]) -> dict[str, float | None]:
    mean, spread = value
    return {"mean": None if math.isnan(mean) else mean, "std": spread}


def columns(groups: Sequence[Group]) -> dict[str, list[Cell]]:
    """Heading -> a cell per group; a best one is the largest, for a loss, rounds, bits and seconds the smallest."""
    metric = groups[0].first.metric
    sign = -1.0 if metric == "loss" else 1.0

    def scores(point: str, what: str) -> list[Cell]:
        values = [group.score(point, what) for group in groups]
        return [(units.score(mean, metric, spread), sign * mean) for mean, spread in values]

    found = {"after exchange": scores("mixed", "last"), "after training": scores("trained", "last")}
    if metric != "loss":
        found["worst tenth"] = scores("mixed", "worst_decile")
    target = None
    targets = {group.first.summary["rounds_to_target"]["target"] for group in groups}
    if len(targets) > 1:  # not to be compared
        found["rounds to target"] = [(_apart(group), math.nan) for group in groups]
    elif (target := targets.pop()) is not None:
        found[_to(target, metric)] = [_rounds(group) for group in groups]
    found |= _speed_up(groups)
    found["bits sent"] = [(units.bits(group.bits), math.nan) for group in groups]
    found["seconds"] = [(units.seconds(group.seconds), math.nan) for group in groups]
    if any(group.clocked for group in groups):
        found |= _simulated(groups, target)
    return found


def _speed_up(groups: Sequence[Group]) -> dict[str, list[Cell]]:
    """The convergence time of Centralised over that of each method, where both are known: in simulated time where all
    have a clock, else in rounds."""
    by = "clock" if all(group.clocked for group in groups) else "round"
    central = [group.convergence(by) for group in groups if group.first.summary["algorithm"] == "Centralised"]
    if len(central) != 1 or central[0] is None:
        return {}
    times = [group.convergence(by) for group in groups]
    values = [math.nan if time is None else central[0] / time if time else math.inf for time in times]
    heading = f"speed-up ({'simulated time' if by == 'clock' else 'rounds'})"
    return {heading: [("–" if math.isnan(value) else f"{value:.3g}×", value) for value in values]}


def _simulated(groups: Sequence[Group], target: float | None) -> dict[str, list[Cell]]:
    """By the clock: how long the whole run takes, and where a target is common, how long until it is reached."""
    found = {"simulated time": [(units.seconds(g.cost("seconds")) if g.clocked else "–", math.nan) for g in groups]}
    if target is not None:
        found["simulated to target"] = [_clocked(group) for group in groups]
    return found


def _clocked(group: Group) -> Cell:
    return _reached(group, "clock_to_target", units.seconds) if group.clocked else ("–", math.nan)


def _to(target: float, metric: str) -> str:
    return f"rounds to {target:g}" if metric == "loss" else f"rounds to {100 * target:g} %"


def _rounds(group: Group) -> Cell:
    return _reached(group, "rounds_to_target", lambda mean: f"{mean:.0f}")


def _reached(group: Group, what: str, show: Callable[[float], str]) -> Cell:
    mean, reached = group.to_target("mixed", what)
    if mean is None:
        return "–", math.nan
    part = "" if reached == len(group.records) else f" ({reached} of {len(group.records)})"
    return f"{show(mean)}{part}", math.nan if part else -mean


def _apart(group: Group) -> str:
    target = group.first.summary["rounds_to_target"]["target"]
    if target is None:
        return ""
    return f"{_rounds(group)[0]} ({_to(target, group.first.metric).removeprefix('rounds ')})"


def best(cells: Sequence[Cell]) -> set[int]:
    """The places of the best cells; none where there is nothing to compare."""
    values = [value for _, value in cells if not math.isnan(value)]
    if len(values) < 2:
        return set()
    return {place for place, (_, value) in enumerate(cells) if value == max(values)}


def table(groups: Sequence[Group]) -> Table:
    """One row per method, in the order given."""
    metric = groups[0].first.metric
    unit = "" if metric == "loss" else ", %"
    several = any(len(group.records) > 1 for group in groups)
    caption = f"Mean {metric}{unit} of each peer's model on its own test samples, last round"
    caption += ", mean ± std over seeds. " if several else ". "
    caption += "* best of its column. Bits by formula, over all links and rounds."
    made = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left", header_style="bold", pad_edge=False,
                 padding=(0, 1, 0, 0))  # fmt: skip
    made.add_column("method", overflow="fold", min_width=9)
    made.add_column("graph", overflow="fold", min_width=9)
    cells = columns(groups)
    for heading in cells:
        made.add_column("\n".join(heading.split(" ", 1)), justify="right", no_wrap=True)
    marks = {heading: best(column) for heading, column in cells.items()}
    for place, group in enumerate(groups):
        shown = [_shown(column[place][0], place in marks[name], bool(marks[name])) for name, column in cells.items()]
        flag = Text(" !", style="yellow") if notes(group) else Text("")
        made.add_row(Text(group.label) + flag, escape(str(group.first.summary["graph"])), *shown)
    return made


def _shown(text: str, is_best: bool, column_has_best: bool) -> Text:
    mark = "*" if is_best else " " if column_has_best else ""
    return Text(text + mark, style="bold green" if is_best else "")


def summary_table(record: Record) -> Table:
    """A single run, in short."""
    summary, metric = record.summary, record.metric
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="dim")
    made.add_column()
    words = {"mixed": "after exchange", "trained": "after training", "average": "mean model on all test samples"}
    for point in record.points:
        found = summary[metric if metric in summary else "loss"][point]
        text = f"{units.score(found['last'], metric)}{'' if metric == 'loss' else ' %'}"
        if "worst_decile" in found:
            text += f", worst tenth of the peers {units.score(found['worst_decile'], metric)} %"
        made.add_row(f"{metric} {words.get(point, point)}", text)
    target = summary["rounds_to_target"]
    if target["target"] is not None:
        seconds = summary.get("seconds_to_target", {}).get("mixed")
        after = "" if seconds is None else f", after {units.seconds(seconds)} of training and exchanging"
        made.add_row(_to(target["target"], metric), f"{target['mixed'] or 'not reached'}{after}")
    for name, text in _asked_for(summary):
        made.add_row(name, text)
    bits = summary["bits"]
    made.add_row("bits sent", f"{units.bits(bits['formula']['links'])} over all links, busiest participant "
                              f"{units.bits(bits['busiest'])} in a round")  # fmt: skip
    parts = ", ".join(f"{name} {units.seconds(value)}" for name, value in summary["seconds"].items())
    made.add_row("seconds", parts)
    if "clock" in summary:
        spent = summary["clock"]
        text = f"{units.seconds(spent['seconds'])} until the slowest peer is ready, {units.seconds(spent['mean'])} mean"
        made.add_row("simulated time", text + (f"; {units.joules(spent['joules'])}" if spent["joules"] else ""))
        if target["target"] is not None:
            reached = summary["clock_to_target"]["mixed"]
            made.add_row("simulated to target", "not reached" if reached is None else units.seconds(reached))
    for note in summary["notes"]:
        made.add_row("note", Text(note, style="yellow"))
    return made


def _asked_for(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What only some runs measure: --theory, --gradient-below, --similarity."""
    theory = summary.get("theory", {})
    if theory:
        yield "gradient at the mean model", _number(theory["gradient"])
    for name, words in (("M", "M(k) of DePRL, as printed"), ("M_heads", "M(k) with every head's gradient")):
        if name in theory:
            yield words, f"{_number(theory[name]['last'])}, mean over rounds {_number(theory[name]['mean'])}"
    below = theory.get("gradient_below")
    if below:
        since = "not at the end"
        if below["round"] is not None:
            since = f"since round {below['round']}, after {units.seconds(below['seconds'])} of training and exchanging"
        yield f"gradient below {below['threshold']:g}", since
    cosines = dict(summary.get("similarity", {}))
    follow = cosines.pop("heads_with_labels", None)
    if cosines:
        yield "mean cosine of two peers", ", ".join(f"{name} {_number(value)}" for name, value in cosines.items())
    if follow is not None:
        yield "heads follow labels", f"correlation {_number(follow)} of the cosines of all pairs"


def _number(value: float | None) -> str:
    """A summary that was read from its file has null where there was no number."""
    return "–" if value is None or math.isnan(value) else f"{value:.3g}"
