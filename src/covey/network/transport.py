"""What carries frames between neighbours: connections, and nothing of what is said on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Part = bytes | memoryview


class Transport(Protocol):
    """Named neighbours, whole frames. What it loses it does not report; `protocol.py` sends again what matters."""

    def start(self, deliver: Callable[[str, Part], None], up: Callable[[str], None],
              down: Callable[[str, str], None]) -> None:  # fmt: skip
        """Begin. deliver(neighbour, frame), up(neighbour) once it has proved who it is, down(neighbour, why): called
        from the transport's own threads, and quick."""
        ...

    def send(self, neighbour: str, parts: Sequence[Part]) -> bool:
        """Queue one frame, the parts joined; from any thread. False: not connected, and nothing is queued."""
        ...

    def close(self) -> None: ...
