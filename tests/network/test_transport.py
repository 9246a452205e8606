"""The gRPC transport on loopback: who gets in, who does not, and what arrives."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest
from cryptography import x509

from covey.network import over_grpc
from covey.network.pieces import PIECE
from covey.network.transport import Part
from network.consortium import Consortium, Site, frames_of, free_port


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return Consortium.of(tmp_path_factory.mktemp("pki"), "a", "b", "c")


def test_only_one_end_can_be_reached(made: Consortium) -> None:
    """A site without incoming connections takes part: it dials, and both say what they have."""
    with Site(made, "a", {"b": None}) as a, Site(made, "b", {"a": a.address}, listen=None) as b:
        a.wait_up("b")
        b.wait_up("a")
        assert a.say("b", b"from ", b"a") and b.say("a", b"from b")
        a.wait_frames(1)
        b.wait_frames(1)
        assert a.frames == [("b", b"from b")] and b.frames == [("a", b"from a")]
        assert not a.say("c", b"nobody")
    assert a.up == b.up == set()


@pytest.mark.parametrize("turn", range(4))
def test_where_both_dial_at_once_one_stream_stays(made: Consortium, turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends settle on the same stream, neither dials again, and what is said then arrives."""
    monkeypatch.setattr("covey.network.over_grpc._YIELD_SECONDS", 0.0)  # no head start for a
    at = {name: f"127.0.0.1:{free_port()}" for name in "ab"}
    a, b = Site(made, "a", {"b": at["b"]}, at["a"]), Site(made, "b", {"a": at["a"]}, at["b"])
    one, two = (a, b) if turn % 2 else (b, a)
    with one, two:
        a.wait_up("b")
        b.wait_up("a")
        time.sleep(0.5)
        before = list(a.events), list(b.events)
        assert a.up == {"b"} and b.up == {"a"}
        assert a.transport._live["b"].preferred == b.transport._live["a"].preferred
        assert a.say("b", b"x") and b.say("a", b"y")
        a.wait_frames(1)
        b.wait_frames(1)
        time.sleep(0.5)
        assert (a.events, b.events) == before
        assert [text for _, text in a.reports + b.reports if text and "nobody listens" not in text] == []


def test_a_stream_dialled_by_the_second_gives_way_to_one_of_the_first(made: Consortium) -> None:
    with Site(made, "a", {"b": None}) as a, Site(made, "b", {"a": a.address}) as b:
        a.wait_up("b")
        port, listen = a.transport.port, b.address
        assert port
        with Site(made, "a", {"b": listen}, listen=None) as also_a:  # the same peer, now dialling
            also_a.wait_up("b")
            b.wait(lambda: [what for what, _ in b.events] == ["up", "down", "up"])
            assert also_a.say("b", b"new")
            b.wait_frames(1)


def test_a_stream_that_comes_late_does_not_replace_the_preferred_one(made: Consortium) -> None:
    """b has dialled, and before the answer is there, a stream that a dialled has come up."""

    async def never(*_: object) -> None:
        await asyncio.sleep(3600)

    with Site(made, "b", {"a": None}) as b, Site(made, "a", {"b": b.address}, None) as a:
        b.wait_up("a")
        talk = b.transport._talk("a", "b", never, never)
        assert asyncio.run_coroutine_threadsafe(talk, over_grpc._loop()).result(5) is False
        assert b.events == [("up", "a")]
        a.wait_up("b")
        assert a.say("b", b"x")
        b.wait_frames(1)


def test_order_and_sizes(made: Consortium) -> None:
    """Frames of every size around a piece's arrive whole and in order, in parts or not."""
    sizes = [1, 7, 8, 9, PIECE - 8, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE - 1, 5]
    with (
        Site(made, "a", {"b": None}, largest=4 * PIECE) as a,
        Site(made, "b", {"a": a.address}, largest=4 * PIECE, listen=None) as b,
    ):
        b.wait_up("a")
        said = [bytes([n % 251]) * size for n, size in enumerate(sizes)]
        for frame in said:
            third = len(frame) // 3
            assert b.say("a", frame[:third], memoryview(frame)[third:])
        a.wait_frames(len(sizes))
        assert list(frames_of(a, "b")) == said


