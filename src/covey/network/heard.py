"""What one call of the link has heard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from covey.compress import Message

Things = Sequence[Message | None]  # None: silence


@dataclass(frozen=True)
class Late:
    """Something to be added after its round: the place of its sender, its weight, what it says."""

    peer: int
    weight: float
    things: Things


@dataclass
class Hearing:
    """own: the weight that I give to myself; now: place of a sender -> (its weight, what it says)."""

    own: float
    now: dict[int, tuple[float, Things]] = field(default_factory=dict[int, tuple[float, Things]])
    late: list[Late] = field(default_factory=list[Late])
