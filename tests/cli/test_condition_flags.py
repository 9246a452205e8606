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
