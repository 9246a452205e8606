"""docs/network.md works as written: two machines are two folders here, and their addresses are of this machine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import covey
from covey.network.audit import verify
from network.consortium import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "network.md").read_text()


def printed(words: str) -> list[str]:
    """The command of the page that begins with these words; refused where the page does not have it."""
    [line] = [line for line in re.findall(r"^ {4}(covey .*)$", PAGE, re.MULTILINE) if line.startswith(words)]
    return [sys.executable, "-m", "covey.cli", *shlex.split(line)[1:]]


def run(folder: Path, words: str) -> str:
    done = subprocess.run(printed(words), cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(folder: Path, words: str) -> subprocess.Popen[str]:
    with (folder / "log.txt").open("a") as log:
        return subprocess.Popen(printed(words), cwd=folder, stdout=log, stderr=log, text=True,
                                env=os.environ | {"OMP_NUM_THREADS": "1"})  # fmt: skip


def wait(until: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.1)


def rounds(folder: Path) -> int:
    file = folder / "run" / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return len(lines)


@pytest.mark.soak
def test_two_machines_a_kill_and_a_rejoin(tmp_path: Path) -> None:
    north, east, authority = (tmp_path / name for name in ("north", "east", "third"))
    for folder in (north, east, authority):
        folder.mkdir()
    prints = {
        name: re.findall(rf"^{name} (sha256:\w+)$", run(folder, f"covey peer init {name}"), re.MULTILINE)[0]
        for name, folder in (("north", north), ("east", east))
    }
    for name, folder in (("north", north), ("east", east)):
        shutil.copy(folder / f"{name}.csr", authority)
    run(authority, "covey peer authority init")
    said = run(authority, "covey peer authority sign")
    assert all(one in said for one in prints.values())
    port = free_port()
    data = covey.data.load("digits", peers=2, partition="iid", seed=0, samples=40)
    for k, (name, folder) in enumerate((("north", north), ("east", east))):
        shutil.copy(authority / f"{name}.crt", folder)
        shutil.copy(authority / "authority" / "authority.crt", folder)
        arrays = [part.numpy() for side in (data.train, data.test) for part in side.of(k)]
        np.savez(folder / "samples.npz", **dict(zip(("x_train", "y_train", "x_test", "y_test"), arrays, strict=True)))
        text = re.findall(rf"^```toml {name}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
        text = text.replace("rounds = 200", "rounds = 3000")  # rounds alone take milliseconds, a start seconds
        text = text.replace("sha256:EAST", prints["east"]).replace("sha256:NORTH", prints["north"])
        text = text.replace("0.0.0.0:7001", f"127.0.0.1:{port}").replace("north.example.org:7001", f"127.0.0.1:{port}")
        (folder / "peer.toml").write_text(text.replace("127.0.0.1:9101", "127.0.0.1:0"))

    checking = [start(folder, "covey peer check") for folder in (north, east)]
    assert [one.wait(120) for one in checking] == [0, 0], (north / "log.txt").read_text()
    assert "All 1 neighbours are there and mean the same run" in (east / "log.txt").read_text()

    one, two = start(north, "covey peer run peer.toml"), start(east, "covey peer run peer.toml")
    try:
        wait(lambda: rounds(north) >= 5 and rounds(east) >= 5)
        two.kill()
        two.wait()
        wait(lambda: "without east gone" in (north / "log.txt").read_text())
        two = start(east, "covey peer run peer.toml")
        assert one.wait(180) == 0 and two.wait(180) == 0, (north / "log.txt").read_text()
    finally:
        for process in (one, two):
            process.kill()
            process.wait()
    for folder in (north, east):
        summary = json.loads((folder / "run" / "summary.json").read_text())
        assert summary["rounds"] == 3000
        assert (folder / "log.txt").read_text().count("Traceback") == 0
        assert verify(folder / "run" / "audit.jsonl").lines > 200
