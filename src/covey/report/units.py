"""Numbers as people read them."""

from __future__ import annotations

import math


def bits(value: float) -> str:
    """1234567 -> 1.23 Mbit."""
    if value == 0:
        return "0"
    for unit in ("bit", "kbit", "Mbit", "Gbit", "Tbit"):
        if value < 999.5 or unit == "Tbit":
            return f"{value:.3g} {unit}"
        value /= 1000
    return ""


def joules(value: float) -> str:
    """0.0123 -> 12.3 mJ."""
    for scale, unit in ((1e-6, "µJ"), (1e-3, "mJ"), (1.0, "J"), (1e3, "kJ")):
        if value < 999.5 * scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e6:.3g} MJ"


def seconds(value: float) -> str:
    if 0 < value < 0.1:
        return f"{1000 * value:.3g} ms"
    if value < 100:
        return f"{value:.1f} s"
    if value < 6000:
        return f"{value / 60:.1f} min"
    return f"{value / 3600:.1f} h"


def score(value: float, metric: str, spread: float | None = None) -> str:
    """An accuracy in per cent, a loss as it is; with the spread over seeds where there are several."""
    if math.isnan(value):
        return "–"
    scale, form = (1.0, ".4g") if metric == "loss" else (100.0, ".1f")
    text = f"{value * scale:{form}}"
    return text if spread is None else f"{text} ± {spread * scale:{form}}"


def count(value: float) -> str:
    """A whole number with thin groups: 11 173 962."""
    return f"{value:,.0f}".replace(",", " ")
