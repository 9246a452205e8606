"""What results pages are made of: the report's curves as SVG files that stand alone, and tables put between marks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from covey.report import svg


def save(path: Path, lines: Sequence[svg.Curve], x_name: str, y_name: str, *, log_x: bool = False,
         low: float | None = None, level: Sequence[tuple[str, int, float]] = ()) -> None:  # fmt: skip
    """Curves with the colours and letters of the report, on a card of their own, in light and dark."""
    drawn = svg.curves(lines, x_name, y_name, x_show=power if log_x else svg.plain, log_x=log_x, low=low, level=level)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(drawn.replace(">", f"><style>{style()}</style>{CARD}", 1) + "\n", encoding="utf-8")


CARD = '<rect width="100%" height="100%" rx="8" style="fill:var(--card)"/>'


def style() -> str:
    """What of the report's style concerns its charts."""
    css = resources.files("covey.report").joinpath("page.css").read_text(encoding="utf-8")
    colours = css[: css.index("* {")]
    rules = [line for line in css.splitlines() if line.startswith("svg")]
    return " ".join((colours + "\n".join(rules)).split())


def power(value: float) -> str:
    """1e9 for a tick of a logarithmic axis."""
    return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def between(page: str, name: str, lines: Sequence[str]) -> str:
    """The page with these lines between its marks <!-- name --> and <!-- end of name -->."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, after = page[: page.index(begin) + len(begin)], page[page.index(end) :]
    return before + "\n\n" + "\n".join(lines) + "\n\n" + after
