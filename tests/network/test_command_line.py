"""covey peer …: identities, the check, a whole covey here, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

import covey
from cli.helpers import refused, run
from covey.cli import peer_tools
from covey.cli.covey_here import write
from covey.cli.peer import Check, Up
from covey.cli.site import Site, site_of
from covey.exchange import Compressed
from covey.network.settings import Settings, read_settings

SMALL = {"model": "softmax", "samples": 10, "rounds": 3}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of three peers, in a ring. A process has one generator of torch's, so these threads, which stand for
    processes, make their first models one after the other."""
    one_at_a_time, made = threading.Lock(), peer_tools.site_of

    def alone(settings: Settings, home: Path) -> Site:
        with one_at_a_time:
            return made(settings, home)

    monkeypatch.setattr(peer_tools, "site_of", alone)
    return write(Up(peers=3, **SMALL), tmp_path / "covey")


def test_identities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = tmp_path / "authority"
    assert run("peer", "authority", "init", "--folder", authority) == 0
    assert run("peer", "init", "north", "--folder", tmp_path) == 0
    said = capsys.readouterr().out
    shown = next(line for line in said.splitlines() if line.startswith("north sha256:"))
    assert run("peer", "authority", "sign", tmp_path / "north.csr", "--folder", authority) == 0
    assert shown.split()[1] in capsys.readouterr().out
    assert (tmp_path / "north.crt").exists()
    assert "is no certificate request" in refused(capsys, ["peer", "authority", "sign", authority / "authority.crt",
                                                           "--folder", authority])  # fmt: skip
    assert "an authority in" in refused(capsys, ["peer", "authority", "init", "--folder", authority])


