"""A peer's post office: drives the edges, keeps the store, and lets the link wait.

Frames arrive on the transport's threads, rounds run on the peer's own; one lock stands between them. What must outlive
the process is on disk (`store.py`) before a frame that depends on it leaves.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from covey.errors import CoveyError
from covey.network.deadline import Deadlines, Patience
from covey.network.protocol import Edge, Letter
from covey.network.status import Status
from covey.network.store import Commit, Heard, Outgoing, Store, Stream
from covey.network.transport import Part, Transport
from covey.network.wire import HEADER, RELIABLE, Frame, Kind, Refused, header, parse

_BEAT = 0.02  # seconds between looks at what may have been lost
log = logging.getLogger("covey.network")


class Stopped(CoveyError):
    """The peer was told to stop. It goes on from its last round when it is started again."""


class Post:
    """The edges of one peer, by its neighbours' names."""

    def __init__(self, run: bytes, neighbours: Sequence[str], transport: Transport, store: Store, status: Status,
                 steadfast: float, grace: float, clock: Callable[[], float] = time.monotonic) -> None:  # fmt: skip
        self.run, self.store, self.status = run, store, status
        self._transport, self._clock = transport, clock
        life = secrets.randbits(63) + 1
        self.edges = {name: Edge(run, life) for name in neighbours}
        self.rounds = Patience()
        self.deadlines = {name: Deadlines(Patience(), self.rounds, steadfast, grace) for name in neighbours}
        self._fell: dict[str, float | None] = dict.fromkeys(neighbours, clock())
        self._round, self._begun = -1, clock()
        self.changed = threading.Condition()
        self._closed = self._stopped = False
        self._beat = threading.Thread(target=self._beats, name="covey-post", daemon=True)

    # the transport's threads

    def open(self, taken: Mapping[Stream, tuple[int, bytes]]) -> None:
        """Take up what the store knows, and connect."""
        for (name, call), (sequence, chain) in taken.items():
            if name in self.edges:
                stream = self.edges[name].incoming(call)
                stream.take(sequence, chain)
                stream.kept, stream.kept_chain = sequence, chain
        for one in self.store.outbox():
            if one.neighbour in self.edges:
                self.edges[one.neighbour].post(one.call, one.letter)
        for (name, call), (last, chain) in self.store.given().items():
            if name in self.edges:
                stream = self.edges[name].outgoing(call)
                stream.last, stream.chain = last, chain
                stream.kept = stream.got = min(stream.letters, default=last + 1) - 1
                stream.kept_chain = None if stream.letters else chain
        self._transport.start(self._deliver, self._up, self._down)
        self._beat.start()

    def stop(self) -> None:
        """Whoever waits is to stop."""
        with self.changed:
            self._stopped = True
            self.changed.notify_all()

    def _require_open(self) -> None:
        if self._stopped:
            raise Stopped("Stopped; start this peer again with the same folder to go on.")

    def close(self) -> None:
        with self.changed:
            self._closed = True
            self.changed.notify_all()
        self._transport.close()
        if self._beat.is_alive():
            self._beat.join()

    def _deliver(self, name: str, blob: Part) -> None:
        with self.changed:
            edge = self.edges.get(name)
            if edge is None or self._closed:
                return
            try:
                frame = parse(blob, self.run)
                edge.receive(frame, self._clock())
            except Refused as problem:
                self.refuse(name, str(problem))
                return
            edge.counts.bytes_in += HEADER
            while edge.news:
                self.status.last_error = f"{name}: {edge.news[0]}"
                log.error("%s: %s", name, edge.news.pop(0))
            if frame.kind in RELIABLE or frame.kind is Kind.SNAPSHOT:
                self.deadlines[name].arrived(self._clock())
            self._flush(name)
            self.changed.notify_all()

    def _up(self, name: str) -> None:
        if name not in self.edges:
            return
        with self.changed:
            self._fell[name] = None
            self.deadlines[name].away, self.deadlines[name].met = 0.0, True
            self.edges[name].connected(self._clock())
            self._flush(name)
            self.changed.notify_all()

    def _down(self, name: str, why: str) -> None:
        if name not in self.edges:
            return
        with self.changed:
            if self._fell[name] is None:
                self._fell[name] = self._clock()
            self.edges[name].disconnected()
            self.status.neighbours[name].why = why
            self.changed.notify_all()

    def _beats(self) -> None:
        while not self._closed:
            time.sleep(_BEAT)
            with self.changed:
                now = self._clock()
                for name, edge in self.edges.items():
                    edge.tick(now)
                    self._flush(name)

    def _flush(self, name: str) -> None:
        edge = self.edges[name]
        for frame in edge.frames():
            self._send(name, frame)
        for call, letter in edge.due(self._clock()):
            body = letter.body if letter.body is not None else self.store.said(letter.round, call)
            if body is not None:
                self._send(name, Frame(letter.kind, self.run, letter.round, call, letter.sequence, letter.things, body))

    def _send(self, name: str, frame: Frame) -> None:
        if self._transport.send(name, [header(frame), frame.body] if len(frame.body) else [header(frame)]):
            self.edges[name].counts.bytes_out += HEADER + len(frame.body)

    # the link

    def begin(self, round: int) -> None:
        with self.changed:
            now = self._clock()
            if round > 0:
                self.rounds.observe(now - self._begun)
            self._round, self._begun = round, now
            for edge in self.edges.values():
                edge.begin(round)

    def gone(self, name: str) -> bool:
        """Not connected, and for longer than a round waits."""
        now = self._clock()
        fell = self._fell[name]
        until = self.deadlines[name].until(now, fell)
        return fell is not None and until is not None and until <= now

    def say(self, round: int, call: int, body: bytes | None, letters: Sequence[Outgoing],
            heard: Iterable[Heard] = ()) -> None:  # fmt: skip
        """Put messages into the outbox, with what they depend on; then let them leave."""
        self.store.say(round, call, body, letters, heard)
        with self.changed:
            for one in letters:
                letter = one.letter if one.letter.body is not None or body is None else one.letter.with_body(body)
                self.edges[one.neighbour].post(one.call, letter)
            for name in {one.neighbour for one in letters}:
                self._flush(name)

    def show(self, name: str, frame: Frame) -> None:
        """Say a snapshot."""
        with self.changed:
            self.edges[name].show(frame, self._clock())
            self._flush(name)

    def wait(self, due: set[str], progress: Callable[[], set[str]]) -> set[str]:
        """Until nobody is missing of those who are due, or the deadlines are over; whom the round must do without.
        `progress` takes in what has arrived and names whom it still misses; it is called under the lock."""
        begun, missing = self._clock(), due
        with self.changed:
            while True:
                now, before = self._clock(), missing
                missing = progress()
                for name in before - missing:
                    self._in_time(name, now - begun)
                untils = {name: self.deadlines[name].until(begun, self._fell[name]) for name in missing}
                hoped = {name: until for name, until in untils.items()
                         if not self.edges[name].silent and (until is None or until > now)}  # fmt: skip
                self.status.waiting_for = tuple(sorted(hoped))
                self._require_open()
                if not hoped:
                    break
                left = [until - now for until in hoped.values() if until is not None]
                self.changed.wait(min(left, default=1.0))
            for name in missing:
                self._without(name, begun)
            self.status.waiting_for = ()
        return missing

    def _in_time(self, name: str, waited: float) -> None:
        self.deadlines[name].heard(waited)

    def greet(self) -> None:
        """Wait until every neighbour has said where it stands, or is not coming back in time."""
        with self.changed:
            while True:
                absent = [name for name, edge in self.edges.items() if not edge.greeted and self._awaited(name)]
                self.status.waiting_for = tuple(absent)
                self._require_open()
                if not absent:
                    break
                self.changed.wait(_BEAT)
            self.status.waiting_for = ()

    def finish(self) -> None:
        """Stay until every neighbour has played its last round, or is gone: it may need what I have said."""
        with self.changed:
            for name, edge in self.edges.items():
                edge.tell_done()
                self._flush(name)
            while True:
                self._require_open()
                waiting = [name for name, edge in self.edges.items() if not edge.done and self._awaited(name)]
                self.status.waiting_for = tuple(waiting)
                if not waiting:
                    break
                self.changed.wait(_BEAT)

    def _awaited(self, name: str) -> bool:
        """Connected, or perhaps back in a moment."""
        fell = self._fell[name]
        return fell is None or self._clock() < self.deadlines[name].back(fell)

    def waits(self) -> dict[str, tuple[float, float, bool]]:
        """How long each neighbour usually takes, and whether it is overdue, to be remembered; "" is my own round."""
        known = {name: (one.waits, one.overdue) for name, one in self.deadlines.items()} | {"": (self.rounds, False)}
        return {name: (one.mean, one.spread, late) for name, (one, late) in known.items() if one.mean is not None}

    def recall(self, waits: Mapping[str, tuple[float, float, bool]], away: float) -> None:
        """Take up what was remembered, so many seconds ago."""
        for name, (mean, spread, late) in waits.items():
            one = self.rounds if not name else self.deadlines[name].waits if name in self.deadlines else Patience()
            one.mean, one.spread = mean, spread
            if name in self.deadlines:
                self.deadlines[name].overdue, self.deadlines[name].seen = late, True
                self.deadlines[name].away = away

    def wire(self) -> dict[str, int]:
        """What went over the wire since this process began, headers included."""
        counts = [edge.counts for edge in self.edges.values()]
        return {name: sum(getattr(one, name) for one in counts) for name in ("bytes_out", "bytes_in", "resent")}

    def _without(self, name: str, begun: float) -> None:
        fell = self._fell[name]
        self.deadlines[name].missed(begun, fell)
        one = self.status.neighbours[name]
        one.missed += 1
        if one.become("late" if fell is None else "gone", one.why):
            log.warning("round %d goes on without %s, which is %s%s", self._round, name, one.presence,
                        f": {one.why}" if one.why else "")  # fmt: skip
        self.edges[name].tell_behind(self._round)
        self._flush(name)

    def place(self, name: str, call: int) -> int:
        """The last number that was given out in the stream to a neighbour."""
        with self.changed:
            return self.edges[name].outgoing(call).last

    def chain(self, name: str, call: int) -> bytes:
        """The digest of all that was said in the stream to a neighbour."""
        with self.changed:
            return self.edges[name].outgoing(call).chain

    def heard_chain(self, name: str, call: int) -> bytes:
        """The digest of all that was taken of the stream of a neighbour."""
        with self.changed:
            return self.edges[name].incoming(call).chain

    def afresh(self, name: str, call: int) -> list[Letter] | None:
        """What the whole sum would take the place of, where it is to be said: because a neighbour knows something else,
        or because so much waits for it already; else None."""
        with self.changed:
            stream = self.edges[name].outgoing(call)
            return list(stream.letters.values()) if stream.afresh or stream.full else None

    def full(self, name: str, call: int) -> bool:
        """Whether a neighbour is so far behind that more would only wait here."""
        with self.changed:
            return self.edges[name].outgoing(call).full

    def arrived(self, name: str, call: int) -> list[Letter]:
        """The messages of a neighbour that can be taken, in order."""
        with self.changed:
            return list(self.edges[name].incoming(call).ready())

    def snapshot(self, name: str, call: int) -> Frame | None:
        """What a neighbour shows in this round."""
        with self.changed:
            return self.edges[name].snapshots.get((call, self._round))

    def passed(self, name: str, call: int) -> bool:
        """Whether a neighbour is in a later round already, so that no snapshot of this one will come."""
        with self.changed:
            return self.edges[name].passed(call, self._round)

    def go_without(self, name: str) -> None:
        """This round does not wait for a neighbour that cannot be reached."""
        with self.changed:
            self._without(name, self._clock())

    def take(self, name: str, call: int, sequence: int, chain: bytes) -> None:
        """Everything up to this number is used by the round that is under way."""
        with self.changed:
            self.edges[name].incoming(call).take(sequence, chain)

    def heard_now(self, name: str) -> None:
        """A message of this neighbour was used."""
        if self.status.neighbours[name].become("alive"):
            log.info("round %d: %s is here", self._round, name)

    def refuse(self, name: str, why: str) -> None:
        self.edges[name].counts.refused += 1
        self.status.last_error = f"{name}: {why}"
        log.error("refused from %s: %s", name, why)

    def behind(self) -> int:
        """The latest round in which a neighbour went on without me."""
        with self.changed:
            return max((edge.behind for edge in self.edges.values()), default=-1)

    # the end of a round

    def commit(self, done: Commit) -> None:
        """Put the round on disk; then say so to those whose messages are in it."""
        with self.changed:
            kept = {(name, call): stream.kept for name, edge in self.edges.items() for call, stream in edge.out.items()}
        self.store.commit(done.with_kept(kept))
        with self.changed:
            for name, edge in self.edges.items():
                edge.keep({call: number for (who, call), (number, _) in done.taken.items() if who == name})
                edge.forget_bodies()
                self._flush(name)
                counts, one = edge.counts, self.status.neighbours[name]
                for key, value in vars(counts).items():
                    setattr(one, key, value)
                one.waiting = sum(len(stream.letters) for stream in edge.out.values())
