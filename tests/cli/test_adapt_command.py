"""`covey adapt`: new peers on a run's representation."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from cli.helpers import SMALL, metrics, refused, run


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "learned"
    assert run("run", "dfedalt", *SMALL, "--rounds", 3, "--head-lr", 0.05, "--out", folder, "--quiet") == 0
    return folder


def test_new_peers(learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in learned.rglob("*") if path.is_file()}
    assert run("adapt", learned, "--peers", 8, "--rounds", 2, "--out", tmp_path / "a") == 0
    said = capsys.readouterr().out
    assert "heads on dfedalt's body" in said and "heads on an untrained body" in said and "from scratch" in said
    settings = tomllib.loads((tmp_path / "a" / "config.toml").read_text())
    assert settings["algorithm"]["of"] == f"{learned}: mean" and settings["algorithm"]["local"]["lr"] == 0.05
    assert settings["command"]["name"] == "adapt" and settings["task"]["peers"] == 8
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert (summary["data"], summary["peers"], summary["rounds"]) == ("digits, unseen", 8, 2)
    assert "heads on an untrained body" in (tmp_path / "a" / "report.html").read_text()
    assert before == {path: path.read_bytes() for path in learned.rglob("*") if path.is_file()}
    assert run("adapt", learned, "--peers", 8, "--rounds", 2, "--out", tmp_path / "b", "--quiet") == 0
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")
    one = ("adapt", learned, "--peers", 8, "--rounds", 2, "--of", 3, "--out", tmp_path / "c", "--quiet")
    assert run(*one) == 0 and metrics(tmp_path / "a") != metrics(tmp_path / "c")


def test_reports_put_the_three_side_by_side(learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a"
    assert run("adapt", learned, "--peers", 8, "--rounds", 1, "--out", out, "--quiet") == 0
    page = tmp_path / "page.html"
    assert run("report", out, out / "untrained", out / "scratch", "--out", page) == 0
    assert capsys.readouterr().out.count("Heads") == 2


def test_refused_and_nothing_written(learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    several, empty = tmp_path / "several", tmp_path / "empty"
    assert run("compare", "local", "dfedalt", *SMALL, "--rounds", 1, "--out", several, "--quiet") == 0
    empty.mkdir()
    for given, words in (
        ([empty], "There is no checkpoint in"),
        ([several], "There is no checkpoint in"),
        ([learned, "--of", "all"], "neither 'mean' nor the number"),
        ([learned, "--of", 6], "There is no peer 6"),
        ([learned, "--partition", "natural"], "do not say which user"),
        ([learned, "--peers", 4000], "cannot be divided among 4000 peers"),
        ([learned, "--epochs", "-1"], "out of range"),
    ):
        assert words in refused(capsys, ["adapt", *given, "--out", tmp_path / "out"])
    assert "is not empty" in refused(capsys, ["adapt", learned, "--peers", 8, "--out", several])
    assert not (tmp_path / "out").exists()
