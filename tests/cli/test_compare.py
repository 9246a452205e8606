"""compare, report and list: what they print and write."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cli.helpers import SMALL, metrics, run
from covey import algorithms, data, models

METHODS = ("local", "fedavg", "dfedalt", "dfedpgp")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compare") / "runs"
    options = ("--rounds", 2, "--seeds", "1,2", "--directed", "random_directed:2:pull", "--target", 0.01)
    assert run("compare", *METHODS, *SMALL, *options, "--out", out, "--quiet") == 0
    return out


def table_of(text: str) -> dict[str, list[str]]:
    """Method -> the cells of its row."""
    rows: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().split("  ") if cell.strip()]
        if len(cells) > 3:
            rows[cells[0].removesuffix(" !")] = cells[1:]
    return rows


def test_table(comparison: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path,
               monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", "160")
    page = tmp_path / "all.html"
    assert run("report", comparison, "--out", page) == 0
    said = capsys.readouterr().out
    rows = table_of(said)
    found = json.loads((comparison / "comparison.json").read_text())
    assert [row["method"] for row in found] == ["Local", "FedAvg", "DFedAlt", "DFedPGP"]
    assert list(rows)[-len(found) :] == [row["method"] for row in found]
    assert [rows[row["method"]][0] for row in found] == ["isolated", "server:1.0", "ring", "random_directed:2:pull"]
    for row in found:
        mean, std = row["scores"]["mixed"]["last"].values()
        assert f"{100 * mean:.1f} ± {100 * std:.1f}" in " ".join(rows[row["method"]])
    best = max(found, key=lambda row: row["scores"]["mixed"]["last"]["mean"])
    assert rows[best["method"]][1].endswith("*")
    assert rows["Local"][-2] == "0" and rows["FedAvg"][-2].endswith("bit")
    assert "to 1 %" in said and "±" in said
    assert "DFedPGP !" in said
    text = page.read_text()
    assert all(f">{row['method']}<" in text for row in found) and "(D-01)" in text


def test_page_is_well_formed_and_asks_nothing_of_a_network(comparison: Path) -> None:
    text = (comparison / "report.html").read_text()
    tree = ET.fromstring(text.removeprefix("<!doctype html>\n"))
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}svg"))) == 3
    assert not [e for e in tree.iter() if e.tag.rpartition("}")[2] in ("script", "link", "img", "iframe")]
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "") and "url(" not in text.replace("url(#", "")
    assert "nan" not in text.lower().replace("chronological", "")


def test_repeat_of_a_comparison(comparison: Path, tmp_path: Path) -> None:
    assert run("compare", "--config", comparison / "config.toml", "--seeds", 2, "--out", tmp_path / "c", "--quiet") == 0
    for name in METHODS:
        assert metrics(tmp_path / "c" / name) == metrics(comparison / f"{name}-seed-2")


def test_resume_of_a_comparison(comparison: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from covey.link import InProcessLink

    begin, seen = InProcessLink.begin, 0

    def stop(self: InProcessLink, t: int) -> None:
        nonlocal seen
        seen += 1
        if seen == 4:
            raise KeyboardInterrupt
        begin(self, t)

    monkeypatch.setattr(InProcessLink, "begin", stop)
    out = tmp_path / "c"
    options = ("--rounds", 2, "--seeds", 1, "--out", out, "--quiet")
    assert run("compare", *METHODS, *SMALL, "--directed", "random_directed:2:pull", *options) == 130
    monkeypatch.undo()
    assert run("compare", "--resume", out, "--quiet") == 0
    for name in METHODS:
        now = [{k: v for k, v in one.items() if k != "target"} for one in metrics(out / name)]
        assert now == metrics(comparison / f"{name}-seed-1")


BASELINES = {  # name: graph, and what its paper has as a habit
    "centralised": ("centre", {"local": {"momentum": 0.0, "epochs": 2}}),
    "fedbabu": ("server:1.0", {"shared": {"momentum": 0.9, "lr": 0.1},
                               "finetune": {"lr": 0.001, "epochs": 5, "decay": 1.0}}),
    "ditto": ("server:1.0", {"lam": 0.75, "personal": "null"}),
    "fedrod": ("server:1.0", {"local": {"momentum": 0.9}}),
    "dfedsam": ("ring", {"local": {"sam": 0.05, "momentum": 0.9}}),
    "dispfl": ("ring", {"density": 0.5, "regrow": "gradient", "rounds": 2, "local": {"momentum": 0.0}}),
    "epidemic": ("epidemic:3", {"local": {"momentum": 0.0}}),
    "dsgdm": ("ring", {"local": {"momentum": 0.9}}),
    "qgdsgdm": ("ring", {"mu": 0.9, "local": {"momentum": 0.0}}),
    "gtdsgd": ("ring", {"local": {"momentum": 0.0, "epochs": 2}}),
    "d2": ("ring", {"lazy": True, "local": {"steps": 1}}),
    "extra": ("ring", {"local": {"steps": 1}}),
}  # fmt: skip


def test_every_baseline_in_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One command; each on a graph that suits it, with its paper's habits; two are about single steps, and say so."""
    out = tmp_path / "c"
    options = ("--rounds", 2, "--epochs", 2, "--decay", 0.9, "--evaluate-every", 2, "--out", out)
    assert run("compare", *BASELINES, *SMALL, *options) == 0
    said = capsys.readouterr()
    assert said.err.count("takes 1 step a round") == 2
    from covey.report import Record

    for name, (graph, fields) in BASELINES.items():
        record = Record.read(out / name)
        assert record.settings["graph"]["name"] == graph, name
        for field, value in fields.items():
            own = record.settings["algorithm"].get(field, "null")
            assert own == (own | value if isinstance(value, dict) else value), (name, field)
        assert record.summary["bits"]["formula"]["links"] > 0 or name == "centralised"
    assert {"global", "generic"} <= {
        point for name in ("ditto", "fedbabu", "fedrod") for point in Record.read(out / name).summary["accuracy"]
    }
    assert run("run", "--config", out / "dispfl" / "config.toml", "--out", tmp_path / "again", "--quiet") == 0
    assert metrics(tmp_path / "again") == metrics(out / "dispfl")