def checks(files: list[Path], seconds: float) -> dict[str, int]:
    """Some sites check at the same time; their exit codes."""
    codes: dict[str, int] = {}

    def one(file: Path) -> None:
        codes[file.parent.name] = peer_tools.check(Check(file=file, seconds=seconds), Console(width=200))

    threads = [threading.Thread(target=one, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return codes


def test_a_check_where_all_is_well(here: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert checks(here, 30) == {"north": 0, "east": 0, "south": 0}
    said = capsys.readouterr().out
    assert said.count("All 2 neighbours are there and mean the same run") == 3
    assert said.count("The certificate is good until") == 3


def test_a_check_names_the_key_that_differs(here: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    here[1].write_text(here[1].read_text().replace("lr = 0.1", "lr = 0.2"))
    assert checks(here, 4) == {"north": 2, "east": 2, "south": 2}
    said = capsys.readouterr().out
    words = "The settings differ: algorithm.personal.lr is {} here and {} at {}; algorithm.shared.lr is"
    assert f"! north: {words.format(0.2, 0.1, 'north')}" in said and f"! east: {words.format(0.1, 0.2, 'east')}" in said


def test_a_check_alone(here: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("peer", "check", here[0], "--seconds", 1) == 2
    said = capsys.readouterr().out
    assert "! east: east cannot be reached at" in said and "nobody listens there" in said


WRONG = {
    "word": ("lr = 0.1", "lrr = 0.1", "There is no setting 'lrr' in [algorithm]; did you mean 'lr'?"),
    "auto": ('"dfedalt"', '"dfedalt"\ncompress = "sign"', "DFedAlt has gamma='auto', by which all peers must"),
    "type": ("lr = 0.1", 'lr = "fast"', "lr = 'fast' in [algorithm] is not what `covey run --lr` takes."),
    "method": ('"dfedalt"', '"dfedal"', "There is no algorithm 'dfedal'; did you mean 'dfedalt'?"),
    "graph": ('"ring"', '"rng"', "There is no graph 'rng'; did you mean 'ring'?"),
    "server": ('"ring"', '"server"', "dfedalt on server needs a server, and nobody is in the middle here; use gossip."),
    "alone": ('"ring"', '"isolated"', "On the graph isolated, east is no neighbour of north; take it out."),
    "entry": ('name = "softmax"', 'entry = "nowhere:model"', "The entry 'nowhere:model' cannot be imported"),
    "data": ('"data.npz"', '"dat.npz"', "There is no file "),
    "classes": ("classes = 10", "classes = 3", "classes=3 is given, but there is a label"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(case: str, here: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    old, new, words = WRONG[case]
    text = here[0].read_text()
    assert old in text
    here[0].write_text(text.replace(old, new))
    for command in ("check", "run"):
        assert words in refused(capsys, ["peer", command, here[0]])
    assert not (here[0].parent / "run").exists()


@pytest.mark.parametrize("gamma", ["0.3", '"0.3"', '"usual"'])
def test_a_consensus_step_that_is_the_same_everywhere(gamma: str, here: list[Path]) -> None:
    here[0].write_text(here[0].read_text().replace('"dfedalt"', f'"dfedalt"\ncompress = "sign"\ngamma = {gamma}'))
    method = site_of(read_settings(here[0]), here[0].parent).algorithm
    assert isinstance(method, covey.algorithms.DFedAlt) and isinstance(method.by, Compressed)
    assert method.by.gamma == ("usual" if "usual" in gamma else 0.3)


def test_who_does_not_run_has_no_status(here: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert "north is not running here" in refused(capsys, ["peer", "status", here[0]])


def test_an_entry_of_ones_own(here: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Data and model from Python beside the file, at every peer."""
    code = ("import numpy, torch\n"
            "def samples():\n"
            "    rng = numpy.random.default_rng(0)\n"
            "    x, y = rng.normal(size=(20, 4)).astype('float32'), rng.integers(3, size=20)\n"
            "    return x[:15], y[:15], x[15:], y[15:]\n"
            "def network():\n"
            "    return torch.nn.Sequential(torch.nn.Linear(4, 3))\n")  # fmt: skip
    for file in here:
        (file.parent / f"own_{file.parent.name}.py").write_text(code)
        text = file.read_text().replace('file = "data.npz"', f'entry = "own_{file.parent.name}:samples"')
        text = text.replace('name = "softmax"', f'entry = "own_{file.parent.name}:network"\npersonal = []')
        file.write_text(text.replace("classes = 10", "classes = 3"))
    assert set(checks(here, 30).values()) == {0}


def up(folder: Path, *words: object) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "covey.cli",
        "peer",
        "up",
        "--out",
        folder,
        "--model",
        "softmax",
        "--samples",
        10,
        *words,
    ]
    return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=os.environ | {"OMP_NUM_THREADS": "1"})  # fmt: skip


def test_a_covey_of_processes_learns_what_the_simulator_learns(tmp_path: Path) -> None:
    """Keys, TLS, processes and files: the scores of every peer, in float32, to the last bit."""
    home = tmp_path / "covey"
    process = up(home, "--peers", 3, "--rounds", 4, "--algorithm", "dfedavgm")
    said, _ = process.communicate(timeout=180)
    assert process.returncode == 0, said
    assert said.count("the chain holds") == 3

    data = covey.data.load("digits", peers=3, partition="pathological:5", seed=0, samples=10)
    task = covey.Task.from_module(covey.models.build("softmax", data, 0), data)
    local = covey.SGD(0.1, epochs=5, batch=10, momentum=0.9)
    method = covey.algorithms.DFedAvgM(local)
    torch.set_num_threads(1)
    simulated = covey.simulate(method, task, covey.graphs.ring(3), 4, 0, exact=True, chunk=1)
    for k, name in enumerate(("north", "east", "south")):
        scores = json.loads((home / name / "run" / "per_peer.json").read_text())
        for point in ("trained", "mixed"):
            assert scores[point]["loss"] == [simulated.scores[point].values["loss"][k]]


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_ctrl_c_stops_all_and_leaves_nothing_running(how: signal.Signals, tmp_path: Path) -> None:
    home = tmp_path / "covey"
    process = up(home, "--peers", 2, "--rounds", 100_000)
    files = [home / name / "run" / "metrics.jsonl" for name in ("north", "east")]
    end = time.monotonic() + 120
    while not all(file.exists() for file in files):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    process.send_signal(how)
    said, _ = process.communicate(timeout=60)
    assert (
        process.returncode == 130 and "stopped; each goes on with: covey peer run" in said and "Traceback" not in said
    )
    for name in ("north", "east"):
        assert not (home / name / "run" / "status.address").exists()
        log = (home / name / "log.txt").read_text()
        assert "Traceback" not in log and log.endswith("stopped.\n"), log
    assert not subprocess.run(["pgrep", "-f", str(home)], capture_output=True).stdout
