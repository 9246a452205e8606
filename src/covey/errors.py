"""Everything covey refuses, each with one sentence that says what, why, and what to do.

CoveyError
├── BadInput              a value that cannot be used
│   ├── UnknownName       a name that is not known; carries the nearest known one
│   └── UnsoundGraph      a graph that breaks what the method assumes
├── Diverged              a loss or a parameter stopped being a number
└── DamagedCheckpoint     a run folder that cannot be resumed
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CoveyError(Exception):
    """The base of all; the command line prints it and exits with code 2."""


class BadInput(CoveyError, ValueError):
    """A value that cannot be used."""


class UnknownName(BadInput):
    """A name that is not known."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known)}."
        super().__init__(f"There is no {kind} '{name}'; {hint}")


class UnsoundGraph(BadInput):
    """A graph that breaks what the method assumes."""


class Diverged(CoveyError, ArithmeticError):
    """A loss or a parameter stopped being a number."""


class DamagedCheckpoint(CoveyError):
    """A run folder that cannot be resumed."""
