"""The results page of figure 3.4, from the files that its recipe and fewer_bits_than_squarm.py have written.

python recipes/dissertation_figure_3_4_page.py      docs/results/dissertation_figure_3_4.md and its two charts
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from charts import between, save
from dissertation_figure_3_4 import FOUND, LIMIT, OWN, TARGET, H, reached, rivals
from fewer_bits_than_squarm import SETTINGS

from covey.report.svg import Curve

Run = dict[str, Any]
COUNTS = ("formula", "encoded")
CLAIMS = {"vanilla": "1000", "CHOCO Sign": "120", "CHOCO TopK": "10–15"}
NAMES = list(rivals("auto"))


def read(folder: Path, **wanted: object) -> dict[str, list[Run]]:
    """name -> its runs, a seed each."""
    found: dict[str, list[Run]] = {}
    for file in sorted(folder.glob("*.json")):
        run = json.loads(file.read_text())
        if all(run.get(key) == value for key, value in wanted.items()):
            found.setdefault(run["name"], []).append(run)
    order = {name: place for place, name in enumerate([*NAMES, *SETTINGS])}
    return dict(sorted(found.items(), key=lambda item: order.get(item[0], 99)))


def bits(runs: Sequence[Run], target: float, what: str, count: str, to: str = "links") -> float | None:
    """Mean bits until the target, over the seeds, where all have reached it."""
    marks = [reached(run["curve"], target, what) for run in runs]
    return None if None in marks or not marks else statistics.mean(mark["bits"][count][to] for mark in marks if mark)


def rounds(runs: Sequence[Run], target: float, what: str) -> str:
    marks = [reached(run["curve"], target, what) for run in runs]
    known = [mark["round"] for mark in marks if mark]
    if not known:
        return f"not in {runs[0]['curve'][-1]['round']}"
    part = "" if len(known) == len(marks) else f" ({len(known)} of {len(marks)})"
    return f"{min(known)}–{max(known)}{part}" if min(known) < max(known) else f"{known[0]}{part}"


def short(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("e+0", "e").replace("e+", "e")


def times(one: float | None, other: float | None) -> str:
    return "–" if not one or not other else f"{one / other:.3g}×" if one / other < 1000 else f"{one / other:.0f}×"


def mean(values: Iterable[float], form: str) -> str:
    return format(statistics.mean(values), form)


def rivals_table(found: dict[str, list[Run]], what: str, target: float) -> list[str]:
    lines = [
        f"| method | γ | seeds | rounds to {target} | bits to it, formula | encoded | SQuARM's saving | encoded "
        "| claimed | spoke | error at the end |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        seeds = {run["seed"] for run in runs}
        squarm = [run for run in found.get("SQuARM", []) if run["seed"] in seeds]
        best = [bits(squarm, target, what, count) for count in COUNTS]
        here = [bits(runs, target, what, count) for count in COUNTS]
        saved = [times(mine, least) for mine, least in zip(here, best, strict=True)]
        claim = CLAIMS.get(name, "") if what == "error" else ""
        spoke = f"{100 * statistics.mean(run['spoke'] for run in runs):.0f} %"
        cells = [name, gamma(runs), str(len(runs)), rounds(runs, target, what), *map(short, here), *saved, claim, spoke]
        lines.append("| " + " | ".join([*cells, mean((run["curve"][-1][what] for run in runs), ".3f")]) + " |")
    return lines


def gamma(runs: Sequence[Run]) -> str:
    if runs[0]["name"] not in FOUND:
        return "–"
    if runs[0]["asked"] != "auto":
        return str(runs[0]["asked"])
    ends = [run["gamma"] for run in runs if run.get("gamma")]
    return f"auto, {min(ends):.2g}–{max(ends):.2g} at the end" if ends else "auto"


MARKS = (
    ("error", TARGET, "error of the mean model"),
    ("own", OWN, "error of the peers' own models"),
    ("own", 0.25, "error of the peers' own models"),
)


def fewer_tables(found: dict[str, list[Run]]) -> list[str]:
    """Each setting beside SQuARM's own bits; where SQuARM never comes so far, more than what it had sent by then."""
    lines: list[str] = []
    for what, target, name in MARKS:
        lines += [f"| until the {name} is {target} | seeds | rounds | bits, formula | encoded | saving | encoded |"]
        lines += ["|---|---|---|---|---|---|---|"]
        for setting, runs in found.items():
            seeds = {run["seed"] for run in runs}
            base = [run for run in found.get("SQuARM, longer", []) if run["seed"] in seeds]
            here = [bits(runs, target, what, count) for count in COUNTS]
            saved = [saving(base, mine, target, what, count) for mine, count in zip(here, COUNTS, strict=True)]
            cells = [setting, str(len(runs)), rounds(runs, target, what), *map(short, here), *saved]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return lines[:-1]


