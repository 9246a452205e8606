"""A run leaves what it promises, can be repeated from its config.toml, and goes on after it was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cli.helpers import SMALL, metrics, refused, run
from covey.engine import checkpoint


def rows(folder: Path) -> torch.Tensor:
    (path,) = (folder / "checkpoint").glob("round-*.safetensors")
    return load_file(path)["rows"]


def test_folder_and_repetition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    options = (*SMALL[:-2], "--rounds", 3, "--partition", "pathological:3", "--momentum", 0.5, "--with", "order=cta")
    assert run("run", "dpsgd", *options, "--out", one) == 0
    said = capsys.readouterr().out
    assert "after exchange" in said and "worst tenth" in said and f"{one}: config.toml" in said
    assert {p.name for p in one.iterdir()} == {
        "config.toml", "metrics.jsonl", "summary.json", "per_peer.json", "checkpoint", "report.html",
    }  # fmt: skip
    config = tomllib.loads((one / "config.toml").read_text())
    assert config["algorithm"]["order"] == "cta" and config["algorithm"]["local"]["momentum"] == 0.5
    assert config["graph"]["name"] == "ring" and config["command"]["partition"] == "pathological:3"
    assert "pace" in config["run"]

    assert run("run", "--config", one / "config.toml", "--out", two, "--quiet") == 0
    assert capsys.readouterr().out == ""
    assert metrics(one) == metrics(two)
    assert torch.equal(rows(one), rows(two))

    assert run("run", "--config", one / "config.toml", "--rounds", 1, "--seed", 5, "--out", tmp_path / "three") == 0
    summary = json.loads((tmp_path / "three" / "summary.json").read_text())
    assert (summary["rounds"], summary["seed"], summary["algorithm"]) == (1, 5, "DPSGD")


def test_killed_and_resumed(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = ["dfedpgp", *SMALL, "--rounds", "60", "--graph", "random_directed:2", "--checkpoint-every", "2"]
    assert run("run", *options, "--out", whole, "--quiet") == 0
    # Slow rounds, so that the kill falls into the middle whatever the machine.
    slow = (
        "import sys, time\nfrom covey.cli.main import main\nfrom covey.link import InProcessLink\n"
        "begin = InProcessLink.begin\n"
        "def slower(self, t):\n    time.sleep(0.05)\n    begin(self, t)\n"
        "InProcessLink.begin = slower\nmain(sys.argv[1:])"
    )
    process = subprocess.Popen([sys.executable, "-c", slow, "run", *options, "--out", str(killed), "--quiet"])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (killed / "checkpoint" / "latest.json").exists():
        time.sleep(0.02)
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 2 <= checkpoint.load(killed / "checkpoint").round < 60 and not (killed / "summary.json").exists()

    assert run("run", "--resume", killed, "--quiet") == 0
    assert metrics(killed) == metrics(whole)
    assert torch.equal(rows(killed), rows(whole))
    per_peer = [json.loads((folder / "per_peer.json").read_text()) for folder in (killed, whole)]
    assert per_peer[0] == per_peer[1] and "mixed" in per_peer[0]

    assert run("run", "--resume", killed, "--quiet") == 0  # finished: nothing to do, nothing lost
    assert json.loads((killed / "per_peer.json").read_text()) == per_peer[1]
    assert run("run", "--resume", killed, "--rounds", 62, "--quiet") == 0
    assert metrics(killed)[:60] == metrics(whole) and len(metrics(killed)) == 62


def test_resume_with_other_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert run("run", "dfedalt", *SMALL, "--rounds", 2, "--out", out, "--quiet") == 0
    assert "lr" in refused(capsys, ["run", "--resume", out, "--lr", 0.3, "--rounds", 3])
    latest = json.loads((out / "checkpoint" / "latest.json").read_text())
    file = out / "checkpoint" / latest["file"]
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    assert "is damaged" in refused(capsys, ["run", "--resume", out, "--rounds", 3])
    assert "is missing" in refused(capsys, ["run", "--resume", tmp_path / "nowhere"])


def test_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    assert run("run", "dfedavg", *SMALL, "--rounds", 1, "--seeds", "1,2,3", "--out", out) == 0
    said = capsys.readouterr().out
    assert said.count("±") >= 3 and "DFedAvg" in said
    folders = [out / f"dfedavg-seed-{seed}" for seed in (1, 2, 3)]
    assert [json.loads((one / "summary.json").read_text())["seed"] for one in folders] == [1, 2, 3]
    assert metrics(folders[0]) != metrics(folders[1])
    (row,) = json.loads((out / "comparison.json").read_text())
    assert row["seeds"] == [1, 2, 3] and row["scores"]["mixed"]["last"]["std"] is not None

    assert run("run", "--config", folders[1] / "config.toml", "--out", tmp_path / "again", "--quiet") == 0
    assert metrics(tmp_path / "again") == metrics(folders[1])


def test_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from covey.link import InProcessLink

    begin = InProcessLink.begin

    def stop(self: InProcessLink, t: int) -> None:
        if t == 2:
            raise KeyboardInterrupt
        begin(self, t)

    monkeypatch.setattr(InProcessLink, "begin", stop)
    out = tmp_path / "run"
    assert run("run", "dfedalt", *SMALL, "--rounds", 4, "--out", out, "--quiet") == 130
    assert f"covey run --resume {out}" in capsys.readouterr().err
    assert run("run", "dfedalt", *SMALL, "--rounds", 4, "--quiet") == 130
    assert "stopped." in capsys.readouterr().err
    monkeypatch.undo()
    assert run("run", "--resume", out, "--quiet") == 0
    assert len(metrics(out)) == 4


def test_as_a_module_and_in_a_pipe(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "covey.cli", "run", "fedavg", *SMALL, "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert "fedavg  round 2/2" in done.stdout and "\x1b" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_next_characters_by_role(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer for each of some roles of a text under COVEY_DATA; nothing is said of how torch stacks an LSTM."""
    text = np.frombuffer(b"To be, or not to be, that is the question:\n" * 60, np.uint8)
    np.savez(
        tmp_path / "shakespeare_roles.npz", text=text, ends=np.array([860, 1720, 2580]), role=np.array(list("abc"))
    )
    monkeypatch.setenv("COVEY_DATA", str(tmp_path))
    options = ("--data", "shakespeare", "--partition", "natural", "--model", "char_lstm", "--peers", 2, "--steps", 1)
    assert run("run", "dfedavg", *options, "--rounds", 1, "--batch", 2, "--samples", 4, "--out", tmp_path / "run") == 0
    assert capsys.readouterr().err == ""
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["peers"], summary["data"], summary["partition"]) == (2, "shakespeare", "natural")
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["task"]["shared"] == 96 * 8 + 4 * 128 * (138 + 258) + 129 * 96 and config["task"]["personal"] == 0


