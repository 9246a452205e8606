"""From `--bandwidth 100k --latency 0.02 …` to the clock of a run."""

from __future__ import annotations

import re
from typing import Any

from covey.cli.settings import Settings
from covey.cli.traces import numbers
from covey.engine.clock import Clock
from covey.errors import BadInput

_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


def clock_of(settings: Settings, peers: int) -> Clock | None:
    """The clock that the settings describe, None where nothing is said of time or energy."""
    s = settings
    given: dict[str, Any] = {
        "uplink": s.uplink,
        "step_seconds": numbers("--step-seconds", s.step_seconds, peers, _seconds),
        "message_seconds": s.message_seconds,
        "bandwidth": numbers("--bandwidth", s.bandwidth, peers, bits_per_second),
        "latency": s.latency,
        "joules_per_bit": s.joules_per_bit,
        "joules_per_step": s.joules_per_step,
    }
    known = {name: value for name, value in given.items() if value is not None}
    if list(known) == ["uplink"]:
        raise BadInput(f"--uplink {s.uplink} says how a line is shared; say also how fast it is: --bandwidth 100k.")
    return Clock(**known) if known else None


def bits_per_second(text: str) -> float:
    """100k -> 100 000."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)([kMG]?)", text.strip())
    if found is None:
        raise BadInput(f"--bandwidth {text} is no number of bits per second, such as 100k, 2.5M or 1G.")
    return float(found[1]) * _UNITS[found[2]]


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"--step-seconds {text} is no number of seconds, such as 0.01.") from None
