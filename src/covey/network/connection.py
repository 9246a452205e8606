"""One connection to a neighbour: a queue of frames to say, and pieces heard that become frames again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from covey.network.pieces import PIECE, Assembler, pieces, size
from covey.network.transport import Part

_FRAMES = 2  # of the largest size that may be queued: one under way and the next

Read = Callable[[], Awaitable[bytes | None]]  # the next piece, None at the end
Write = Callable[[bytes], Awaitable[None]]  # waits while the line is full
Leaving = Callable[[str, Sequence[Part]], None]  # a frame is about to leave for this neighbour


class Connection:
    """Made when the greeting is done. `offer` may be called from any thread; all else runs on the loop's."""

    def __init__(self, name: str, preferred: bool, read: Read, write: Write, largest: int) -> None:
        self.name, self.preferred = name, preferred
        self.ended: str | None = None  # why, once it is to end
        self._read, self._write = read, write
        self._queue: deque[tuple[Sequence[Part], int]] = deque()
        self._most = max(_FRAMES * largest, 16 * PIECE)
        self._queued, self._full = 0, False
        self._assembler = Assembler(largest)
        self._loop, self._wake, self._end = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def offer(self, parts: Sequence[Part]) -> bool:
        """Queue a frame; False where the queue is full."""
        length = size(parts)
        if self.ended is not None or (self._queued and self._queued + length > self._most):
            self._full = True
            return False
        self._queued += length
        self._queue.append((parts, length))
        self._loop.call_soon_threadsafe(self._wake.set)
        return True

    def end(self, why: str) -> None:
        if self.ended is None:
            self.ended = why
            self._end.set()

    async def empty(self) -> None:
        """Until everything queued has been written."""
        while self._queued and self.ended is None:
            await asyncio.sleep(0.01)

    async def carry(self, deliver: Callable[[Part], None], leaving: Leaving | None, room: Callable[[], None]) -> None:
        """Say and hear until either end is done. Hearing never waits for saying, so two neighbours that say much at
        once do not wait for each other."""
        parts = (self._say(leaving, room), self._hear(deliver), self._end.wait())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _say(self, leaving: Leaving | None, room: Callable[[], None]) -> None:
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            parts, length = self._queue.popleft()
            if leaving is not None:
                if length > PIECE:  # a digest of much takes long: others are heard meanwhile
                    await asyncio.to_thread(leaving, self.name, parts)
                else:
                    leaving(self.name, parts)
            for piece in pieces(parts):
                await self._write(piece)
            self._queued -= length
            if self._full and not self._queue:
                self._full = False
                room()

    async def _hear(self, deliver: Callable[[Part], None]) -> None:
        while (piece := await self._read()) is not None:
            frame = self._assembler.take(piece)
            if frame is not None:
                deliver(frame)


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
