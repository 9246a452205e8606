"""The audit log: a line for every frame that leaves the site, in a chain that shows whether a line was changed.

    {"n": 0, "at": "2026-01-31T12:00:00Z", "to": "east", "round": 3, "kind": "SAID", "bytes": 812, "digest": "…",
     "chain": "…"}

digest is SHA-256 of the frame's bytes; chain is SHA-256 of the chain before it and of this line without its chain. A
line is written before its frame leaves, so the log may name a frame that was not received, and never lacks one. Who
can write the file can make a new chain: keep its last link elsewhere, `covey peer audit FILE --link` then compares.
A line that a crash cut off stays, and the next one says how long it is ("kind": "torn").
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from covey.errors import BadInput, CoveyError
from covey.network.pieces import size
from covey.network.transport import Part

START = "0" * 64
_FIELDS = ("n", "at", "to", "round", "kind", "bytes", "digest", "chain")


class Tampered(CoveyError):
    """An audit log whose chain does not hold."""


@dataclass(frozen=True)
class End:
    """Where a log ends: how many lines, the last link of its chain, how many bytes are before a torn line."""

    lines: int
    link: str
    torn: bytes = b""


class Audit:
    """Appends to a log; from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        end = verify(path) if path.exists() else End(0, START)
        self._file = path.open("ab")
        self._lock = threading.Lock()
        if end.torn:
            self._file.write(b"\n")
            self._file.flush()
        if _parsed(end.torn + b"\n") is not None:  # nothing but the line's end was cut off
            end = verify(path)
        self._next, self._link = end.lines, end.link
        if end.torn:
            self._append("", -1, "torn", len(end.torn), hashlib.sha256(end.torn).hexdigest())

    @property
    def link(self) -> str:
        """The last link of the chain."""
        return self._link

    def leaving(self, to: str, round: int, kind: str, parts: Sequence[Part]) -> None:
        """A frame is about to leave."""
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        self._append(to, round, kind, size(parts), digest.hexdigest())

    def close(self) -> None:
        self._file.close()

    def _append(self, to: str, round: int, kind: str, length: int, digest: str) -> None:
        with self._lock:
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            line = {"n": self._next, "at": at, "to": to, "round": round, "kind": kind, "bytes": length,
                    "digest": digest}  # fmt: skip
            link = _linked(self._link, line)
            self._file.write(json.dumps(line | {"chain": link}).encode() + b"\n")
            self._file.flush()
            self._next, self._link = self._next + 1, link


def verify(path: Path) -> End:
    """Where the log ends, if every link of its chain holds; a torn last line is not counted."""
    end, torn = End(0, START), b""
    for raw in _lines(path):
        where = f"Line {end.lines + 1 + bool(torn)} of {path}"
        line = _parsed(raw)
        if torn:
            digest = hashlib.sha256(torn.removesuffix(b"\n")).hexdigest()
            if line is None or line["kind"] != "torn" or line["digest"] != digest:
                raise Tampered(f"{where} does not follow from the one before it, which is no whole line.")
            torn = b""
        if line is None:
            torn = raw
            continue
        link = line.pop("chain")
        if line["n"] != end.lines or _linked(end.link, line) != link:
            raise Tampered(f"{where} is not what was written: the chain breaks there.")
        end = End(end.lines + 1, link)
    if torn.endswith(b"\n"):
        raise Tampered(f"The last line of {path} is no line of an audit log.")
    return End(end.lines, end.link, torn)


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log that has been verified."""
    return (line for line in map(_parsed, _lines(path)) if line is not None)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as problem:
        raise BadInput(f"{path} cannot be read ({problem.strerror}).") from problem


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    if not raw.endswith(b"\n") or not isinstance(line, dict) or tuple(cast("dict[str, Any]", line)) != _FIELDS:
        return None
    return cast("dict[str, Any]", line)


def _linked(before: str, line: dict[str, Any]) -> str:
    return hashlib.sha256(before.encode() + json.dumps(line).encode()).hexdigest()
