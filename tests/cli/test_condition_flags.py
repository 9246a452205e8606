"""--work and --absent: the conditions under which methods are compared."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from cli.helpers import SMALL, metrics, refused, run


def settings(folder: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads((folder / "config.toml").read_text())


def test_groups_of_peers_work_unequally(tmp_path: Path) -> None:
    base = ("run", "dfedavg", *SMALL, "--rounds", 2, "--quiet", "--step-seconds", 1)
    assert run(*base, "--work", "1,2,3", "--out", tmp_path / "a") == 0
    assert settings(tmp_path / "a")["run"]["work"] == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    clock = [line["clock"]["seconds"] for line in metrics(tmp_path / "a")]
    assert clock == [6.0, 12.0]  # 10 samples in batches of 5, three times
    assert run("run", "--config", tmp_path / "a" / "config.toml", "--out", tmp_path / "b", "--quiet") == 0
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")


def test_a_trace_of_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "work.json"
    path.write_text(json.dumps([[1] * 6, [2] * 6]))
    base = ("run", "local", *SMALL, "--rounds", 3, "--quiet", "--step-seconds", 1)
    assert run(*base, "--work", path, "--out", tmp_path / "a") == 0
    assert [line["clock"]["seconds"] for line in metrics(tmp_path / "a")] == [2.0, 6.0, 8.0]
    for text, words in (("[1, 2]", "numbers for 2 peers"), ("[1", "cannot be read"), ('{"a": 1}', "is no number")):
        path.write_text(text)
        assert words in refused(capsys, [*base, "--work", path, "--out", tmp_path / "b"])
    assert "no such file" in refused(capsys, [*base, "--work", tmp_path / "no.json", "--out", tmp_path / "b"])
    assert "is no factor" in refused(capsys, [*base, "--work", "1,x", "--out", tmp_path / "b"])
    assert not (tmp_path / "b").exists()


def test_peers_that_are_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ("run", "dfedavg", *SMALL, "--rounds", 4, "--quiet")
    assert run(*base, "--absent", "0.5", "--out", tmp_path / "a") == 0
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert summary["graph"] == "ring:absent:0.5" and settings(tmp_path / "a")["graph"]["name"] == "ring:absent:0.5"
    assert run("run", "--config", tmp_path / "a" / "config.toml", "--out", tmp_path / "b", "--quiet") == 0
    assert run(*base, "--graph", "ring:absent:0.5", "--out", tmp_path / "c") == 0
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b") == metrics(tmp_path / "c")
    assert "graph.name was" in refused(
        capsys, ["run", "--resume", tmp_path / "a", "--absent", "0.4", "--rounds", 5, "--quiet"]
    )


def test_a_trace_of_who_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([[1] * 6, [1, 0, 1, 1, 1, 1]]))
    base = ("compare", "local", "fedavg", "dfedavg", "centralised", *SMALL, "--rounds", 2, "--quiet")
    assert run(*base, "--absent", path, "--out", tmp_path / "a") == 0
    rows = json.loads((tmp_path / "a" / "comparison.json").read_text())
    assert [row["graph"] for row in rows] == [
        "isolated:absent:trace",
        "server:1.0:absent:trace",
        "ring:absent:trace",
        "centre",
    ]
    bits = [row["bits"][0]["formula"]["links"] for row in rows]
    assert bits[1] * 20 == bits[2] * 22 and bits[0] == 0  # 12 + 10 messages to and from the server, 12 + 8 on the ring
    for text, words in (
        ("[[1, 0]]", "numbers for 2 peers, but the run has 6"),
        ("[[1, 2, 1, 1, 1, 1]]", "use 1 and 0"),
    ):
        path.write_text(text)
        assert words in refused(capsys, [*base, "--absent", path, "--out", tmp_path / "b"])
    for text, words in (("much", "neither a probability"), ("1.5", "below 1"), (tmp_path / "no.json", "no such file")):
        assert words in refused(capsys, [*base, "--absent", text, "--out", tmp_path / "b"])
    few = ("run", "choco", *SMALL, "--compress", "sign", "--absent", "0.2", "--out", tmp_path / "b")
    assert "changes from round to round" in refused(capsys, few)
    assert not (tmp_path / "b").exists()
