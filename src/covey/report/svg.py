"""Charts as inline SVG: curves, and one row of dots per method. Colours are the page's CSS variables --c0 … --c7."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

COLOURS = 8
_WIDTH, _HEIGHT = 560, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 112, 12, 44
_LABEL = 14  # px between two labels

Show = Callable[[float], str]


def plain(value: float) -> str:
    return f"{value:.6g}"


@dataclass(frozen=True)
class Curve:
    """A line with its place in the palette; `low` and `high` bound a band around it."""

    label: str
    place: int
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Axis:
    """From data to pixels. `ticks` are round numbers within the bounds."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False
    show: Show = plain
    name: str = ""
    ticks: list[float] = field(default_factory=list[float])

    @staticmethod
    def over(values: Sequence[float], begin: float, end: float, name: str, show: Show = plain, log: bool = False,
             low: float | None = None) -> Axis:  # fmt: skip
        finite = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
        least, most = min(finite) if low is None else low, max(finite)
        if most <= least:
            room = 0.5 * abs(least or 1.0)
            least, most = (least / 2, least * 2) if log else (least - room, least + room)
        if not log and low is None:
            least -= 0.03 * (most - least)
        if not log:
            most += 0.03 * (most - least)
        return Axis(least, most, begin, end, log, show, name, _ticks(least, most, log))

    def at(self, value: float) -> float:
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        now = math.log(value) if self.log else value
        return self.begin + (now - low) / (high - low) * (self.end - self.begin)


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        powers = [10.0**k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
        whole = [t for t in powers if low <= t <= high]
        fine = [p * m for p in powers for m in (1, 2, 5) if low <= p * m <= high]
        return whole[:: len(whole) // 6 + 1] if len(whole) > 2 else fine
    step = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(step * m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= 6)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def curves(lines: Sequence[Curve], x_name: str, y_name: str, *, x_show: Show = plain, y_show: Show = plain,
           log_x: bool = False, low: float | None = None,
           level: Sequence[tuple[str, int, float]] = ()) -> str:  # fmt: skip
    """Lines with their names at their right ends. `level`: what has no place on x, as horizontal dashes."""
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    x = Axis.over([v for line in lines for v in line.x], _LEFT, right, x_name, x_show, log_x)
    heights = [v for line in lines for v in line.y] + [v for _, _, v in level]
    y = Axis.over([v for v in heights if low is None or v >= low], bottom, _TOP, y_name, y_show, low=low)
    parts = [_frame(x, y)]
    ends: list[tuple[float, str, int]] = []
    clip = re.sub(r"\W+", "-", f"clip {x_name}")
    window = f'<rect x="{_LEFT}" y="0" width="{right - _LEFT + 4}" height="{bottom}"/>'
    parts.append(f'<clipPath id="{clip}">{window}</clipPath>')
    parts.append(f'<g clip-path="url(#{clip})">')
    for name, place, value in level:
        parts.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{y.at(value):.1f}" y2="{y.at(value):.1f}" stroke-dasharray="2 5" '
            f'class="curve" style="stroke:var(--c{place % COLOURS})"><title>{html.escape(name)}</title></line>'
        )
        ends.append((y.at(value), name, place))
    for line in lines:
        seen = [k for k, (a, b) in enumerate(zip(line.x, line.y, strict=True))
                if math.isfinite(b) and (a > 0 or not log_x)]  # fmt: skip
        if not seen:
            continue
        colour = f"var(--c{line.place % COLOURS})"
        if line.low and line.high:
            there = [f"{x.at(line.x[k]):.1f},{y.at(line.high[k]):.1f}" for k in seen]
            back = [f"{x.at(line.x[k]):.1f},{y.at(line.low[k]):.1f}" for k in reversed(seen)]
            parts.append(f'<polygon points="{" ".join(there + back)}" style="fill:{colour}" opacity="0.15"/>')
        points = " ".join(f"{x.at(line.x[k]):.1f},{y.at(line.y[k]):.1f}" for k in seen)
        dash = ' stroke-dasharray="7 4"' if line.place >= COLOURS else ""
        title = f"{line.label}: {y_show(line.y[seen[-1]])} at {x_show(line.x[seen[-1]])}"
        parts.append(f'<polyline points="{points}" class="curve" style="stroke:{colour}"{dash}>'
                     f"<title>{html.escape(title)}</title></polyline>")  # fmt: skip
        parts.append(
            f'<circle cx="{x.at(line.x[seen[-1]]):.1f}" cy="{y.at(line.y[seen[-1]]):.1f}" r="3.5" class="end" '
            f'style="fill:{colour}"/>'
        )
        ends.append((y.at(line.y[seen[-1]]), line.label, line.place))
    parts.append("</g>")
    parts += _end_labels(ends, right + 10, bottom)
    return _svg(parts, _WIDTH, _HEIGHT, f"{y_name} over {x_name}")


def dots(rows: Sequence[tuple[str, int, Sequence[float]]], name: str, show: Show) -> str:
    """A row per method: a dot per peer, a bar at the mean, a dashed bar at the mean of the worst tenth."""
    row_height = 42
    left, width = 150, 2 * _WIDTH + 24
    bottom = _TOP + row_height * len(rows)
    values = [v for _, _, row in rows for v in row if math.isfinite(v)]
    x = Axis.over(values, left, width - 24, name, show)
    parts = [f'<line x1="{x.at(t):.1f}" x2="{x.at(t):.1f}" y1="{_TOP}" y2="{bottom}" class="grid"/>'
             + _text(x.at(t), bottom + 18, "tick", show(t))
             for t in x.ticks]  # fmt: skip
    for place, (label, colour, row) in enumerate(rows):
        middle = _TOP + row_height * (place + 0.5)
        known = sorted(v for v in row if math.isfinite(v))
        if not known:
            continue
        shown = known if len(known) <= 300 else [known[round(k * (len(known) - 1) / 299)] for k in range(300)]
        fill = f"var(--c{colour % COLOURS})"
        parts.append(_text(left - 14, middle + 4, "name", label, "end"))
        for k, value in enumerate(shown):
            jitter = ((k * 0.618034) % 1 - 0.5) * 26  # golden ratio: neighbours in value lie apart in height
            parts.append(
                f'<circle cx="{x.at(value):.1f}" cy="{middle + jitter:.1f}" r="3.5" class="dot" style="fill:{fill}">'
                f"<title>{html.escape(label)}: {html.escape(show(value))}</title></circle>"
            )
        mean, tenth = sum(known) / len(known), known[: math.ceil(len(known) / 10)]
        for value, kind in ((sum(tenth) / len(tenth), "tenth"), (mean, "mean")):
            at, above, below = x.at(value), middle - 16, middle + 16
            parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{above:.1f}" y2="{below:.1f}" class="{kind}"/>')
    parts.append(_text((left + width - 24) / 2, bottom + 38, "axis", name))
    return _svg(parts, width, bottom + 46, name)


def _frame(x: Axis, y: Axis) -> str:
    parts: list[str] = []
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(f'<line x1="{x.begin}" x2="{x.end}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(_text(x.begin - 8, at + 4, "tick", y.show(tick), "end"))
    parts += [_text(x.at(tick), y.begin + 18, "tick", x.show(tick)) for tick in x.ticks]
    parts.append(f'<line x1="{x.begin}" x2="{x.end}" y1="{y.begin}" y2="{y.begin}" class="base"/>')
    parts.append(_text((x.begin + x.end) / 2, y.begin + 38, "axis", x.name))
    return "".join(parts)


def _end_labels(ends: list[tuple[float, str, int]], left: float, bottom: float) -> list[str]:
    """Names beside the ends of their curves, moved apart where they would overlap."""
    order = sorted(ends)
    heights = [height for height, _, _ in order]
    for k in range(1, len(heights)):
        heights[k] = max(heights[k], heights[k - 1] + _LABEL)
    over = max(0.0, heights[-1] - bottom) if heights else 0.0
    for k in reversed(range(len(heights))):
        ceiling = bottom if k == len(heights) - 1 else heights[k + 1] - _LABEL
        heights[k] = min(heights[k], ceiling) if over else heights[k]
    alike = len({label[:13] for _, label, _ in order}) < len(order)  # names that begin alike differ at their ends
    parts: list[str] = []
    for (height, label, place), at in zip(order, heights, strict=True):
        short = label if len(label) <= 14 else "…" + label[-13:] if alike else label[:13] + "…"
        parts.append(f'<line x1="{left - 5}" x2="{left + 4}" y1="{min(height, bottom):.1f}" y2="{at:.1f}" class="lead" '
                     f'style="stroke:var(--c{place % COLOURS})"/>')  # fmt: skip
        parts.append(_text(left + 8, at + 4, "name", short, "start"))
    return parts


def _text(x: float, y: float, kind: str, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _svg(parts: Sequence[str], width: float, height: float, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
