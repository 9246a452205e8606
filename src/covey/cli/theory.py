"""`covey theory RUN…`: how fast the loss falls, beside what the graph and the gradients say it could do."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from covey.errors import BadInput
from covey.measure.interpolation import best_steps, linear_rate, pl_ratios
from covey.report import Record


@dataclass(frozen=True, kw_only=True)
class Theory:
    """Print λ₂, the fitted linear rate of the objective, the PL constant along the path, and T_th."""

    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN")]  # folders of finished runs, made with --theory
    least: float = 0.0  # Φ*, the smallest objective: 0 where the model interpolates
    skip: float = 0.0  # part of the looks at the beginning that is not fitted, such as 0.5


def theory(asked: Theory, console: Console) -> None:
    if not asked.runs:
        raise BadInput("Name the folders of finished runs, as in: covey theory runs/ring")
    if not 0 <= asked.skip < 1:
        raise BadInput(f"--skip {asked.skip} leaves nothing to fit; use a part in [0, 1).")
    made = Table(box=None, pad_edge=False)
    for name in ("run", "graph", "λ₂", "T", "ρ per round", "μ least", "μ median", "T_th"):
        made.add_column(name)
    for folder in asked.runs:
        made.add_row(*row(Record.read(folder), asked))
    console.print(made)
    console.print(
        f"Φ − {asked.least:g} ≈ c ρ^r over the last {100 * (1 - asked.skip):.0f} % of the looks, ρ with its 95 % "
        "interval; μ = ‖∇Φ‖² / (Φ − Φ*) at the mean model; T_th = μ / (η (μ² + 8)) with the least μ.",
        style="dim", highlight=False,
    )  # fmt: skip


def row(record: Record, asked: Theory) -> list[str]:
    """The cells of one run."""
    seen = [entry for entry in record.history if "objective" in entry.get("theory", {})]
    if not seen:
        raise BadInput(
            f"{record.folder} was run without --theory, so it knows no gradients; run it again with --theory."
        )
    late = seen[int(asked.skip * len(seen)) :]
    losses = [entry["theory"]["objective"] for entry in late]
    rate = linear_rate([entry["round"] for entry in late], losses, asked.least)
    mu = pl_ratios([entry["theory"]["gradient"] for entry in late], losses, asked.least)
    run, local = record.settings["run"], _local(record.settings["algorithm"])
    eta, steps = local.get("lr"), local.get("steps", f"{local.get('epochs', '?')} epochs")
    best = f"{best_steps(min(mu), eta):.1f}" if mu and isinstance(eta, int | float) and eta > 0 else "–"
    least, median = (f"{min(mu):.3g}", f"{statistics.median(mu):.3g}") if mu else ("–", "–")
    name = record.folder.name if record.folder is not None else record.summary["algorithm"]
    fitted = "not above Φ*, or too few looks" if rate is None else str(rate)
    return [name, record.summary["graph"], f"{run['lambda2']:.4f}", str(steps), fitted, least, median, best]


def _local(algorithm: dict[str, Any]) -> dict[str, Any]:
    """The phase whose T and η count: of methods with two, the shared one."""
    return next((algorithm[name] for name in ("local", "shared") if name in algorithm), {})