def test_several_prefixes_stay_personal(tmp_path: Path) -> None:
    options = (*SMALL, "--model", "cnn_under", "--rounds", 1, "--personal", "body.3, head", "--quiet")
    assert run("run", "dfedalt", *options, "--out", tmp_path / "run") == 0
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["task"]["shared"] == 25 * 9 + 25 and config["task"]["personal"] == 52 * 25 * 9 + 52 + 52 * 4 * 10 + 10


def test_theory_and_similarity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = (*SMALL, "--rounds", 2, "--gradient-below", 100, "--similarity", "--target", 0.01)
    assert run("run", "deprl", *options, "--out", tmp_path / "run") == 0
    said = capsys.readouterr().out
    for words in ("gradient at the mean model", "M(k) of DePRL, as printed", "gradient below 100", "since round 1, a",
                  "mean cosine of two peers  ", "heads follow labels", "rounds to 1 %"):  # fmt: skip
        assert words in said, words
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["theory"]["gradient_below"]["round"] == 1 and summary["seconds_to_target"]["mixed"] > 0
    assert (tmp_path / "run" / "similarity.npz").exists()
    assert [set(entry["theory"]) for entry in metrics(tmp_path / "run")] == [
        {"M", "M_heads", "gradient", "objective", "shared", "heads"}
    ] * 2
    # It goes on, and ends where a run ends at which nobody looked so closely.
    assert run("run", "--resume", tmp_path / "run", "--rounds", 3, "--quiet") == 0
    plain = tmp_path / "plain"
    assert run("run", "deprl", *SMALL, "--rounds", 3, "--out", plain, "--quiet") == 0
    assert torch.equal(rows(tmp_path / "run"), rows(plain))
