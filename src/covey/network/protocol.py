"""One edge, without sockets, threads or a clock: events in, frames out.

Each direction of an edge has a stream per call of a round. A stream is reliable: its messages are numbered from 1, sent
again until they have arrived, taken in order, and forgotten by the sender only when they are *kept*, which means that
they are in the receiver's rows on disk. So at every instant each message is either in its sender's outbox or in its
receiver's rows, and never in both or in neither:

    sender      kept ≤ got ≤ last        forgets up to kept, sends again what lies between got and last
    receiver    kept ≤ taken ≤ got       taken: used by the round that is under way, which may yet be undone by a crash

Snapshots have no number. They are sent again until they are seen, but only as long as their round lasts.

What each side may do is said in `docs/protocol.md`; what the messages mean is the link's affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from covey.network.deadline import Patience
from covey.network.wire import Frame, Hello, Kind, Standing, pack_ack, pack_hello, parse_ack, parse_hello

_WINDOW = 8  # messages of a stream that are not kept yet and may be sent: the memory that a slow receiver costs
_FIRST = 0.5  # seconds until something is sent again, before the first acknowledgement was timed
_LONGEST = 60.0
_PULSE = 0.5  # seconds between two reports of where everything stands, in case one was lost


@dataclass(frozen=True)
class Letter:
    """A message of a stream. `body` is None where it is what was said to everybody (see `Store.said`)."""

    sequence: int
    kind: Kind
    round: int
    body: bytes | memoryview | None = None
    chain: bytes = bytes(16)
    things: int = 0

    def with_body(self, body: bytes | memoryview | None) -> Letter:
        return replace(self, body=body)


@dataclass
class Outgoing:
    """A stream as its sender sees it."""

    last: int = 0
    got: int = 0
    kept: int = 0
    chain: bytes = bytes(16)  # digest of all that was said, where these are changes
    kept_chain: bytes | None = bytes(16)  # of what is kept; None: not known any more
    afresh: bool = False  # the receiver does not know what it should: say the whole sum next
    letters: dict[int, Letter] = field(default_factory=dict[int, Letter])  # not kept yet, ascending
    sent: dict[int, tuple[float, int]] = field(default_factory=dict[int, tuple[float, int]])  # when, how often

    @property
    def full(self) -> bool:
        """Whether the receiver has fallen so far behind that more would only wait on my disk."""
        return self.last - self.kept >= _WINDOW

    def due(self, now: float, patience: float) -> Iterator[Letter]:
        """What to send now: what was never sent, within the window, and what was sent so long ago that it is lost."""
        window = range(self.got + 1, min(self.last, self.kept + _WINDOW) + 1)
        for sequence in window:
            if sequence not in self.letters:
                continue
            when, often = self.sent.get(sequence, (0.0, 0))
            if not often or now >= when + min(_LONGEST, patience * 2 ** (often - 1)):
                self.sent[sequence] = (now, often + 1)
                yield self.letters[sequence]

    def heard(self, got: int, kept: int) -> float | None:
        """An acknowledgement; when the newest message that it covers was sent, if that was sent once (Karn's rule)."""
        when = None
        for sequence in range(self.got + 1, min(got, self.last) + 1):
            sent, often = self.sent.pop(sequence, (0.0, 0))
            when = sent if often == 1 else None
        self.got = max(self.got, min(got, self.last))
        for sequence in range(self.kept + 1, min(kept, self.last) + 1):
            letter = self.letters.pop(sequence, None)
            self.kept_chain = None if letter is None else letter.chain
        self.kept = max(self.kept, min(kept, self.last))
        return when

    def add(self, letter: Letter) -> None:
        """The next message. A whole sum takes the place of all that was not kept."""
        if letter.kind is Kind.SUM:
            self.letters.clear()
            self.kept, self.got, self.kept_chain = letter.sequence - 1, letter.sequence - 1, None
            self.afresh = False
        self.letters[letter.sequence] = letter
        self.last, self.chain = letter.sequence, letter.chain

    def compare(self, kept: int, chain: bytes) -> str | None:
        """A new life of the receiver, and what it has kept: what is wrong with that."""
        if kept > self.last:
            self.letters.clear()
            self.last = self.got = self.kept = kept
            self.afresh, self.kept_chain = True, None
            return "it has kept more than was ever sent from here: this peer has gone back to an older state"
        if kept < self.kept:
            self.afresh = not any(letter.kind is Kind.SUM for letter in self.letters.values())
            return f"it has gone back to an older state, {self.kept - kept} messages ago" if self.afresh else None
        mine = self.letters[kept].chain if kept in self.letters else self.kept_chain if kept == self.kept else None
        if mine is not None and mine != chain:
            self.afresh = True
            return "its public copy differs from what was sent"
        return None


@dataclass
class Incoming:
    """A stream as its receiver sees it."""

    got: int = 0
    taken: int = 0
    kept: int = 0
    floor: int = 0  # nothing before this number will come any more
    chain: bytes = bytes(16)
    kept_chain: bytes = bytes(16)
    letters: dict[int, Letter] = field(default_factory=dict[int, Letter])  # arrived, not taken

    def put(self, letter: Letter) -> bool:
        """A message has arrived; False: it was known already, or lies too far ahead."""
        if letter.kind is Kind.SUM and letter.sequence > self.got:
            self.skip(letter.sequence - 1)
        ahead = letter.sequence > max(self.kept, self.floor) + _WINDOW
        if letter.sequence <= self.got or letter.sequence in self.letters or ahead:
            return False
        self.letters[letter.sequence] = letter
        while self.got + 1 in self.letters:
            self.got += 1
        return True

    def ready(self) -> Iterator[Letter]:
        """What can be taken, in order."""
        for sequence in range(self.taken + 1, self.got + 1):
            yield self.letters[sequence]

    def skip(self, sequence: int) -> None:
        """Everything up to this number will not come, or need not."""
        if sequence > self.taken:
            self.take(sequence, self.chain)
            self.floor = sequence

    def take(self, sequence: int, chain: bytes) -> None:
        """Everything up to this number is used by the round that is under way."""
        self.chain = chain
        for number in range(self.taken + 1, sequence + 1):
            self.letters.pop(number, None)
        self.taken, self.got = max(self.taken, sequence), max(self.got, sequence)


@dataclass
class Counts:
    """What happened on an edge."""

    bytes_out: int = 0
    bytes_in: int = 0
    resent: int = 0
    twice: int = 0  # arrived although known
    stale: int = 0  # snapshots of rounds that are over
    refused: int = 0


class Edge:
    """My end of the edge to one neighbour.

    Whoever drives it calls `connected`, `disconnected`, `receive`, `tick`, and sends what `frames` and `due` hand out.
    """

    def __init__(self, run: bytes, life: int) -> None:
        self.run, self.life = run, life
        self.up, self.greeted = False, False
        self.out: dict[int, Outgoing] = {}
        self.into: dict[int, Incoming] = {}
        self.snapshots: dict[tuple[int, int], Frame] = {}  # (call, round) -> what it says
        self.shown: dict[
            int, tuple[Frame, float | None]
        ] = {}  # call -> my snapshot of this round; when sent, if unseen
        self.round = -1  # mine
        self.their_round = -1
        self.their_given: dict[int, int] = {}  # call -> the last number that it had given out before that round
        self.behind = -1  # the latest round in which it went on without me
        self.ahead = -1  # the latest round in which I went on without it
        self.done, self.mine_done = False, False  # who has played the last round
        self.counts = Counts()
        self.answers = Patience()  # from sending to acknowledgement
        self.their_life = 0
        self.news: list[str] = []  # for people: what a greeting has brought to light
        self._asked = 0.0
        self._queue: list[Frame] = []

    # what the connection tells

    def connected(self, now: float) -> None:
        self.up, self.greeted, self.done, self._asked = True, False, False, now
        self.their_round, self.their_given = -1, {}
        self._greet(answering=False)

    def disconnected(self) -> None:
        self.up = self.greeted = False
        self._queue.clear()

    def receive(self, frame: Frame, now: float) -> None:
        """A frame of the neighbour; what it changes can be read from the streams and snapshots."""
        self.counts.bytes_in += len(frame.body)
        match frame.kind:
            case Kind.HELLO:
                hello = parse_hello(frame.body)
                self._stands(frame.round, {standing.call: standing.given for standing in hello.standings})
                self._hello(hello, now)
            case Kind.ACK:
                self._stands(frame.round, {call: given for call, given, _, _ in parse_ack(frame.body)})
                for call, _, got, kept in parse_ack(frame.body):
                    when = self.outgoing(call).heard(got, kept)
                    if when is not None:
                        self.answers.observe(now - when)
            case Kind.BEHIND:
                self.behind = max(self.behind, frame.round)
            case Kind.DONE:
                self.done = True
            case Kind.SEEN:
                mine, _ = self.shown.get(frame.call, (frame, None))
                if mine.round == frame.round and mine is not frame:
                    self.shown[frame.call] = (mine, None)
            case Kind.SNAPSHOT:
                self._send(Frame(Kind.SEEN, self.run, frame.round, frame.call))
                if frame.round < self.round:
                    self.counts.stale += 1
                else:
                    self.snapshots[frame.call, frame.round] = frame
            case Kind.SAID | Kind.VERDICT | Kind.SUM:
                letter = Letter(frame.sequence, frame.kind, frame.round, frame.body, things=frame.things)
                if not self.incoming(frame.call).put(letter):
                    self.counts.twice += 1
                self.acknowledge([frame.call])
            case Kind.LOST:
                self.incoming(frame.call).skip(frame.sequence)

    def tick(self, now: float) -> None:
        """Time passes: what is not acknowledged is said again, lest it was lost."""
        for frame, when in list(self.shown.values()):
            if self.greeted and when is not None and now >= when + self.patience:
                self.show(frame, now)
        if not self.up or now < self._asked + (_PULSE if self.greeted else self.patience):
            return
        self._asked = now
        if not self.greeted:
            self._greet(answering=False)
            return
        self.acknowledge(self.out.keys() | self.into.keys())
        if self.mine_done:
            self.tell_done()

    # what the link asks

    def begin(self, round: int) -> None:
        """My round begins: snapshots of earlier ones are of no use."""
        self.round = round
        self.shown.clear()
        for key in [key for key in self.snapshots if key[1] < round]:
            del self.snapshots[key]

    def show(self, frame: Frame, now: float) -> None:
        """Say a snapshot, until it is seen or the round is over."""
        self.shown[frame.call] = (frame, now)
        self._send(frame)

    def post(self, call: int, letter: Letter) -> None:
        """A message for a stream; it is on disk already."""
        self.outgoing(call).add(letter)

    def tell_behind(self, round: int) -> None:
        """I go on without it; it hears so now, or when it comes back."""
        self.ahead = round
        self._send(Frame(Kind.BEHIND, self.run, round))

    def tell_done(self) -> None:
        self.mine_done = True
        self._send(Frame(Kind.DONE, self.run, self.round))

    def keep(self, taken: Mapping[int, int]) -> None:
        """A round is on disk, with everything up to these numbers."""
        for call, sequence in taken.items():
            self.incoming(call).kept, self.incoming(call).kept_chain = sequence, self.incoming(call).chain
        if taken:
            self.acknowledge(taken)

    def acknowledge(self, calls: Iterable[int]) -> None:
        """Say where these streams stand, and in which round I am."""
        ends = [(call, self.outgoing(call), self.incoming(call)) for call in sorted(calls)]
        rows = [(call, out.last, into.got, into.kept) for call, out, into in ends]
        self._send(Frame(Kind.ACK, self.run, self.round, body=pack_ack(rows)))

    def forget_bodies(self) -> None:
        """What is on disk need not lie in memory, once its round is over."""
        for stream in self.out.values():
            for sequence, letter in stream.letters.items():
                if letter.kind is Kind.SAID and letter.body is not None:
                    stream.letters[sequence] = letter.with_body(None)

    # what is to be sent

    def frames(self) -> list[Frame]:
        """What was queued since the last time."""
        queue, self._queue = self._queue, []
        return queue

    def due(self, now: float) -> list[tuple[int, Letter]]:
        """Messages of streams to be sent now, with their calls; their bodies may lie on disk."""
        if not self.greeted:
            return []
        found = [(call, letter) for call, stream in self.out.items() for letter in stream.due(now, self.patience)]
        self.counts.resent += sum(self.out[call].sent[letter.sequence][1] > 1 for call, letter in found)
        return found

    @property
    def patience(self) -> float:
        """Seconds without an answer after which something counts as lost."""
        return self.answers.limit or _FIRST

    def outgoing(self, call: int) -> Outgoing:
        return self.out.setdefault(call, Outgoing())

    def incoming(self, call: int) -> Incoming:
        return self.into.setdefault(call, Incoming())

    @property
    def silent(self) -> bool:
        """Whether it has played its last round, and all that it had to say is here."""
        return self.done and all(self.incoming(call).got >= given for call, given in self.their_given.items())

    def passed(self, call: int, round: int) -> bool:
        """Whether it is in a later round, and all that it had to say before is here."""
        return self.their_round > round and self.incoming(call).got >= self.their_given.get(call, 0)

    def _stands(self, round: int, given: Mapping[int, int]) -> None:
        """In which round it is, and what it had given out when it said so."""
        if round >= self.their_round:
            self.their_round = round
            self.their_given |= given

    def _hello(self, hello: Hello, now: float) -> None:
        new, self.their_life = hello.life != self.their_life, hello.life
        known = {standing.call: standing for standing in hello.standings}
        for call in self.out.keys() | known.keys():  # of what it does not name it has nothing
            standing, stream = known.get(call, Standing(call)), self.outgoing(call)
            wrong = stream.compare(standing.kept, standing.chain) if new else None
            if wrong is not None:
                self.news.append(wrong)
            stream.heard(standing.got, standing.kept)
            if not self.greeted:  # a new connection: what was under way on the old one is lost
                stream.got = min(standing.got, stream.last)
                stream.sent.clear()
        if not self.greeted:
            self.greeted = True
            for call, stream in self.out.items():
                if stream.kept > known.get(call, Standing(call)).kept:
                    self._send(Frame(Kind.LOST, self.run, self.round, call, stream.kept))
            for frame, _ in list(self.shown.values()):
                self.show(frame, now)
            if self.ahead >= 0:
                self.tell_behind(self.ahead)
            if self.mine_done:
                self.tell_done()
        if hello.answering != self.life:
            self._greet(answering=True)

    def _greet(self, answering: bool) -> None:
        calls = sorted(self.out.keys() | self.into.keys())
        standings = tuple(self._standing(call) for call in calls)
        hello = Hello(self.life, self.their_life if answering else 0, standings)
        self._queue.append(Frame(Kind.HELLO, self.run, self.round, body=pack_hello(hello)))

    def _standing(self, call: int) -> Standing:
        out, into = self.outgoing(call), self.incoming(call)
        return Standing(call, out.last, into.got, into.kept, into.kept_chain)

    def _send(self, frame: Frame) -> None:
        if self.greeted:
            self._queue.append(frame)
