"""Whatever is wrong with a command: exit code 2, one sentence that helps, and nothing written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.helpers import SMALL, refused, run

WRONG = {
    "algorithm": (["run", "dfedlt"], "There is no algorithm 'dfedlt'; did you mean 'dfedalt'?"),
    "algorithm of several": (["compare", "local", "fedvag"], "did you mean 'fedavg'?"),
    "no algorithm": (["compare"], "Name the methods"),
    "algorithm twice": (["compare", "local", "local"], "twice"),
    "data": (["run", "local", "--data", "digit"], "There is no data set 'digit'; did you mean 'digits'?"),
    "missing data": (["run", "local", "--data", "hapt"], "COVEY_DATA"),
    "missing file": (["run", "local", "--data", "mine.npz"], "There is no file mine.npz."),
    "model": (["run", "local", "--model", "mpl"], "There is no model 'mpl'; did you mean 'mlp'?"),
    "model for other data": (["run", "local", "--data", "synthetic", "--model", "cnn"], "takes pictures"),
    "graph": (["run", "dfedalt", "--graph", "rng"], "There is no graph 'rng'; did you mean 'ring'?"),
    "graph of a comparison": (["compare", "fedavg", "--server", "sever"], "did you mean 'server'?"),
    "graph's size": (["run", "dfedalt", "--graph", "torus:3x3"], "has 9 peers, not 6"),
    "graph's argument": (["run", "dfedalt", "--graph", "random_undirected"], "random_undirected:K"),
    "unsound graph": (["run", "dfedalt", "--graph", "random_directed:2"], "--allow-unsound"),
    "unsound in a comparison": (["compare", "local", "dfedalt", "--graph", "random_directed:2"], "--allow-unsound"),
    "partition": (["run", "local", "--partition", "dirichle:1"], "did you mean 'dirichlet'?"),
    "impossible partition": (["run", "local", "--partition", "pathological:11"], "the data have 10"),
    "natural without users": (["run", "local", "--partition", "natural"], "needs the user"),
    "too many peers": (["run", "local", "--peers", "5000"], "cannot be divided"),
    "negative peers": (["run", "local", "--peers", "-2"], "-2"),
    "samples": (["run", "local", "--samples", "4000"], "more than any peer has"),
    "personal prefix": (["run", "dfedalt", "--personal", "hed"], "hed"),
    "field": (["run", "dpsgd", "--with", "ordr=cta"], "has no field 'ordr' for --with; it has: by=…, order=…."),
    "field of nobody": (["compare", "local", "dpsgd", "--with", "beta=1"], "None of these methods"),
    "field's form": (["run", "dpsgd", "--with", "order"], "NAME=VALUE"),
    "field's choice": (["run", "dpsgd", "--with", "order=abc"], "atc, cta"),
    "field's number": (["run", "fedavgm", "--with", "beta=x"], "'x' is no float"),
    "field's range": (["run", "fedavgm", "--with", "beta=2"], "out of range"),
    "field's part": (["run", "dfedalt", "--with", "by=gosip"], "did you mean 'gossip'?"),
    "density": (["run", "dispfl", "--with", "density=0"], "DisPFL(density=0.0) is out of range"),
    "density above one": (["run", "dispfl", "--with", "density=1.5"], "use a share in (0, 1]"),
    "pull": (["run", "ditto", "--with", "lam=-0.5"], "the pull λ is 0 or more"),
    "fixed head of none": (["run", "fedbabu", "--personal", ","], "this task has none; name the head"),
    "none in a comparison": (["compare", "local", "fedbabu", "--personal", ","], "this task has none; name the head"),
    "second head of none": (["run", "fedrod", "--personal", ","], "does not name one submodule"),
    "second head in the middle": (["run", "fedrod", "--personal", "body"], "a row of scores that 'body' makes"),
    "one-step method": (["run", "d2", "--epochs", "2"], "--steps 1"),
    "two momenta": (["run", "qgdsgdm", "--momentum", "0.9"], "momentum=0"),
    "mask of push-sum": (["run", "dispfl", "--graph", "random_directed:2"], "rows sum to one"),
    "epidemic that stays": (["run", "epidemic", "--graph", "ring"], "drawn anew in every round"),
    "compressed epidemic": (["run", "epidemic", "--compress", "sign"], "Epidemic cannot be compressed"),
    "epidemic by push-sum": (["run", "epidemic", "--with", "by=pushsum"], "Epidemic averages what it hears"),
    "centre": (["run", "centralised", "--graph", "ring"], "take centre"),
    "fine-tuning": (["run", "fedbabu", "--finetune-lr", "-1"], "out of range"),
    "rate": (["run", "local", "--lr", "-1"], "out of range"),
    "steps and epochs": (["run", "local", "--steps", "1", "--epochs", "2"], "not both"),
    "nesterov": (["run", "dfedavg", "--nesterov"], "needs momentum"),
    "rounds": (["run", "local", "--rounds", "0"], "1 or more"),
    "checkpoints": (["run", "local", "--checkpoint-every", "0"], "checkpoint_every=0"),
    "gradient": (["run", "local", "--gradient-below", "0"], "use a number above 0"),
    "target": (["run", "local", "--target", "nan"], "target=nan"),
    "target in per cent": (["run", "local", "--target", "93"], "such as 0.93"),
    "server method among neighbours": (["run", "fedavg", "--graph", "ring"], "assumes a server"),
    "cta by push-sum": (
        ["run", "dpsgd", "--with", "order=cta", "--with", "by=pushsum", "--graph", "random_directed:2"],
        "use order='atc'",
    ),
    "rounds of a comparison": (["compare", "local", "--rounds", "0"], "1 or more"),
    "validation": (["run", "local", "--validation", "1.5"], "1.5"),
    "chunk": (["run", "local", "--chunk", "many"], "such as 8"),
    "threads": (["run", "local", "--threads", "0"], "1 or more"),
    "seeds": (["run", "local", "--seeds", "1,b"], "1,2,3"),
    "seed twice": (["run", "local", "--seeds", "1,1"], "twice"),
    "device": (["run", "local", "--device", "cud"], "cud"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COVEY_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (command, *given), words = WRONG[case]
    out = tmp_path / "out"
    said = refused(capsys, [command, *SMALL, "--out", out, *given])
    assert words in said
    assert list(tmp_path.iterdir()) == []


def test_regression_has_no_classes_to_balance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", x=np.ones((80, 3)), y=np.linspace(0, 1, 80))
    said = refused(capsys, ["run", "fedrod", *SMALL, "--data", "mine.npz", "--out", tmp_path / "out"])
    assert "the labels of these data are no classes" in said
    assert [one.name for one in tmp_path.iterdir()] == ["mine.npz"]


def test_folder_that_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    for command in (["run", "local"], ["compare", "local"]):
        assert "is not empty" in refused(capsys, [*command, *SMALL, "--out", tmp_path])
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "out"
    assert "Not a directory" in refused(capsys, ["run", "local", *SMALL, "--rounds", 1, "--out", out, "--quiet"])


def test_reports_of_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert "Name the folders" in refused(capsys, ["report", "--out", page])
    assert "no folder" in refused(capsys, ["report", tmp_path / "nowhere", "--out", page])
    assert "no finished run" in refused(capsys, ["report", tmp_path, "--out", page])
    assert not page.exists()


def test_configs_that_cannot_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.toml"
    for text, words in (
        ("", "was not written by"),
        ("[command", "cannot be read"),
        ('[command]\nname = "run"', "incomplete"),
        ('[command]\nname = "run"\nalgorithm = "local"\nlr = "x"', "unfit value: lr = 'x'"),
        ('[command]\nname = "run"\nalgorithm = "local"\nspeed = 1', "not known here: speed"),
        ('[command]\nname = "compare"\nalgorithms = ["local"]', "use that"),
    ):
        path.write_text(text)
        assert words in refused(capsys, ["run", "--config", path, "--out", tmp_path / "out"])
    assert not (tmp_path / "out").exists()


NO_COMMAND = {
    "nothing": ([], "Expected one of {run, compare, adapt, demo, report, theory, list, peer}; see covey --help."),
    "no such command": (["rum"], "There is no command 'rum'; did you mean 'run'?"),
    "no method": (["run"], "ALGORITHM"),
    "no such option": (["run", "local", "--rouns", "3"], "perhaps you meant --rounds; see covey run --help."),
    "no number": (["run", "local", "--rounds", "x"], "Error parsing --rounds"),
    "no value": (["run", "local", "--graph"], "Missing value for argument '--graph'"),
    "no such list": (["list", "algos"], "'algorithms'"),
}


@pytest.mark.parametrize("case", NO_COMMAND)
def test_words_that_are_no_command(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    given, words = NO_COMMAND[case]
    assert words in refused(capsys, given)


def test_warnings_take_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--rounds", 6, "--graph", "random_directed:1", "--peers", 40, "--data", "synthetic", "--samples", 10)
    assert run("run", "sgp", "--model", "softmax", *options, "--chunk", 40, "--quiet") == 0
    said = capsys.readouterr().err
    lines = [line.partition(":")[::2] for line in said.splitlines()]
    assert [kind for kind, _ in lines] == ["warning", "warning"]
    assert "all head" in lines[0][1] and "smallest push-sum mass" in lines[1][1]
