"""One connection to a neighbour: a queue of frames to say, and pieces heard that become frames again."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from covey.network.pieces import PIECE, Assembler, pieces, size
from covey.network.transport import Part

_FRAMES = 2  # of the largest size that may be queued: one under way and the next

_SHORT = 4096  # bytes of a part that is compared byte by byte

Read = Callable[[], Awaitable[bytes | None]]  # the next piece, None at the end
Write = Callable[[bytes], Awaitable[None]]  # waits while the line is full
Leaving = Callable[[str, Sequence[Part]], None]  # a frame is about to leave for this neighbour


class Connection:
    """Made when the greeting is done. `offer` may be called from any thread; all else runs on the loop's."""

    def __init__(self, name: str, preferred: bool, read: Read, write: Write, largest: int) -> None:
        self.name, self.preferred = name, preferred
        self.ended: str | None = None  # why, once it is to end
        self._read, self._write = read, write
        self._queue: deque[Sequence[Part]] = deque()  # the first one is under way
        self._most, self._queued = max(_FRAMES * largest, 16 * PIECE), 0
        self._lock = threading.Lock()
        self._assembler = Assembler(largest)
        self._loop, self._wake, self._end = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def offer(self, parts: Sequence[Part]) -> bool:
        """Queue a frame; False where the queue is full. A frame that is queued already is not queued again: on a slow
        line the protocol's patience ends before the line has carried it."""
        length = size(parts)
        with self._lock:
            if any(_same(parts, one) for one in self._queue):
                return True
            if self.ended is not None or (self._queue and self._queued + length > self._most):
                return False
            self._queued += length
            self._queue.append(parts)
        self._loop.call_soon_threadsafe(self._wake.set)
        return True

    def end(self, why: str) -> None:
        if self.ended is None:
            self.ended = why
            self._end.set()

    async def empty(self) -> None:
        """Until everything queued has been written."""
        while self._queue and self.ended is None:
            await asyncio.sleep(0.01)

    async def carry(self, deliver: Callable[[Part], None], leaving: Leaving | None) -> None:
        """Say and hear until either end is done. Hearing never waits for saying, so two neighbours that say much at
        once do not wait for each other."""
        parts = (self._say(leaving), self._hear(deliver), self._end.wait())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _say(self, leaving: Leaving | None) -> None:
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            parts = self._queue[0]
            length = size(parts)
            if leaving is not None:
                if length > PIECE:  # a digest of much takes long: others are heard meanwhile
                    await asyncio.to_thread(leaving, self.name, parts)
                else:
                    leaving(self.name, parts)
            for piece in pieces(parts):
                await self._write(piece)
            with self._lock:
                self._queue.popleft()
                self._queued -= length

    async def _hear(self, deliver: Callable[[Part], None]) -> None:
        while (piece := await self._read()) is not None:
            frame = self._assembler.take(piece)
            if frame is not None:
                deliver(frame)


def _same(one: Sequence[Part], other: Sequence[Part]) -> bool:
    """Whether two frames are the same without reading what is long: long parts count as equal if they are
    views of one object. The header, which is short, tells messages apart."""
    return len(one) == len(other) and all(map(_same_part, one, other))


def _same_part(one: Part, other: Part) -> bool:
    a, b = memoryview(one), memoryview(other)
    if a.nbytes != b.nbytes:
        return False
    return a == b if a.nbytes <= _SHORT else a.obj is b.obj


class Backoff:
    """How long to wait before the next try: twice as long each time, and not the same for everybody."""

    def __init__(self, first: float, most: float, draw: Callable[[], float]) -> None:
        self._first, self._most, self._draw = first, most, draw
        self._now = first

    def reset(self) -> None:
        self._now = self._first

    def seconds(self) -> float:
        now, self._now = self._now, min(2 * self._now, self._most)
        return now * (0.5 + 0.5 * self._draw())
