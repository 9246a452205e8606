"""The bytes of frames, against bytes written by hand: the format may not change without its number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.network.wire import (
    HEADER,
    NUMBERED,
    SPEAKING,
    Frame,
    Hello,
    Kind,
    Refused,
    Standing,
    header,
    pack_ack,
    pack_hello,
    parse,
    parse_ack,
    parse_hello,
)

RUN = bytes(range(16))
SAID = bytes.fromhex(
    "636f7679 01 05 0200"  # covy, format 1, SAID, call 2
    "000102030405060708090a0b0c0d0e0f"
    "0700000000000000 0900000000000000 0300000000000000"  # round 7, sequence 9, 3 bytes
    "01000000 00000000"  # one thing
    "616263"
)


def test_a_frame_is_these_bytes() -> None:
    frame = Frame(Kind.SAID, RUN, round=7, call=2, sequence=9, things=1, body=b"abc")
    assert header(frame) + frame.body == SAID and HEADER == 56
    assert parse(SAID, RUN) == frame


def test_the_start_is_round_minus_one() -> None:
    assert header(Frame(Kind.BEHIND, RUN, round=-1))[24:32] == b"\xff" * 8
    assert parse(header(Frame(Kind.BEHIND, RUN, round=-1)), RUN).round == -1


def test_greetings_and_acknowledgements_are_these_bytes() -> None:
    hello = Hello(life=1, answering=2, standings=(Standing(call=3, given=4, got=6, kept=5, chain=b"c" * 16),))
    blob = bytes.fromhex("0100000000000000 0200000000000000 0300 0400000000000000 0600000000000000 0500000000000000")
    assert pack_hello(hello) == blob + b"c" * 16
    assert parse_hello(blob + b"c" * 16) == hello
    ack = bytes.fromhex("0300 0400000000000000 0600000000000000 0500000000000000")
    assert pack_ack([(3, 4, 6, 5)]) == ack and parse_ack(ack) == [(3, 4, 6, 5)]


@pytest.mark.parametrize(
    "wrong",
    [
        b"", SAID[:55], SAID[:-1], SAID + b"d",  # cut, or with more
        b"Covy" + SAID[4:],  # another protocol
        SAID[:4] + b"\2" + SAID[5:],  # another format
        SAID[:5] + b"\x63" + SAID[6:],  # another kind
        SAID[:8] + b"\1" + SAID[9:],  # another run
        SAID[:24] + b"\xfe" + b"\xff" * 7 + SAID[32:],  # round -2
        SAID[:32] + bytes(8) + SAID[40:],  # reliable, and without a number
        SAID[:48] + bytes(4) + SAID[52:],  # says something, and no things
        SAID[:52] + b"\1" + SAID[53:],  # what is not zero
        header(Frame(Kind.VERDICT, RUN, 1, 0, 1, body=b"\2")) + b"\2",  # neither used nor not
        header(Frame(Kind.DONE, RUN, 1, body=b"x")) + b"x",
    ],
)  # fmt: skip
def test_what_no_sender_wrote_is_refused(wrong: bytes) -> None:
    with pytest.raises(Refused):
        parse(wrong, RUN)


def test_a_receiver_cannot_keep_what_it_has_not_got_nor_name_a_stream_twice() -> None:
    for acks in ([(0, 9, 1, 2)], [(1, 9, 2, 1), (1, 9, 2, 1)]):
        with pytest.raises(Refused):
            parse_ack(pack_ack(acks))
        with pytest.raises(Refused):
            parse_hello(pack_hello(Hello(1, 0, tuple(Standing(*ack) for ack in acks))))


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    kind = draw(st.sampled_from(Kind))
    body = draw(st.binary(max_size=40))
    body = body[:1].ljust(1, b"\0") if kind is Kind.VERDICT else body
    body = b"" if kind in (Kind.BEHIND, Kind.DONE, Kind.SEEN, Kind.LOST) else body
    body = bytes([body[0] % 2]) if kind is Kind.VERDICT else body
    number = draw(st.integers(1, 2**64 - 1)) if kind in NUMBERED else 0
    things = draw(st.integers(1, 2**32 - 1)) if kind in SPEAKING else 0
    return Frame(kind, RUN, draw(st.integers(-1, 2**40 - 1)), draw(st.integers(0, 2**16 - 1)), number, things, body)


@settings(deadline=None)
@given(frames())
def test_every_frame_comes_back(frame: Frame) -> None:
    assert parse(header(frame) + frame.body, RUN) == frame


@settings(max_examples=500, deadline=None)
@given(frames(), st.data())
def test_a_frame_with_a_flipped_bit_is_another_frame_or_refused(frame: Frame, data: st.DataObject) -> None:
    """There is one way to write a frame: whatever is accepted packs to the bytes that came."""
    blob = bytearray(header(frame) + frame.body)
    place = data.draw(st.integers(0, 8 * len(blob) - 1))
    blob[place // 8] ^= 1 << place % 8
    try:
        other = parse(bytes(blob), RUN)
    except Refused:
        return
    assert header(other) + bytes(other.body) == bytes(blob) and other != frame


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused_or_understood_and_nothing_else(noise: bytes) -> None:
    for read in (parse_hello, parse_ack):
        try:
            found = read(noise)
        except Refused:
            continue
        assert (pack_hello if read is parse_hello else pack_ack)(found) == noise  # type: ignore[arg-type]
