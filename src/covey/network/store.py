"""What a peer has on disk: one SQLite file in its folder, in WAL mode.

    rows     the checkpoint: the peer's row, its state and the link's, as pieces of one blob
    said     (round, call) -> body: what I said to everybody in an exchange
    outbox   (neighbour, call, sequence) -> a message that its receiver has not kept yet
    given    (neighbour, call) -> the last number that was given out
    taken    (neighbour, call) -> the last message that is in `rows`
    heard    (round, call, neighbour) -> what the round under way has used of others, where something that left depends
             on it: a replay of the round uses the same
    meta     run, format, and what else is remembered by name

Two transactions make a round safe. `say`: a message is in `said` and `outbox` before it leaves, with what it depends
on in `heard`. `commit`: the new row, the numbers of what went into it, and the end of `heard`, all or nothing. A
process that is killed anywhere finds the state before or after one of them, never between.

A killed process loses nothing that was committed. Against a power failure SQLite must also wait for the disk
(`synchronous`), which costs 10 ms on a slow one. `sync="share"` waits whenever that takes at most a twentieth of the
time since the last wait: always, where rounds take seconds. "always" and "never" say so for every commit.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from covey.errors import BadInput, DamagedCheckpoint
from covey.network.protocol import Letter
from covey.network.wire import Kind

FORMAT = "1"
Sync = Literal["share", "always", "never"]
Stream = tuple[str, int]  # neighbour, call
_PIECE = 1 << 28  # bytes of a blob; SQLite's own limit is 10⁹
_SHARE = 20
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rows (piece INTEGER PRIMARY KEY, crc INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS said (round INTEGER, call INTEGER, body BLOB NOT NULL, PRIMARY KEY (round, call));
CREATE TABLE IF NOT EXISTS outbox (neighbour TEXT, call INTEGER, sequence INTEGER, kind INTEGER NOT NULL,
    round INTEGER NOT NULL, things INTEGER NOT NULL, chain BLOB NOT NULL, body BLOB,
    PRIMARY KEY (neighbour, call, sequence));
CREATE TABLE IF NOT EXISTS given (neighbour TEXT, call INTEGER, sequence INTEGER NOT NULL, chain BLOB NOT NULL,
    PRIMARY KEY (neighbour, call)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS taken (neighbour TEXT, call INTEGER, sequence INTEGER NOT NULL, chain BLOB NOT NULL,
    PRIMARY KEY (neighbour, call)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS heard (round INTEGER, call INTEGER, neighbour TEXT, sequence INTEGER, kind INTEGER NOT NULL,
    spoken INTEGER NOT NULL, body BLOB, PRIMARY KEY (round, call, neighbour, sequence));
"""


@dataclass(frozen=True)
class Heard:
    """A message of a neighbour as the round under way used it; sequence 0 for a snapshot, body None where it was
    decided to go without."""

    call: int
    neighbour: str
    letter: Letter


@dataclass(frozen=True)
class Outgoing:
    """A message as it is put into the outbox."""

    neighbour: str
    call: int
    letter: Letter


@dataclass(frozen=True)
class Commit:
    """What a round leaves behind."""

    round: int
    tensors: Mapping[str, Tensor]
    meta: Mapping[str, Any]
    taken: Mapping[Stream, tuple[int, bytes]] = field(default_factory=dict[Stream, tuple[int, bytes]])
    kept: Mapping[Stream, int] = field(default_factory=dict[Stream, int])  # by others: goes out of the outbox
    pending: frozenset[tuple[int, int]] = frozenset()  # (round, call) of which what I said is still needed

    def with_kept(self, kept: Mapping[Stream, int]) -> Commit:
        return replace(self, kept=kept)


