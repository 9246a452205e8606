"""One edge without sockets, threads or a clock: two ends and a list of frames between them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.network.deadline import Deadlines, Patience
from covey.network.protocol import Edge, Incoming, Letter, Outgoing
from covey.network.wire import Frame, Kind, header, parse

RUN = b"r" * 16


def letter(sequence: int, round: int = 0) -> Letter:
    return Letter(sequence, Kind.SAID, round, b"%d" % sequence, things=1)


class Pair:
    """Two ends. `pump` carries what is queued, as the wires of the test would have it."""

    def __init__(self) -> None:
        self.a, self.b = Edge(RUN, 1), Edge(RUN, 2)
        self.now = 0.0

    def connect(self) -> None:
        self.a.connected(self.now)
        self.b.connected(self.now)

    def under_way(self, end: Edge) -> list[bytes]:
        due = [Frame(x.kind, RUN, x.round, call, x.sequence, x.things, x.body or b"") for call, x in end.due(self.now)]
        return [header(frame) + bytes(frame.body) for frame in end.frames() + due]

    def pump(self, lose: frozenset[int] = frozenset(), twice: frozenset[int] = frozenset()) -> None:
        count = 0
        while True:
            flying = [(to, blob) for end, to in ((self.a, self.b), (self.b, self.a)) for blob in self.under_way(end)]
            if not flying:
                return
            for to, blob in flying:
                for _ in range(0 if count in lose else 2 if count in twice else 1):
                    to.receive(parse(blob, RUN), self.now)
                count += 1


def test_a_message_is_forgotten_when_it_is_kept_and_not_before() -> None:
    pair = Pair()
    pair.connect()
    pair.a.post(0, letter(1))
    pair.pump()
    assert list(pair.a.out[0].letters) == [1] and pair.a.out[0].got == 1
    assert [one.body for one in pair.b.incoming(0).ready()] == [b"1"]
    pair.b.incoming(0).take(1, bytes(16))
    pair.pump()
    assert list(pair.a.out[0].letters) == [1]  # taken is not kept
    pair.b.keep({0: 1})
    pair.pump()
    assert not pair.a.out[0].letters and pair.a.out[0].kept == 1


def test_a_receiver_that_forgot_what_it_had_not_kept_gets_it_again() -> None:
    pair = Pair()
    pair.connect()
    pair.a.post(0, letter(1))
    pair.pump()
    pair.a.disconnected()
    pair.b = Edge(RUN, 3)  # a new process, with nothing on its disk
    pair.connect()
    pair.pump()
    assert [one.sequence for one in pair.b.incoming(0).ready()] == [1]


def test_a_snapshot_is_shown_until_seen_and_again_to_a_new_life() -> None:
    pair = Pair()
    pair.connect()
    pair.pump()
    pair.a.begin(4)
    pair.b.begin(4)
    pair.a.show(Frame(Kind.SNAPSHOT, RUN, 4, things=1, body=b"x"), pair.now)
    pair.a.frames()  # lost
    pair.now = 1.0
    pair.a.tick(pair.now)
    pair.pump()
    assert (0, 4) in pair.b.snapshots
    pair.now = 1.1
    pair.a.tick(pair.now)
    assert not [f for f in pair.a.frames() if f.kind is Kind.SNAPSHOT]  # seen
    pair.a.disconnected()
    pair.b = Edge(RUN, 3)
    pair.connect()
    pair.pump()
    assert (0, 4) in pair.b.snapshots


def test_snapshots_of_rounds_that_are_over_are_counted_and_dropped() -> None:
    edge = Edge(RUN, 1)
    edge.begin(5)
    edge.receive(Frame(Kind.SNAPSHOT, RUN, 4, things=1), 0.0)
    edge.receive(Frame(Kind.SNAPSHOT, RUN, 6, things=1), 0.0)
    assert edge.counts.stale == 1 and list(edge.snapshots) == [(0, 6)]


def test_who_is_in_a_later_round_and_has_said_all_is_not_waited_for() -> None:
    pair = Pair()
    pair.connect()
    pair.pump()
    pair.a.begin(2)
    pair.a.post(0, letter(1, round=2))
    pair.a.begin(3)
    pair.a.acknowledge([0])
    pair.b.receive(next(f for f in pair.a.frames() if f.kind is Kind.ACK), 0.0)
    assert not pair.b.passed(0, 2)  # one message is still to come
    pair.b.receive(Frame(Kind.SAID, RUN, 2, 0, 1, 1, b"1"), 0.0)
    assert pair.b.passed(0, 2) and not pair.b.passed(0, 3)


def test_a_receiver_takes_no_more_into_memory_than_the_window() -> None:
    stream = Incoming()
    assert [stream.put(letter(i)) for i in range(1, 12)].count(True) == 8
    out = Outgoing()
    for i in range(1, 12):
        out.add(letter(i))
    assert len(list(out.due(0.0, 1.0))) == 8 and out.full


@settings(max_examples=200, deadline=None)
@given(st.frozensets(st.integers(0, 60)), st.frozensets(st.integers(0, 60)), st.permutations(range(1, 9)))
def test_whatever_is_lost_or_doubled_all_arrive_once_and_in_order(
    lose: frozenset[int], twice: frozenset[int], _: list[int]
) -> None:
    pair = Pair()
    pair.connect()
    taken: list[int] = []
    for number in range(1, 9):
        pair.a.post(0, letter(number))
        pair.pump(lose, twice)
        for one in list(pair.b.incoming(0).ready()):
            pair.b.incoming(0).take(one.sequence, bytes(16))
            taken.append(one.sequence)
        pair.b.keep({0: len(taken)})
    for _ in range(30):  # time passes, and nothing is lost any more
        pair.now += 100.0
        pair.a.tick(pair.now)
        pair.b.tick(pair.now)
        pair.pump()
        for one in list(pair.b.incoming(0).ready()):
            pair.b.incoming(0).take(one.sequence, bytes(16))
            taken.append(one.sequence)
        pair.b.keep({0: len(taken)})
    assert taken == list(range(1, 9)) and not pair.a.out[0].letters


def test_the_estimate_is_that_of_tcp() -> None:
    patience = Patience()
    assert patience.limit is None
    patience.observe(2.0)
    assert (patience.mean, patience.spread, patience.limit) == (2.0, 1.0, 6.0)
    patience.observe(4.0)
    assert (patience.mean, patience.spread) == (2.25, 1.25)  # 2 + 2/8, 1 + (2 − 1)/4


def deadlines(steadfast: float = 10.0, **how: float) -> Deadlines:
    one = Deadlines(Patience(2.0, 0.25), Patience(1.0, 0.0), steadfast, **how)
    one.met = True
    return one


def test_before_it_was_heard_a_neighbour_is_waited_for() -> None:
    one = deadlines()
    assert one.until(begun=100.0, fell=None) is None
    one.arrived(101.0)
    assert one.until(begun=100.0, fell=None) == 110.0


@pytest.mark.parametrize(("steadfast", "until"), [(10.0, 110.0), (0.0, 103.0)])
def test_while_connected_it_has_its_usual_time_or_the_least(steadfast: float, until: float) -> None:
    one = deadlines(steadfast)
    one.seen = True
    assert one.until(begun=100.0, fell=None) == until


def test_after_its_connection_fell_it_has_its_usual_time_from_then() -> None:
    one = deadlines()
    one.seen = True
    assert one.until(begun=100.0, fell=90.0) == 93.0
    assert deadlines(grace=30.0).back(90.0) == 120.0


def test_who_is_overdue_is_not_waited_for_until_heard_and_then_longer() -> None:
    one = deadlines(steadfast=4.0)
    one.seen = True
    one.missed(begun=100.0, fell=None)
    assert one.until(begun=200.0, fell=None) == 200.0
    one.arrived(107.0)  # seven seconds would have been needed
    assert one.until(begun=200.0, fell=None) == 200.0 + one.waits.limit  # type: ignore[operator]
    assert one.waits.mean == 2.0 + 5.0 / 8


def test_a_stall_counts_at_most_twice_what_was_expected() -> None:
    one = deadlines(steadfast=4.0)
    one.heard(1000.0)
    assert one.waits.mean == 2.0 + (8.0 - 2.0) / 8
