"""Transports between peers of one process: queues that lose, double, reorder and delay frames by a seed."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Faults:
    """Chances per frame, and the seconds by which a delayed one comes later."""

    lose: float = 0.0
    double: float = 0.0
    delay: float = 0.0
    seconds: float = 0.02


class Wires:
    """All connections of a test. Every pair is connected once both ends are started, until somebody cuts it."""

    def __init__(self, faults: Faults | None = None, seed: int = 0) -> None:
        self.faults, self.draw = faults or Faults(), random.Random(seed)
        self.ends: dict[str, End] = {}
        self.severed: set[frozenset[str]] = set()
        self.lock = threading.RLock()
        self.problems: list[BaseException] = []
        self.log: list[tuple[str, str, bytes]] = []  # who, to whom, header

    def end(self, name: str) -> End:
        return End(self, name)

    def join(self, end: End) -> None:
        with self.lock:
            self.ends[end.name] = end
            for other in list(self.ends.values()):
                self._link(end, other)

    def leave(self, end: End) -> None:
        with self.lock:
            if self.ends.get(end.name) is end:
                del self.ends[end.name]
                for other in self.ends.values():
                    other.queue(other.down, end.name, "closed")

    def sever(self, one: str, other: str) -> None:
        with self.lock:
            self.severed.add(frozenset((one, other)))
            for a, b in ((one, other), (other, one)):
                if a in self.ends:
                    self.ends[a].queue(self.ends[a].down, b, "cut")

    def heal(self, one: str, other: str) -> None:
        with self.lock:
            self.severed.discard(frozenset((one, other)))
            if one in self.ends and other in self.ends:
                self._link(self.ends[one], self.ends[other])

    def _link(self, one: End, other: End) -> None:
        if one is not other and frozenset((one.name, other.name)) not in self.severed:
            one.queue(one.up, other.name)
            other.queue(other.up, one.name)

    def connected(self, one: str, other: str) -> bool:
        return one in self.ends and other in self.ends and frozenset((one, other)) not in self.severed

    def carry(self, sender: str, receiver: str, blob: bytes) -> bool:
        with self.lock:
            if not self.connected(sender, receiver):
                return False
            self.log.append((sender, receiver, blob[:56]))
            end, faults = self.ends[receiver], self.faults
            if self.draw.random() < faults.lose:
                return True
            for _ in range(2 if self.draw.random() < faults.double else 1):
                late = faults.seconds * self.draw.random() if self.draw.random() < faults.delay else 0.0
                end.queue(end.deliver, sender, blob, after=late)
            return True


class End:
    """One peer's transport."""

    def __init__(self, wires: Wires, name: str) -> None:
        self.wires, self.name = wires, name
        self._heap: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._ready, self._count, self._open = threading.Condition(), 0, True

    def start(self, deliver: Callable[..., None], up: Callable[..., None], down: Callable[..., None]) -> None:
        self.deliver, self.up, self.down = deliver, up, down
        threading.Thread(target=self._work, daemon=True).start()
        self.wires.join(self)

    def send(self, neighbour: str, parts: Sequence[bytes | memoryview]) -> bool:
        return self.wires.carry(self.name, neighbour, b"".join(bytes(part) for part in parts))

    def close(self) -> None:
        self.wires.leave(self)
        with self._ready:
            self._open = False
            self._ready.notify()

    def queue(self, what: Callable[..., None], *arguments: object, after: float = 0.0) -> None:
        with self._ready:
            self._count += 1
            heapq.heappush(self._heap, (time.monotonic() + after, self._count, what, arguments))
            self._ready.notify()

    def _work(self) -> None:
        while True:
            with self._ready:
                while self._open and (not self._heap or self._heap[0][0] > time.monotonic()):
                    self._ready.wait(max(0.0, self._heap[0][0] - time.monotonic()) if self._heap else None)
                if not self._open:
                    return
                _, _, what, arguments = heapq.heappop(self._heap)
            try:
                what(*arguments)
            except BaseException as problem:  # or the thread would end in silence, and the test hang
                self.wires.problems.append(problem)