class Store:
    """One peer's folder, open by one process at a time. All methods may be called from any thread."""

    def __init__(self, folder: Path, run: str, sync: Sync = "share") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "peer.db"
        self._lock = threading.RLock()
        self._sync, self._synced, self._cost = sync, 0.0, 0.0
        try:
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0.0)
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(_TABLES)
        except sqlite3.OperationalError as problem:
            raise BadInput(f"{self.path} cannot be opened ({problem}); is this peer running already?") from problem
        except sqlite3.DatabaseError as problem:
            raise DamagedCheckpoint(f"{self.path} is no covey database ({problem}); restore it, or move it away and "
                                    "join anew.") from problem  # fmt: skip
        self._require(run)

    def _require(self, run: str) -> None:
        for name, value in (("format", FORMAT), ("run", run)):
            found = self.meta(name)
            if found is None:
                with self._transaction():
                    self._db.execute("INSERT INTO meta VALUES (?, ?)", (name, value))
            elif found != value:
                raise BadInput(f"{self.path} belongs to another {name}, {found} and not {value}; give each run a "
                               "folder of its own.")  # fmt: skip

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def meta(self, name: str) -> str | None:
        with self._lock:
            found = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    # a message leaves

    def say(self, round: int, call: int, body: bytes | None, letters: Sequence[Outgoing],
            heard: Iterable[Heard] = ()) -> None:  # fmt: skip
        """Before it leaves: what I say in this exchange, to whom, and what of others it depends on."""
        with self._transaction():
            if body is not None:
                self._db.execute("INSERT OR IGNORE INTO said VALUES (?, ?, ?)", (round, call, body))
            sums = [(o.neighbour, o.call) for o in letters if o.letter.kind is Kind.SUM]  # in the place of all before
            self._db.executemany("DELETE FROM outbox WHERE neighbour = ? AND call = ?", sums)
            self._db.executemany(
                "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(o.neighbour, o.call, o.letter.sequence, int(o.letter.kind), o.letter.round, o.letter.things,
                  o.letter.chain, o.letter.body) for o in letters],
            )  # fmt: skip
            self._db.executemany(
                "INSERT OR REPLACE INTO given VALUES (?, ?, ?, ?)",
                [(o.neighbour, o.call, o.letter.sequence, o.letter.chain) for o in letters],
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO heard VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(round, h.call, h.neighbour, h.letter.sequence, int(h.letter.kind), h.letter.round, h.letter.body)
                 for h in heard],
            )  # fmt: skip

    def said(self, round: int, call: int) -> bytes | None:
        with self._lock:
            found = self._db.execute("SELECT body FROM said WHERE round = ? AND call = ?", (round, call)).fetchone()
        return None if found is None else bytes(found[0])

    def heard(self, round: int) -> list[Heard]:
        """What this round had used before it was cut short."""
        with self._lock:
            rows = self._db.execute(
                "SELECT call, neighbour, sequence, kind, spoken, body FROM heard WHERE round = ? "
                "ORDER BY call, neighbour, sequence", (round,)
            ).fetchall()  # fmt: skip
        return [Heard(call, who, Letter(number, Kind(kind), *rest)) for call, who, number, kind, *rest in rows]

    def outbox(self) -> list[Outgoing]:
        """What others have not kept yet, as far as I know."""
        with self._lock:
            rows = self._db.execute(
                "SELECT neighbour, call, sequence, kind, round, body, chain, things FROM outbox "
                "ORDER BY neighbour, call, sequence"
            ).fetchall()
        return [Outgoing(who, call, Letter(number, Kind(kind), *rest)) for who, call, number, kind, *rest in rows]

    def given(self) -> dict[Stream, tuple[int, bytes]]:
        """The last number given out in each stream, and the digest of all that was said up to there."""
        with self._lock:
            rows = self._db.execute("SELECT neighbour, call, sequence, chain FROM given").fetchall()
        return {(who, call): (number, chain) for who, call, number, chain in rows}

    # a round is over

    def commit(self, done: Commit) -> None:
        """The round's row, and the numbers of what went into it: all or nothing."""
        from safetensors.torch import save

        blob = save({name: value.detach().cpu().contiguous() for name, value in done.tensors.items()})
        pieces = [blob[at : at + _PIECE] for at in range(0, len(blob), _PIECE)]
        with self._transaction(last=True):
            self._db.execute("DELETE FROM rows WHERE piece >= ?", (len(pieces),))
            self._db.executemany(
                "INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", [(i, zlib.crc32(p), p) for i, p in enumerate(pieces)]
            )
            meta = {"round": str(done.round), "checkpoint": json.dumps(done.meta)}
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())
            self._db.executemany(
                "INSERT OR REPLACE INTO taken VALUES (?, ?, ?, ?)",
                [(*stream, *standing) for stream, standing in done.taken.items()],
            )
            self._db.executemany(
                "DELETE FROM outbox WHERE neighbour = ? AND call = ? AND sequence <= ?",
                [(*stream, n) for stream, n in done.kept.items()],
            )
            self._db.execute("DELETE FROM heard")
            self._forget_said(done)

    def _forget_said(self, done: Commit) -> None:
        old = self._db.execute(
            "SELECT round, call FROM said WHERE round <= ? EXCEPT SELECT round, call FROM outbox WHERE body IS NULL",
            (done.round,),
        ).fetchall()
        gone = [key for key in old if key not in done.pending]
        self._db.executemany("DELETE FROM said WHERE round = ? AND call = ?", gone)

    def load(self) -> tuple[int, dict[str, Tensor], dict[str, Any], dict[Stream, tuple[int, bytes]]] | None:
        """The last committed round, its tensors, what was noted with them, and how far each stream is in them."""
        from safetensors.torch import load

        with self._lock:
            done = self.meta("round")
            if done is None:
                return None
            pieces = self._db.execute("SELECT crc, data FROM rows ORDER BY piece").fetchall()
            taken = self._db.execute("SELECT neighbour, call, sequence, chain FROM taken").fetchall()
        if any(zlib.crc32(data) != crc for crc, data in pieces):
            raise DamagedCheckpoint(f"The checkpoint in {self.path} is not what was written; restore it from a copy, "
                                    "or move it away and join anew.")  # fmt: skip
        meta = json.loads(self.meta("checkpoint") or "{}")
        tensors = load(b"".join(data for _, data in pieces))
        return int(done), tensors, meta, {(who, call): (number, chain) for who, call, number, chain in taken}

    @contextmanager
    def _transaction(self, last: bool = False) -> Generator[None]:
        """All statements inside, or none. last: the end of a round, which may have to wait for the disk."""
        with self._lock:
            begun = time.monotonic()
            share = self._sync == "share" and last and begun - self._synced >= _SHARE * self._cost
            wait = share or self._sync == "always"
            self._db.execute(f"PRAGMA synchronous={'FULL' if wait else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                before = time.monotonic()
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            if wait:
                self._synced = time.monotonic()
                self._cost = self._synced - before
