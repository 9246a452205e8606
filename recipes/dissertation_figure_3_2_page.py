"""The tables and charts of figures 3.2 and 3.3, from the files that dissertation_figure_3_2.py has written.

    python recipes/dissertation_figure_3_2_page.py      docs/results/dissertation_figure_3_2.md and its charts

The words of the page stay; what lies between its marks is written anew. A time at 100 kbit/s is that of one peer's own
messages, said once to both neighbours, as the dissertation's figure 3.3(a) has it; no computing, no set-up.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from charts import between, save

from covey.report import units
from covey.report.svg import Curve

PEERS, RATE = 8, 1e5  # bits a second
CLAIMS = {"vanilla": "3000", "CHOCO-Sign": "40", "CHOCO-TopK": "40"}
Run = dict[str, Any]


def reached(run: Run, target: float) -> dict[str, Any] | None:
    """The first look at or above the target that is followed by another one (or by the end)."""
    good = [look["accuracy"] >= target for look in run["curve"]]
    return next((look for k, look in enumerate(run["curve"]) if all(good[k : k + 2])), None)


def table(runs: Sequence[Run], target: float) -> list[str]:
    lines = [
        f"| method | H | epochs | mean model | peers' own | epochs to {100 * target:g} % | bits, formula | encoded "
        "| SQuARM's saving | encoded | claimed (at 90 %) | at 100 kbit/s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    squarm = next((reached(run, target) for run in runs if run["name"] == "SQuARM"), None)
    for run in runs:
        last, mark = run["curve"][-1], reached(run, target)
        cells = [run["name"], str(run["steps"]), f"{last['epoch']:.0f}", f"{100 * last['accuracy']:.1f}"]
        cells += [f"{100 * last['personal']:.1f}"]
        if mark is None:
            cells += ["not reached", "", "", "", "", CLAIMS.get(run["name"], ""), ""]
        else:
            sent = [mark["bits"][count]["links"] for count in ("formula", "encoded")]
            cells += [f"{mark['epoch']:.0f}", *map(units.bits, sent)]
            there = [squarm["bits"][count]["links"] for count in ("formula", "encoded")] if squarm else [0.0, 0.0]
            cells += [f"{mine / other:.3g}×" if other else "–" for mine, other in zip(sent, there, strict=True)]
            seconds = mark["bits"]["formula"]["broadcast"] / PEERS / RATE
            cells += [CLAIMS.get(run["name"], ""), units.seconds(seconds)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="The page of figures 3.2 and 3.3")
    parser.add_argument("--runs", type=Path, default=Path("runs/figure_3_2"))
    parser.add_argument("--targets", type=float, nargs="+", default=[0.9, 0.85, 0.8])
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    runs = [json.loads(file.read_text()) for file in sorted(given.runs.glob("*.json"))]
    page = given.out / "dissertation_figure_3_2.md"
    text = page.read_text(encoding="utf-8") if page.exists() else "# Figures 3.2 and 3.3\n\n"
    if "<!-- tables -->" not in text:
        text += "<!-- tables -->\n<!-- end of tables -->\n"
    lines = [line for target in given.targets for line in [*table(runs, target), ""]]
    page.write_text(between(text, "tables", lines[:-1]), encoding="utf-8")
    named = list(enumerate(runs))
    for x_name, file, log in (("epoch", "epoch", False), ("bits sent over all links (formula)", "bits", True)):
        curves = [
            Curve(run["name"], k, [look["bits"]["formula"]["links"] if log else look["epoch"] for look in run["curve"]],
                  [100 * look["accuracy"] for look in run["curve"]])
            for k, run in named
        ]  # fmt: skip
        save(given.out / f"figure_3_2_{file}.svg", curves, x_name, "test accuracy of the mean model", log_x=log)


if __name__ == "__main__":
    main()
