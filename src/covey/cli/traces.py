"""Numbers per peer on the command line: one for all, one for each of some groups, or a trace in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from covey.errors import BadInput
from covey.per_peer import Row, groups


def numbers(flag: str, text: str | None, peers: int, read: Callable[[str], float]) -> float | Row | Any | None:
    """`0.01`, `0.01,0.02,0.05` (groups of equally many peers), or `trace.json`."""
    if text is None:
        return None
    if text.endswith(".json"):
        return trace(flag, text)
    values = [read(part) for part in text.split(",")]
    if len(values) > peers:
        raise BadInput(f"{flag} {text} names {len(values)} groups of {peers} peers; name at most one for each peer.")
    return values[0] if len(values) == 1 else groups(peers, values)


def trace(flag: str, text: str) -> Any:
    """What the file holds: a list with a number per peer, or a list of such lists, one per round."""
    path = Path(text).expanduser()
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise BadInput(f"{flag} {text}: there is no such file.") from None
    except (OSError, ValueError) as problem:
        raise BadInput(f"{flag} {text} cannot be read as JSON ({problem}).") from problem
