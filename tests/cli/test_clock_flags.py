"""The clock from the command line: what the flags mean, what is reported, what is refused."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from cli.helpers import SMALL, metrics, refused, run
from covey.cli.clock import bits_per_second

FLAGS = ("--bandwidth", "100k", "--latency", 0.02, "--step-seconds", "0.01,0.03", "--message-seconds", 0.001)


def test_rates() -> None:
    given = {"100k": 1e5, "1M": 1e6, "2.5M": 2.5e6, "1G": 1e9, "64": 64.0, ".5k": 500.0}
    assert {text: bits_per_second(text) for text in given} == given


def test_a_run_by_the_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, plain = tmp_path / "one", tmp_path / "two", tmp_path / "plain"
    assert run("run", "dfedalt", *SMALL, "--rounds", 2, *FLAGS, "--target", 0.01, "--out", one) == 0
    said = capsys.readouterr().out
    assert "simulated time" in said and "until the slowest peer is ready" in said and "simulated to target" in said
    settings = tomllib.loads((one / "config.toml").read_text())["run"]["clock"]
    assert settings["step_seconds"] == [0.01] * 3 + [0.03] * 3 and settings["bandwidth"] == 1e5
    assert (settings["latency"], settings["message_seconds"], settings["uplink"]) == (0.02, 0.001, "shared")
    summary = json.loads((one / "summary.json").read_text())
    # 10 samples in batches of 5, head and body: four steps a round, and two copies of the body's bits to each side
    bits = summary["bits"]["encoded"]["broadcast"] / 6 / 2
    a_round = 4 * 0.03 + 2 * (0.001 + bits / 1e5) + 0.02
    assert summary["clock"]["seconds"] == pytest.approx(2 * a_round, rel=1e-12)
    assert summary["clock_to_target"]["mixed"] == pytest.approx(a_round, rel=1e-12)
    page = (one / "report.html").read_text()
    assert "simulated time, logarithmic" in page and "simulated energy" not in page

    assert run("run", "--config", one / "config.toml", "--out", two, "--quiet") == 0
    assert metrics(one) == metrics(two)
    assert run("run", "--resume", two, "--rounds", 3, "--quiet") == 0 and metrics(two)[:2] == metrics(one)
    assert "run.clock" in refused(capsys, ["run", "--resume", two, "--rounds", 4, "--bandwidth", "1M"])

    assert run("run", "dfedalt", *SMALL, "--rounds", 2, "--target", 0.01, "--out", plain, "--quiet") == 0
    assert [{k: v for k, v in line.items() if k != "clock"} for line in metrics(one)] == metrics(plain)


def test_a_comparison_by_the_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    options = (*SMALL, "--rounds", 1, *FLAGS, "--joules-per-bit", 1e-6, "--uplink", "broadcast", "--target", 0.01)
    assert run("compare", "local", "dfedavg", "fedavg", *options, "--out", out) == 0
    said = capsys.readouterr().out
    assert "simulated" in said and "to target" in said
    rows = json.loads((out / "comparison.json").read_text())
    local, gossip, _ = (row["clock"][0] for row in rows)
    assert local["joules"] == 0 < gossip["joules"] and local["seconds"] < gossip["seconds"]
    assert all(row["clock_to_target"][0]["target"] == 0.01 for row in rows)
    page = (out / "report.html").read_text()
    assert "simulated time, logarithmic" in page and "simulated energy, logarithmic" in page

    plain = tmp_path / "plain"
    assert run("run", "dfedavg", *SMALL, "--rounds", 1, "--out", plain, "--quiet") == 0
    assert run("report", plain, out, "--out", tmp_path / "page.html") == 0  # runs with a clock beside one without


WRONG = {
    "rate": (["--bandwidth", "fast"], "such as 100k, 2.5M or 1G"),
    "milli": (["--bandwidth", "100m"], "--bandwidth 100m is no number of bits per second"),
    "negative rate": (["--bandwidth=-5"], "--bandwidth -5 is no number"),
    "no rate": (["--bandwidth", "0"], "bandwidth=0) is out of range"),
    "latency": (["--latency", "-1"], "latency=-1) is out of range"),
    "steps": (["--step-seconds", "0.1,x"], "--step-seconds x is no number of seconds"),
    "groups": (["--step-seconds", "1,2,3,4,5,6,7"], "names 7 groups of 6 peers"),
    "uplink alone": (["--uplink", "dedicated"], "say also how fast it is"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, words = WRONG[case]
    assert words in refused(capsys, ["run", "local", *SMALL, "--out", tmp_path / "out", *given])
    assert list(tmp_path.iterdir()) == []