def test_a_phase_that_may_be_missing_is_there_when_one_of_its_flags_is(tmp_path: Path) -> None:
    from covey.report import Record

    for options, epochs, lr in ((("--head-epochs", 3), 3, 0.1), (("--head-lr", 0.02), 2, 0.02)):
        out = tmp_path / str(epochs)
        assert run("run", "ditto", *SMALL, "--rounds", 1, "--epochs", 2, *options, "--out", out, "--quiet") == 0
        found = Record.read(out).settings["algorithm"]
        assert (found["personal"]["epochs"], found["personal"]["lr"]) == (epochs, lr)
        assert (found["local"]["epochs"], found["local"]["lr"]) == (2, 0.1)


def test_with_goes_to_the_methods_that_have_the_field(tmp_path: Path) -> None:
    out = tmp_path / "c"
    options = ("--rounds", 1, "--with", "on=both", "--with", "by=gossip", "--rho", 0.2, "--out", out, "--quiet")
    assert run("compare", "local", "dfedavg", "dfedalt", "dfedsalt", *SMALL, *options) == 0
    from covey.report import Record

    found = {name: Record.read(out / name).settings["algorithm"] for name in ("dfedavg", "dfedalt", "dfedsalt")}
    assert found["dfedsalt"]["personal"]["sam"] == found["dfedsalt"]["shared"]["sam"] == 0.2
    assert found["dfedalt"]["shared"]["sam"] == 0 and found["dfedalt"]["shared"]["momentum"] == 0.9
    assert found["dfedavg"]["local"]["momentum"] == 0


@pytest.mark.parametrize("what", ["algorithms", "graphs", "data", "models"])
def test_list(what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run("list", what) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    wanted = {
        "algorithms": sorted(name.lower() for name in algorithms.__all__ if name != "Algorithm"),
        "data": list(data.NAMES),
        "models": list(models.NAMES),
    }
    assert names == wanted.get(what, names)
    if what == "models":
        assert run("list", what) == 0
        assert "269 722 parameters for 3×32×32 pictures" in capsys.readouterr().out
    if what == "graphs":
        assert "ring" in names and "random_directed:K[:WEIGHTS]" in names


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from covey.cli import demo

    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(demo, "PRESET", replace(demo.PRESET, rounds=2, chunk="20", threads=None))
    assert run("demo", "--out", tmp_path / "d") == 0
    said = capsys.readouterr().out
    assert set(table_of(said)) >= {"Local", "FedAvg", "FedRep", "DFedAvgM", "DFedAlt", "DFedSalt", "DePRL", "DFedPGP"}
    assert "Go on with" in said and (tmp_path / "d" / "report.html").exists()


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    said = capsys.readouterr().out
    assert all(f"• {name}" in said for name in ("run", "compare", "demo", "report", "list"))
    assert run("run", "--help") == 0
    said = capsys.readouterr().out
    flags = (
        "data peers partition graph rounds seed out model samples lr steps epochs batch momentum nesterov weight-decay "
        "clip decay sam rho head-lr head-epochs head-steps with evaluate-every target init validation device chunk "
        "exact allow-unsound seeds resume checkpoint-every quiet config theory gradient-below similarity"
    )
    assert [flag for flag in flags.split() if f"--{flag}" not in said] == []


def test_runs_of_one_method_are_told_apart(tmp_path: Path) -> None:
    from covey.report import Record, grouped

    for name, options in (("a", ["--lr", 0.1]), ("b", ["--graph", "full"]), ("c", ["--lr", 0.2])):
        assert run("run", "dfedalt", *SMALL, "--rounds", 1, *options, "--out", tmp_path / name, "--quiet") == 0
    found = grouped([Record.read(tmp_path / name) for name in "abc"])
    parent = tmp_path.name
    assert [group.label for group in found] == [
        f"DFedAlt · ring · {parent}/a",
        "DFedAlt · full",
        f"DFedAlt · ring · {parent}/c",
    ]


def test_runs_of_two_forms_of_a_network_are_no_repetitions_of_one(tmp_path: Path) -> None:
    from covey.report import Record, grouped

    small = ("--peers", 2, "--samples", 4, "--batch", 4, "--graph", "full", "--chunk", 1, "--rounds", 1, "--quiet")
    for model in ("resnet20", "resnet20_gn"):
        assert run("run", "dpsgd", *small, "--model", model, "--out", tmp_path / model) == 0
    assert len(grouped([Record.read(tmp_path / model) for model in ("resnet20", "resnet20_gn")])) == 2
