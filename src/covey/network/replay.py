"""What is on disk of a round that was cut short: it is played again, and must say and use the same.

Only the first round after a start can be one. What it said counts, even if training now gives other numbers (a GPU
may): neighbours have perhaps used it.
"""

from __future__ import annotations

from covey.network.store import Heard, Store
from covey.network.wire import Kind


class Replay:
    """Of the round that begins. In all rounds but the first after a start there is nothing to find."""

    def __init__(self, store: Store) -> None:
        self._store, self._round, self._first = store, -2, True
        self._heard: dict[int, list[Heard]] = {}
        self._addressed: dict[int, set[str]] = {}

    def begin(self, round: int) -> None:
        self._first, self._round = self._round == -2, round
        self._heard, self._addressed = {}, {}
        if not self._first:
            return
        for one in self._store.heard(round):
            self._heard.setdefault(one.call, []).append(one)
        for one in self._store.outbox():
            if one.letter.round == round and one.letter.kind is Kind.SAID:
                self._addressed.setdefault(one.call, set()).add(one.neighbour)

    def said(self, call: int) -> bytes | None:
        """What was said to everybody in this call."""
        return self._store.said(self._round, call) if self._first else None

    def addressed(self, call: int) -> set[str] | None:
        """To whom it was posted; None if the round never came to this call."""
        return self._addressed.get(call, set()) if self.said(call) is not None else None

    def complete(self, call: int) -> bool:
        """Whether the round was once past this call: then all that the call used is on record."""
        return self._first and self._store.said(self._round, call + 1) is not None

    def heard(self, call: int) -> list[Heard]:
        """What the call had used, in order."""
        return self._heard.get(call, [])
