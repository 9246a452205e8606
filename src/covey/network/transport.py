"""What carries frames between neighbours; the protocol above it knows nothing else of the network.

A transport connects neighbours, whichever end dials, and proves to each end who the other one is. Within one
connection frames arrive whole and in order; when a connection ends, those under way may be lost, and the protocol
sends again what was not acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Part = bytes | memoryview
Deliver = Callable[[str, Part], None]  # a frame of this neighbour has arrived
Up = Callable[[str], None]  # frames can be sent to this neighbour
Down = Callable[[str, str], None]  # they no longer can, and why


class Transport(Protocol):
    """Calls back from its own thread, whose callers must not wait."""

    def start(self, deliver: Deliver, up: Up, down: Down) -> None: ...

    def send(self, neighbour: str, parts: Sequence[Part]) -> bool:
        """Queue one frame, the parts joined, from any thread; the parts must not change afterwards. False where
        nothing was queued: the neighbour is not connected or its queue is full; `up` says when to try again."""
        ...

    def close(self) -> None:
        """Say what is queued, for a few seconds at most, and hang up."""
        ...