def test_two_who_say_much_at_once_do_not_wait_for_each_other(made: Consortium) -> None:
    much = bytes(48 << 20)
    with (
        Site(made, "a", {"b": None}, largest=len(much)) as a,
        Site(made, "b", {"a": a.address}, largest=len(much), listen=None) as b,
    ):
        b.wait_up("a")
        a.wait_up("b")
        assert a.say("b", much) and b.say("a", much)
        a.wait_frames(1, seconds=60)
        b.wait_frames(1, seconds=60)
        assert a.frames[0][1] == b.frames[0][1] == much


def test_the_queue_for_a_slow_line_is_bounded(made: Consortium) -> None:
    """What is queued already costs nothing when it is said again; more than two frames are refused for now."""
    go_on = threading.Event()
    with (
        Site(made, "a", {"b": None}, largest=8 * PIECE) as a,
        Site(made, "b", {"a": a.address}, None, largest=8 * PIECE) as b,
    ):
        b.wait_up("a")
        connection = b.transport._live["a"]
        write = connection._write

        async def slow(piece: bytes) -> None:
            while not go_on.is_set():
                await asyncio.sleep(0.01)
            await write(piece)

        connection._write = slow
        frames = [(b"head %d" % n, bytes(8 * PIECE - 6)) for n in range(3)]
        assert [b.say("a", *frame) for frame in frames] == [True, True, False]
        assert [b.say("a", *frame) for frame in frames for _ in range(9)] == [True] * 18 + [False] * 9
        go_on.set()
        a.wait_frames(2)
        assert [frame[:6] for frame in frames_of(a, "b")] == [b"head 0", b"head 1"]
        b.wait(lambda: b.say("a", *frames[2]))
        a.wait_frames(3)


def test_an_error_of_who_takes_a_frame_ends_one_connection_only(made: Consortium) -> None:
    def fails(name: str, part: Part) -> None:
        raise RuntimeError("a mistake")

    with (
        Site(made, "a", {"b": None, "c": None}) as a,
        Site(made, "b", {"a": a.address}, None) as b,
        Site(made, "c", {"a": a.address}, None) as c,
    ):
        a.wait_up("b", "c")
        b.wait_up("a")
        c.wait_up("a")
        a.transport._deliver = fails
        assert b.say("a", b"x")
        a.wait_down("b")
        a.transport._deliver = a._deliver
        assert c.say("a", b"y")
        a.wait_frames(1)
        a.wait_up("b")  # it comes again
        b.wait_up("a")


def test_a_frame_larger_than_agreed_ends_the_connection(made: Consortium) -> None:
    with (
        Site(made, "a", {"b": None}, largest=1000) as a,
        Site(made, "b", {"a": a.address}, largest=PIECE, listen=None) as b,
    ):
        b.wait_up("a")
        assert b.say("a", bytes(1001))
        a.wait(lambda: ("down", "b") in a.events)
        assert a.frames == []
        a.wait_up("b")  # it may come again, and is heard as long as it behaves
        b.wait_up("a")
        b.wait(lambda: b.say("a", b"small"))
        a.wait_frames(1)


def test_certificates_rotate_without_stopping(tmp_path: Path) -> None:
    """New files are used by the next handshake, at the end that answers and at the end that dials."""
    made = Consortium.of(tmp_path, "a", "b")
    with Site(made, "a", {"b": None}) as a, Site(made, "b", {"a": a.address}, listen=None) as b:
        b.wait_up("a")
        serial = _serial(a.address, made, "b")
        assert a.transport._fetch() is None  # nothing new: gRPC keeps what it has
        made.admit("a", days=300)
        made.admit("b", days=300)
        a.say("b", b"still up")
        b.wait_frames(1)
        assert _serial(a.address, made, "b") != serial
        assert a.transport._fetch() is None
        over_grpc._loop().call_soon_threadsafe(a.transport._live["b"].end, "test")
        b.wait(lambda: b.events == [("up", "a"), ("down", "a"), ("up", "a")])
        assert all(text is None for _, text in a.reports + b.reports)


def _serial(address: str, made: Consortium, name: str) -> int:
    """Of the certificate that a TLS client sees at an address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(made.believed)
    context.load_cert_chain(made.folder / f"{name}.crt", made.folder / f"{name}.key")
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as line, context.wrap_socket(line) as talk:
        der = talk.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number
