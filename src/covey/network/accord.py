"""What all peers of a run must have in common, as words that a person can compare.

An accord is a flat table, `algorithm.shared.lr -> 0.1`. Neighbours show it to each other whenever they connect, so
that a difference is named before it does harm. It holds settings, names and shapes; of numbers learned from data, none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

Accord = Mapping[str, str]

_FREE = ("version.",)  # what may differ between two sites; said, but not refused
_SAID = 4  # differences that one sentence names
_MOST = 60  # letters of a value that it quotes


def differences(mine: Accord, theirs: Accord, them: str) -> str | None:
    """One sentence that names what differs, or None where the run can begin."""
    keys = [k for k in sorted(mine.keys() | theirs.keys()) if mine.get(k) != theirs.get(k) and not k.startswith(_FREE)]
    if not keys:
        return None
    named = [f"{key} is {_short(mine.get(key))} here and {_short(theirs.get(key))} at {them}" for key in keys[:_SAID]]
    more = f" (and {len(keys) - _SAID} more)" if len(keys) > _SAID else ""
    return f"The settings differ: {'; '.join(named)}{more}; make them alike."


def run_id(accord: Accord) -> bytes:
    """16 bytes that only peers with equal accords share; how long a run lasts is not in it, so that it can be
    prolonged."""
    kept = {key: value for key, value in accord.items() if not key.startswith(_FREE) and key != "run.rounds"}
    return hashlib.blake2b(json.dumps(kept, sort_keys=True).encode(), digest_size=16).digest()


def _short(value: str | None) -> str:
    if value is None:
        return "not set"
    return value if len(value) <= _MOST else value[:_MOST] + "…"