def saving(base: Sequence[Run], mine: float | None, target: float, what: str, count: str) -> str:
    if mine is None or not base:
        return "–"
    there = bits(base, target, what, count)
    if there is not None:
        return times(there, mine)
    least = statistics.mean(
        (reached(run["curve"], target, what) or run["curve"][-1])["bits"][count]["links"] for run in base
    )
    return f"> {times(least, mine)}"


def chart(path: Path, found: dict[str, list[Run]], what: str, y_name: str, low: float) -> None:
    lines: list[Curve] = []
    for name in ("vanilla", "CHOCO Sign", "CHOCO TopK", "SQuARM"):
        curve = found[name][0]["curve"]
        x = [look["bits"]["formula"]["links"] for look in curve]
        lines.append(Curve(name, len(lines), x, [look[what] for look in curve]))
    silent = found["silent"][0]["curve"]
    level = [("silent", len(lines), silent[-1][what])]
    save(path, lines, "bits sent over all links (formula)", y_name, log_x=True, low=low, level=level)


def main() -> None:
    parser = argparse.ArgumentParser(description="The page of figure 3.4")
    parser.add_argument("--runs", type=Path, default=Path("runs/figure_3_4"))
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    page = given.out / "dissertation_figure_3_4.md"
    chosen, auto = (read(given.runs / kind, split="dirichlet") for kind in ("chosen", "auto"))
    hard = read(given.runs / "chosen", split="sorted")
    fewer = {part: read(given.runs / "fewer", part=part) for part in ("validation", "test")}
    tuned = read(given.runs / "tune", split="dirichlet")
    parts: dict[str, list[str]] = {
        "chosen": rivals_table(chosen, "error", TARGET),
        "auto": rivals_table(auto, "error", TARGET),
        "own": rivals_table(chosen, "own", OWN),
        "sorted": rivals_table(hard, "error", TARGET),
        "fewer-held-out": fewer_tables(fewer["validation"]),
        "fewer": fewer_tables(fewer["test"]),
        "tuned": tuning_table(tuned),
    }  # fmt: skip
    text = page.read_text(encoding="utf-8")
    for name, lines in parts.items():
        text = between(text, name, lines)
    page.write_text(text, encoding="utf-8")
    chart(given.out / "figure_3_4_error.svg", chosen, "error", "test error of the mean model", 0.1)
    chart(given.out / "figure_3_4_own.svg", chosen, "own", "test error of the peers' own models", 0.1)


def tuning_table(found: dict[str, list[Run]]) -> list[str]:
    limit = LIMIT["dirichlet"]
    head = f"| method | γ: rounds to {TARGET} (of {limit[1]}; where H = {H}, of {limit[H]}), else the last error |"
    lines = [head, "|---|---|"]
    for name, runs in found.items():
        cells: list[str] = []
        for run in sorted(runs, key=lambda run: run["asked"]):
            mark = reached(run["curve"], TARGET)
            cells.append(f"{run['asked']}: {mark['round'] if mark else format(run['curve'][-1]['error'], '.3f')}")
        lines.append(f"| {name} | {', '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
