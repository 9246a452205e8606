"""A frame in pieces: what one message of the stream holds. Bytes in, bytes out.

    first piece   length of the frame, 8 bytes, little end first | the frame's first bytes
    other pieces  more bytes of the frame, until the length is reached

A piece belongs to one frame. Every piece but a frame's last carries PIECE bytes of it, so nobody makes work by crumbs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from covey.errors import CoveyError
from covey.network.transport import Part

PIECE = 1 << 20
_HEAD = 8


class Unfit(CoveyError):
    """What no covey peer would send; the connection ends."""


def size(parts: Sequence[Part]) -> int:
    return sum(memoryview(part).nbytes for part in parts)


def pieces(parts: Sequence[Part]) -> Iterator[bytes]:
    """The frame that the parts form, piece by piece; every byte is copied once."""
    length = size(parts)
    held: list[Part] = [length.to_bytes(_HEAD, "little")]
    room = PIECE
    for part in parts:
        rest = memoryview(part).cast("B")
        while len(rest) >= room:
            held.append(rest[:room])
            yield b"".join(held)
            rest, held, room = rest[room:], [], PIECE
        if len(rest):
            held.append(rest)
            room -= len(rest)
    if held:
        yield b"".join(held)


class Assembler:
    """Puts frames together again. Memory is taken for a frame only when its length has been found fit, and only as
    its bytes arrive."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._frame: bytearray | None = None
        self._length = 0

    def take(self, piece: bytes) -> Part | None:
        """The frame, when this piece completes it."""
        if self._frame is None:
            return self._first(piece)
        frame = self._frame
        if len(piece) != min(PIECE, self._length - len(frame)):
            raise Unfit("A piece of a frame has the wrong size.")
        frame += piece
        if len(frame) < self._length:
            return None
        self._frame = None
        return memoryview(frame)

    def _first(self, piece: bytes) -> Part | None:
        if len(piece) < _HEAD:
            raise Unfit("A frame begins with less than its length.")
        length = int.from_bytes(piece[:_HEAD], "little")
        if not 0 < length <= self._largest:
            raise Unfit(f"A frame of {length} bytes is announced; between 1 and {self._largest} are fit here.")
        if len(piece) - _HEAD != min(PIECE, length):
            raise Unfit("A piece of a frame has the wrong size.")
        if length <= PIECE:
            return memoryview(piece)[_HEAD:]
        self._length, self._frame = length, bytearray(memoryview(piece)[_HEAD:])
        return None
