"""The bytes of a frame, format 1: a header of 56 bytes, then a body. Little-endian throughout.

    at  size
     0   4   magic "covy"
     4   1   version, 1
     5   1   kind, see `Kind`
     6   2   call       which of the exchanges of a round
     8  16   run        digest of what all peers must agree on; a frame of another run is refused
    24   8   round      signed: -1 is the start, before round 0
    32   8   sequence   place in the stream of (sender, receiver, call), from 1; 0 where a frame has none
    40   8   length     bytes of the body
    48   4   things     how many things the body says; 0 where it says none
    52   4   zero

Bodies: SNAPSHOT, SAID and SUM are what one row says (`codec.py`); VERDICT is one byte, 0 or 1; HELLO and ACK are below;
BEHIND, DONE, SEEN and LOST have none. What packs to other bytes than came is refused.
What frames are for is in `docs/protocol.md`.

    HELLO   life u64, answering u64, then per stream: call u16, given u64, got u64, kept u64, chain 16 bytes
    ACK     per stream: call u16, given u64, got u64, kept u64; its round is the one that its sender is in
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from covey.errors import CoveyError

MAGIC, VERSION = b"covy", 1
_HEADER = struct.Struct("<4sBBH16sqQQII")
_GREETING = struct.Struct("<QQ")
_STREAM = struct.Struct("<HQQQ16s")
_ACK = struct.Struct("<HQQQ")
HEADER = _HEADER.size
_LAST_ROUND = 1 << 40


class Refused(CoveyError):
    """A frame that no sender of this run has written."""


class Kind(IntEnum):
    """What a frame is for. Reliable ones have a sequence number, are acknowledged, and are sent again until then."""

    HELLO = 1  # both ends, on every connection: where each stream stands
    ACK = 2  # what has arrived, and what is in the receiver's rows on disk
    BEHIND = 3  # "I went on without you in this round"
    SNAPSHOT = 4  # what a row says now; nobody misses it later
    SAID = 5  # reliable: what a row says
    VERDICT = 6  # reliable: whether the other end of an edge used the snapshot of this round
    SUM = 7  # reliable: the whole running sum of a stream, in the place of all that went before
    DONE = 8  # "I have played my last round, and take nothing more"
    LOST = 10  # "you had kept up to this number and have gone back to an older state; that is lost"
    SEEN = 9  # "your snapshot of this round and call is here"


RELIABLE = (Kind.SAID, Kind.VERDICT, Kind.SUM)
NUMBERED = (*RELIABLE, Kind.LOST)
SPEAKING = (Kind.SNAPSHOT, Kind.SAID, Kind.SUM)


@dataclass(frozen=True)
class Frame:
    kind: Kind
    run: bytes
    round: int = 0
    call: int = 0
    sequence: int = 0
    things: int = 0
    body: bytes | memoryview = b""


@dataclass(frozen=True)
class Standing:
    """Where one end stands with the streams of one call: as their sender `given`, the last number given out; as their
    receiver `got`, `kept`, and `chain`, the digest of all that is kept (of changes; zero for other streams)."""

    call: int
    given: int = 0
    got: int = 0
    kept: int = 0
    chain: bytes = bytes(16)


@dataclass(frozen=True)
class Hello:
    """life: a random number of this process; answering: the life of the other end as far as it is known, or 0."""

    life: int
    answering: int
    standings: tuple[Standing, ...] = ()


def header(frame: Frame) -> bytes:
    """The first 56 bytes; the body follows as it is."""
    return _HEADER.pack(
        MAGIC, VERSION, frame.kind, frame.call, frame.run, frame.round, frame.sequence, len(frame.body), frame.things, 0
    )


def parse(blob: bytes | memoryview, run: bytes) -> Frame:
    """The frame of these bytes. The body is a view of them; nothing is copied."""
    view = memoryview(blob)
    if len(view) < HEADER:
        raise Refused(f"A frame of {len(view)} bytes is shorter than its header of {HEADER}.")
    magic, version, kind, call, named, turn, sequence, length, things, zero = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise Refused("A frame does not begin with 'covy'; whoever sent it speaks another protocol.")
    if version != VERSION:
        raise Refused(f"A frame has format {version}, and only {VERSION} is known here; run the same covey everywhere.")
    if named != run:
        raise Refused("A frame belongs to another run; `covey peer check` names the setting that differs.")
    if length != len(view) - HEADER:
        raise Refused(f"A frame announces {length} bytes and has {len(view) - HEADER}.")
    if kind not in Kind._value2member_map_ or zero:
        raise Refused(f"A frame of kind {kind} is unknown to format {VERSION}.")
    frame = Frame(Kind(kind), run, turn, call, sequence, things, view[HEADER:])
    _require_sense(frame)
    return frame


def _require_sense(frame: Frame) -> None:
    numbered, speaking = frame.kind in NUMBERED, frame.kind in SPEAKING
    if numbered != (frame.sequence > 0) or speaking != (frame.things > 0) or not -1 <= frame.round < _LAST_ROUND:
        raise Refused(f"A {frame.kind.name} of round {frame.round} with sequence {frame.sequence} makes no sense.")
    if frame.kind is Kind.VERDICT and bytes(frame.body) not in (b"\0", b"\1"):
        raise Refused("A verdict is one byte, 0 or 1.")
    if frame.kind in (Kind.BEHIND, Kind.DONE, Kind.SEEN, Kind.LOST) and len(frame.body):
        raise Refused(f"A {frame.kind.name} has no body.")


def pack_hello(hello: Hello) -> bytes:
    streams = (_STREAM.pack(s.call, s.given, s.got, s.kept, s.chain) for s in hello.standings)
    return _GREETING.pack(hello.life, hello.answering) + b"".join(streams)


def parse_hello(body: bytes | memoryview) -> Hello:
    rest = len(body) - _GREETING.size
    if rest < 0 or rest % _STREAM.size:
        raise Refused(f"A greeting of {len(body)} bytes makes no sense.")
    life, answering = _GREETING.unpack_from(body)
    standings = tuple(Standing(*fields) for fields in _STREAM.iter_unpack(body[_GREETING.size :]))
    if any(s.kept > s.got for s in standings) or not _ascending([s.call for s in standings]):
        raise Refused("A greeting keeps more than it got, or names a stream twice.")
    return Hello(life, answering, standings)


def pack_ack(acks: Sequence[tuple[int, int, int, int]]) -> bytes:
    """(call, given, got, kept) of each stream."""
    return b"".join(_ACK.pack(*ack) for ack in acks)


def parse_ack(body: bytes | memoryview) -> list[tuple[int, int, int, int]]:
    if len(body) % _ACK.size:
        raise Refused(f"An acknowledgement of {len(body)} bytes makes no sense.")
    acks = [(int(call), int(given), int(got), int(kept)) for call, given, got, kept in _ACK.iter_unpack(body)]
    if any(kept > got for _, _, got, kept in acks) or not _ascending([call for call, *_ in acks]):
        raise Refused("An acknowledgement keeps more than it got, or names a stream twice.")
    return acks


def _ascending(calls: list[int]) -> bool:
    return all(a < b for a, b in pairwise(calls))
