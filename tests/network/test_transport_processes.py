"""Processes are killed and come back; the transport finds them again, whichever end dials."""

from __future__ import annotations

from pathlib import Path

import pytest

from network.consortium import Consortium, Site, free_port
from network.echo import LARGEST, start


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
