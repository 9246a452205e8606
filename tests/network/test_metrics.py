"""What the status endpoint shows."""

from __future__ import annotations

import json
import math
import re
import urllib.error
import urllib.request

import pytest

from covey.errors import BadInput
from covey.network.metrics import Board, exposition
from covey.network.status import Neighbour, Status

# The grammar of Prometheus' text format: name{label="value",…} number
_SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (NaN|[+-]Inf|-?[0-9.e+-]+)')


def status() -> Status:
    made = Status("north", "cafe", round=7, rounds=20, doing="exchange", losses={"shared": 0.25, "personal": math.nan})
    made.neighbours["east"] = Neighbour("alive", 1000.0, bytes_out=12, bytes_in=34, missed=2)
    made.neighbours["south"] = Neighbour("gone", 2000.0, 'it "hung"\nup')
    return made


def test_every_line_is_of_the_format() -> None:
    seen: dict[str, str] = {}
    typed: set[str] = set()
    for line in exposition(status().as_dict() | {"certificate_ends": 3000.0}).splitlines():
        if line.startswith("# "):
            typed |= {line.split()[2]} if line.startswith("# TYPE") else set()
            continue
        found = _SAMPLE.fullmatch(line)
        assert found is not None and found[1] in typed, line
        seen[f"{found[1]}{{{found[2]}}}"] = found[3]
    own = 'peer="north",run="cafe"'
    assert seen[f"covey_round{{{own}}}"] == "7"
    assert (
        seen[f'covey_loss{{{own},phase="shared"}}'] == "0.25" and seen[f'covey_loss{{{own},phase="personal"}}'] == "NaN"
    )
    assert seen[f'covey_neighbour_sent_bytes_total{{{own},neighbour="east"}}'] == "12"
    assert seen[f'covey_neighbour_presence{{{own},neighbour="south",presence="gone"}}'] == "1.0"
    assert seen[f'covey_neighbour_presence{{{own},neighbour="south",presence="alive"}}'] == "0.0"
    assert seen[f"covey_certificate_ends_seconds{{{own}}}"] == "3000.0"


def test_served_until_closed() -> None:
    now = status()
    board = Board("127.0.0.1:0", now.as_dict)
    with urllib.request.urlopen(f"http://{board.address}/status") as answer:
        assert json.loads(answer.read())["neighbours"]["east"]["presence"] == "alive"
    now.round = 8
    with urllib.request.urlopen(f"http://{board.address}/metrics") as answer:
        assert b'covey_round{peer="north",run="cafe"} 8\n' in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{board.address}/else")
    with pytest.raises(BadInput, match=f"cannot be shown at {board.address}"):
        Board(board.address, now.as_dict)
    board.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://{board.address}/status", timeout=5)
