"""Processes are killed and come back; the transport finds them again, whichever end dials."""

from __future__ import annotations

from pathlib import Path

import pytest

from network.consortium import Consortium, Site, free_port
from network.echo import LARGEST, start, storm


@pytest.mark.parametrize("dials", ["the killed one", "the survivor", "both"])
def test_killed_and_back(tmp_path: Path, dials: str) -> None:
    made, (at_a, at_b) = Consortium.of(tmp_path, "a", "b"), (f"127.0.0.1:{free_port()}" for _ in "ab")
    listens = None if dials == "the killed one" else at_b
    with Site(made, "a", {"b": listens}, at_a, LARGEST) as a:
        for turn in range(1, 4):
            process = start(made, "b", listens, {"a": None if dials == "the survivor" else at_a})
            try:
                a.wait(lambda turn=turn: a.events.count(("up", "b")) >= turn and "b" in a.up, 60)
                a.wait(lambda: a.say("b", b"x" * 3_000_000))
                a.wait_frames(turn)
                assert a.frames[-1] == ("b", b"back " + b"x" * 3_000_000)
            finally:
                process.kill()
                process.join()
            a.wait_down("b")
        assert not a.say("b", b"gone")


@pytest.mark.soak
def test_many_handshakes_at_once_crash_nothing(tmp_path: Path) -> None:
    """Two dozen peers dial one, again and again, while certificates are read for every handshake. In a process of its
    own, because what this looks for is gRPC falling over."""
    made = Consortium.of(tmp_path, "a", *(f"b{k}" for k in range(24)))
    process, connections = storm(made, 20.0)
    process.join(120)
    assert process.exitcode == 0 and connections.value > 200
