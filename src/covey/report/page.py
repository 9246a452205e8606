"""report.html: one self-contained page about some runs; it asks nothing of a network and runs no script."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from covey.report import svg, units
from covey.report.record import Along, Group
from covey.report.table import best, columns, notes


def write_page(groups: Sequence[Group], path: Path) -> None:
    path.write_text(page(groups), encoding="utf-8")


def page(groups: Sequence[Group]) -> str:
    style = resources.files("covey.report").joinpath("page.css").read_text(encoding="utf-8")
    first = groups[0].first.summary
    title = f"{first['data']}, {first['peers']} peers"
    body = [
        "<header>", f"<h1>{_text(title)}</h1>", f"<p>{_text(_subtitle(groups))}</p>", "</header>",
        _notes(groups), "<section>", _table(groups), "</section>", _charts(groups), _peers(groups),
        _all_scores(groups), _settings(groups), _footer(groups),
    ]  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>covey: {_text(title)}</title><style>{style}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _subtitle(groups: Sequence[Group]) -> str:
    seeds = sorted({record.summary["seed"] for group in groups for record in group.records})
    first = groups[0].first
    samples = first.settings["task"].get("train")
    about = [f"divided {first.summary['partition']}", f"{first.summary['rounds']} rounds"]
    if samples:
        about.append(f"about {round(samples / first.summary['peers'])} training samples per peer")
    about.append(f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}")
    return ", ".join(about)


def _notes(groups: Sequence[Group]) -> str:
    found = [(group.label, note) for group in groups for note in notes(group)]
    if not found:
        return ""
    items = "".join(f"<li><b>{_text(label)}</b> {_text(note)}</li>" for label, note in found)
    return f'<ul class="notes">{items}</ul>'


def _table(groups: Sequence[Group]) -> str:
    metric = groups[0].first.metric
    cells = columns(groups)
    marks = {name: best(column) for name, column in cells.items()}
    head = "".join(f"<th>{_text(name)}</th>" for name in cells)
    rows: list[str] = []
    for place, group in enumerate(groups):
        name = f'<td class="method"><i style="background:var(--c{place % svg.COLOURS})"></i>{_text(group.label)}</td>'
        graph = f'<td class="graph">{_text(group.first.summary["graph"])}</td>'
        values = "".join(
            f'<td class="{"best" if place in marks[heading] else ""}">{_text(column[place][0])}</td>'
            for heading, column in cells.items()
        )
        rows.append(f"<tr>{name}{graph}{values}</tr>")
    unit = "" if metric == "loss" else ", in per cent"
    spread = " ± is the standard deviation over seeds." if any(len(g.records) > 1 for g in groups) else ""
    caption = (
        f"Mean {metric}{unit} of each peer's own model on its own test samples in the last round, the best of a column "
        f"in bold.{spread} Bits by formula, over all links and rounds."
    )
    return (
        f'<div class="scroll"><table class="main"><thead><tr><th>method</th><th>graph</th>{head}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div><p class="caption">{caption}</p>'
    )


def _charts(groups: Sequence[Group]) -> str:
    metric = groups[0].first.metric
    show = _show(metric)
    over_rounds = [_curve(group, place, metric, lambda entry: entry["round"]) for place, group in enumerate(groups)]
    low = None if metric == "loss" else _lowest(over_rounds)
    named = f"{metric} after the exchange{'' if metric == 'loss' else ', %'}"
    charts = [svg.curves(over_rounds, "round", named, y_show=show, low=low)]
    costs: list[tuple[str, Callable[[Group], float], Along, svg.Show]] = [
        ("bits sent over all links", lambda g: g.bits, lambda e: e["bits"]["formula"]["links"], units.bits),
        ("simulated time", lambda g: g.cost("seconds"), lambda e: e["clock"]["seconds"], units.seconds),
        ("simulated energy", lambda g: g.cost("joules"), lambda e: e["clock"]["joules"], units.joules),
    ]
    level = False
    for name, total, along, x_show in costs:
        lines = [_curve(group, place, metric, along) for place, group in enumerate(groups) if total(group) > 0]
        free = [(g.label, place, g.score("mixed")[0]) for place, g in enumerate(groups) if not total(g)]
        if lines:
            level = level or bool(free)
            charts.append(svg.curves(lines, f"{name}, logarithmic", named, x_show=x_show, y_show=show, log_x=True,
                                     low=low, level=free))  # fmt: skip
    note = "" if low is None or low <= 0 else f" The vertical axis begins at {show(low)}."
    figures = "".join(f"<figure><figcaption>{_text(named)}</figcaption>{chart}</figure>" for chart in charts)
    dashes = " Dots: costs nothing on this axis." if level else ""
    return (
        f'<section><h2>On the way</h2><div class="pair">{figures}</div>'
        f'<p class="caption">Mean over peers.{note}{dashes}</p></section>'
    )


def _show(metric: str) -> svg.Show:
    return svg.plain if metric == "loss" else lambda value: f"{100 * value:.4g}"


def _curve(group: Group, place: int, metric: str, along: Along) -> svg.Curve:
    """The mean over seeds, and the band from the lowest to the highest."""
    found = [record.curve("mixed", metric, along) for record in group.records]
    length = min(len(x) for x, _ in found)
    columns = [[y[k] for _, y in found] for k in range(length)]
    x = [statistics.fmean(one[k] for one, _ in found) for k in range(length)]
    y = [statistics.fmean(column) for column in columns]
    if len(found) == 1:
        return svg.Curve(group.label, place, x, y)
    return svg.Curve(group.label, place, x, y, [min(c) for c in columns], [max(c) for c in columns])


def _lowest(lines: Sequence[svg.Curve]) -> float:
    """Where the axis begins: low enough for the differences at the end, and not for the first rounds."""
    ends = [line.y[-1] for line in lines if math.isfinite(line.y[-1])] or [0.0]
    room = max(0.1, 3 * (max(ends) - min(ends)))
    least = min((v for line in lines for v in line.y if math.isfinite(v)), default=0.0)
    return max(0.0, math.floor(20 * max(least - 0.02, max(ends) - room)) / 20)


def _peers(groups: Sequence[Group]) -> str:
    metric = groups[0].first.metric
    rows = [
        (g.label, place, [v for r in g.records for v in r.per_peer.get("mixed", {}).get(metric, [])])
        for place, g in enumerate(groups)
    ]
    if not any(row for _, _, row in rows):
        return ""
    named = f"{metric} of each peer after the last exchange{'' if metric == 'loss' else ', %'}"
    tenth = "" if metric == "loss" else ", dashed bar the mean of the worst tenth"
    return (
        f"<section><h2>Peer by peer</h2><figure>{svg.dots(rows, named, _show(metric))}</figure>"
        f'<p class="caption">A dot per peer{" and seed" if any(len(g.records) > 1 for g in groups) else ""}; solid bar '
        f"the mean{tenth}.</p></section>"
    )


def _all_scores(groups: Sequence[Group]) -> str:
    metric = groups[0].first.metric
    whats = ("last", "mean_last_10", "best", *(() if metric == "loss" else ("worst_decile", "std")))
    words = {"last": "last round", "mean_last_10": "mean of last 10", "best": "best round †",
             "worst_decile": "worst tenth", "std": "std over peers"}  # fmt: skip
    rows: list[str] = []
    for group in groups:
        for point in group.first.points:
            cells = [units.score(*_with_metric(group.score(point, what), metric)) for what in whats]
            rows.append(f"<tr><td>{_text(group.label)}</td><td>{_text(point)}</td>"
                        f"{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>")  # fmt: skip
    head = "".join(f"<th>{words[what]}</th>" for what in whats)
    costs: list[str] = []
    for group in groups:
        cells = [units.seconds(_seconds(group, part)) for part in ("train", "exchange", "evaluate")]
        cells.append(units.bits(group.over_seeds(lambda record: record.summary["bits"]["busiest"])[0]))
        costs.append(f"<tr><td>{_text(group.label)}</td>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>")
    return (
        '<section><h2>All numbers</h2><div class="scroll"><table><thead><tr><th>method</th><th>model</th>'
        f'{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div><p class="caption">mixed: after the exchange; '
        "trained: after training; average: the mean model on all test samples. † chosen on test data: never to be "
        "quoted alone.</p>"
        '<div class="scroll"><table><thead><tr><th>method</th><th>training</th><th>exchange</th><th>evaluation</th>'
        f"<th>busiest participant, a round</th></tr></thead><tbody>{''.join(costs)}</tbody></table></div></section>"
    )


def _with_metric(value: tuple[float, float | None], metric: str) -> tuple[float, str, float | None]:
    return value[0], metric, value[1]


def _seconds(group: Group, part: str) -> float:
    return group.over_seeds(lambda record: record.summary["seconds"].get(part, 0.0))[0]


def _settings(groups: Sequence[Group]) -> str:
    flat = [_flat({k: v for k, v in g.first.settings.items() if k not in ("command", "versions")}) for g in groups]
    keys = list(dict.fromkeys(key for one in flat for key in one))
    skipped = {"run.seed", "run.notes", "run.pace", "task.data_seed"}
    apart = [k for k in keys if k not in skipped and len({one.get(k) for one in flat}) > 1]
    alike = [k for k in keys if k not in skipped and k not in apart]
    parts: list[str] = []
    if apart:
        head = "".join(f"<th>{_text(group.label)}</th>" for group in groups)
        rows = "".join(
            f"<tr><td>{_text(key)}</td>" + "".join(f"<td>{_text(one.get(key, '–'))}</td>" for one in flat) + "</tr>"
            for key in apart
        )
        parts.append(f'<div class="scroll"><table class="settings"><thead><tr><th>what differs</th>{head}</tr></thead>'
                     f"<tbody>{rows}</tbody></table></div>")  # fmt: skip
    rows = "".join(f"<tr><td>{_text(key)}</td><td>{_text(flat[0][key])}</td></tr>" for key in alike)
    word = "What all runs share" if len(groups) > 1 else "All settings"
    parts.append(f'<details{"" if apart else " open"}><summary>{word}</summary><table class="settings"><tbody>{rows}'
                 "</tbody></table></details>")  # fmt: skip
    return f"<section><h2>Settings</h2>{''.join(parts)}</section>"


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        if isinstance(value, list):
            return {prefix: ", ".join(str(one) for one in value)}
        return {prefix: f"{value:.4g}" if isinstance(value, float) else str(value)}
    found: dict[str, str] = {}
    for key, inner in value.items():
        if inner is not None:
            found |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    return found


def _footer(groups: Sequence[Group]) -> str:
    versions = groups[0].first.summary["versions"]
    return f"<footer>{_text(', '.join(f'{name} {value}' for name, value in versions.items()))}</footer>"
