"""What a peer is doing, for whoever asks: plain values, written by the peer, read by any thread."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

Presence = Literal["alive", "late", "gone", "unseen"]


@dataclass
class Neighbour:
    """alive: heard in time; late: connected, but the last round went on without it; gone: not connected; unseen: not
    heard since this process began. `since` is this machine's clock, for people."""

    presence: Presence = "unseen"
    since: float = field(default_factory=time.time)
    why: str = ""
    missed: int = 0  # rounds that went on without it
    bytes_out: int = 0
    bytes_in: int = 0
    resent: int = 0
    twice: int = 0
    stale: int = 0
    refused: int = 0
    waiting: int = 0  # messages that it has not kept yet

    def become(self, presence: Presence, why: str = "") -> bool:
        """Whether that is new."""
        if presence == self.presence:
            return False
        self.presence, self.since, self.why = presence, time.time(), why
        return True


@dataclass
class Status:
    """round: the one under way, from 0, -1 before the start; doing: what it is at ("train", "exchange", …);
    waiting_for: names; skipped: rounds that were jumped over."""

    name: str
    run: str
    round: int = -1
    rounds: int = 0
    doing: str = "begin"
    waiting_for: tuple[str, ...] = ()
    skipped: int = 0
    losses: dict[str, float] = field(default_factory=dict[str, float])
    last_error: str = ""
    started: float = field(default_factory=time.time)
    neighbours: dict[str, Neighbour] = field(default_factory=dict[str, Neighbour])

    def as_dict(self) -> dict[str, Any]:
        """A copy for JSON, or for metrics."""
        own = {name: value for name, value in vars(self).items() if name != "neighbours"}
        return own | {
            "waiting_for": list(self.waiting_for),
            "losses": dict(self.losses),
            "neighbours": {name: dict(vars(one)) for name, one in list(self.neighbours.items())},
        }
