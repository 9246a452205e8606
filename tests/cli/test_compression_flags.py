"""Compression from the command line: what the flags mean, what is reported, what is refused."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from cli.helpers import SMALL, metrics, refused, run
from covey import compress, trigger
from covey.algorithms import CHOCO, DFedAlt, DFedPGP, SQuARM
from covey.cli import methods
from covey.cli.compression import compressor_of, gamma_of, trigger_of
from covey.cli.settings import Run
from covey.compress import Compressor
from covey.exchange import Compressed, CompressedPush, ErrorFeedback
from covey.trigger import Trigger

COMPRESSORS: dict[str, Compressor] = {
    "identity": compress.Identity(), "sign": compress.Sign(), "topk:100": compress.TopK(100),
    "TopK:0.01": compress.TopK(fraction=0.01), "randk:5": compress.RandK(5), "signtopk:0.01": compress.SignTopK(0.01),
    "qsgd:15": compress.QSGD(15), "qtopk:0.01": compress.QTopK(0.01), "qtopk:8:3": compress.QTopK(8, levels=3),
    "whole:sign": compress.Whole(compress.Sign()), "whole:qtopk:0.1:3": compress.Whole(compress.QTopK(0.1, levels=3)),
}  # fmt: skip
TRIGGERS: dict[str, Trigger] = {
    "always": trigger.always, "never": trigger.never, "every:3": trigger.every(3), "norm:2.5": trigger.norm(2.5),
    "norm:2.5:tensor": trigger.norm(2.5, per="tensor"), "norm:2.5:cap": trigger.norm(2.5, cap=True),
    "norm:1:0.25:20": trigger.norm(trigger.piecewise(1, 0.25, 20)),
    "norm:1:0.25:20:100:cap:tensor": trigger.norm(trigger.piecewise(1, 0.25, 20, 100), cap=True, per="tensor"),
    "power:3:0.5": trigger.norm(trigger.power(3, 0.5)),
}  # fmt: skip


@pytest.mark.parametrize("text", COMPRESSORS)
def test_compressors(text: str) -> None:
    assert compressor_of(text) == COMPRESSORS[text]


@pytest.mark.parametrize("text", TRIGGERS)
def test_triggers(text: str) -> None:
    assert trigger_of(text) == TRIGGERS[text]


def test_gammas() -> None:
    assert [gamma_of(text) for text in (None, "auto", "usual", "theory", "0.3")] == [
        "auto", "auto", "usual", "theory", 0.3]  # fmt: skip


def built(algorithm: str, **given: object) -> object:
    return methods.build(algorithm, Run(algorithm=algorithm, **given))  # type: ignore[arg-type]


def test_one_exchange_for_every_method() -> None:
    """The flags put a compressed exchange into the place of gossip or push-sum, whatever the method."""
    top, quiet = compress.SignTopK(0.01), trigger.norm(2.5)
    alt = built("dfedalt", compress="signtopk:0.01", trigger="norm:2.5")
    assert isinstance(alt, DFedAlt) and alt.by == Compressed(top, "auto", quiet, known=True)
    pgp = built("dfedpgp", compress="signtopk:0.01", gamma="0.3")
    assert isinstance(pgp, DFedPGP) and pgp.by == CompressedPush(top, 0.3, known=True)
    squarm = built("squarm", compress="signtopk:0.01", trigger="norm:2.5", gamma="usual", lr=0.2)
    assert isinstance(squarm, SQuARM) and squarm.by == Compressed(top, "usual", quiet) and squarm.beta == 0.9
    choco = built("choco", compress="sign", extra=("order=pre",))
    assert isinstance(choco, CHOCO) and choco.by == Compressed(compress.Sign(), order="pre")
    other = built("deprl", compress="sign", feedback=True, gamma="0.1")
    assert getattr(other, "by") == ErrorFeedback(compress.Sign(), 0.1)  # noqa: B009
    apart = built("dfedavg", compress="sign", init="all")
    assert getattr(apart, "by") == Compressed(compress.Sign())  # noqa: B009  (a first model that nobody else knows)


def test_a_compressed_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """γ and the share of messages said stand at every look, as do the bits; the run can be repeated and resumed."""
    one, two, plain = tmp_path / "one", tmp_path / "two", tmp_path / "plain"
    options = ("dfedalt", *SMALL, "--rounds", 4, "--target", 0.01)
    flags = ("--compress", "signtopk:0.05", "--trigger", "norm:25", "--gamma", "0.2")
    assert run("run", *options, *flags, "--out", one) == 0
    settings = tomllib.loads((one / "config.toml").read_text())
    assert settings["command"]["compress"] == "signtopk:0.05" and settings["command"]["trigger"] == "norm:25"
    lines = metrics(one)
    assert [line["gamma"] for line in lines] == [pytest.approx(0.2)] * 4
    spoke = [line["spoke"] for line in lines]
    assert spoke[0] == 1.0 and 0.25 <= spoke[-1] < 1.0  # the first round is forced
    summary = json.loads((one / "summary.json").read_text())
    assert (summary["gamma"], summary["spoke"]) == (lines[-1]["gamma"], spoke[-1])

    assert run("run", "--config", one / "config.toml", "--out", two, "--quiet") == 0
    assert metrics(two) == lines
    assert run("run", "--resume", two, "--rounds", 5, "--quiet") == 0 and metrics(two)[:4] == lines
    assert run("run", *options, "--out", plain, "--quiet") == 0
    whole = json.loads((plain / "summary.json").read_text())
    assert "gamma" not in whole and "spoke" not in whole
    assert whole["bits"]["formula"]["links"] > 20 * summary["bits"]["formula"]["links"]
    assert whole["bits"]["encoded"]["links"] > 20 * summary["bits"]["encoded"]["links"]


def test_a_comparison_compresses_whom_it_can(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    assert run("compare", "local", "dfedavg", "fedavg", *SMALL, "--rounds", 1, "--compress", "sign", "--gamma", "0.3",
               "--out", out, "--quiet") == 0  # fmt: skip
    bits = {name: json.loads((out / name / "summary.json").read_text())["bits"]["formula"]["links"]
            for name in ("local", "dfedavg", "fedavg")}  # fmt: skip
    assert bits["local"] == 0 and 0 < bits["dfedavg"] < bits["fedavg"]


ALT, SQUARM = ["run", "dfedalt"], ["run", "squarm"]
WRONG = {
    "no such compressor": ([*ALT, "--compress", "topkk:3"], "There is no compressor 'topkk'; did you mean 'topk'?"),
    "k of 0": ([*ALT, "--compress", "topk:0"], "TopK(k=0) is out of range; k is a whole number of 1 or more."),
    "k above d": ([*ALT, "--compress", "signtopk:1000000"], "keeps more than the"),
    "negative k": ([*ALT, "--compress", "topk:-3"], "out of range"),
    "share of 1": ([*ALT, "--compress", "topk:1.0"], "use a share above 0 and below 1"),
    "share above 1": ([*ALT, "--compress", "randk:1.5"], "use a share above 0 and below 1"),
    "no k": ([*ALT, "--compress", "topk"], "TopK takes k or fraction, one of them"),
    "k that is no number": ([*ALT, "--compress", "topk:few"], "--compress topk:few: 'few' is no number."),
    "no levels": ([*ALT, "--compress", "qsgd:0"], "QSGD(levels=0) is out of range"),
    "half levels": ([*ALT, "--compress", "qsgd:1.5"], "QSGD(levels=1.5) is out of range"),
    "levels left out": ([*ALT, "--compress", "qsgd"], "should be written QSGD:LEVELS"),
    "too many numbers": ([*ALT, "--compress", "sign:3"], "takes 0 numbers at most"),
    "whole of nothing": ([*ALT, "--compress", "whole"], "as in whole:sign"),
    "negative threshold": ([*ALT, "--compress", "sign", "--trigger", "norm:-1"], "trigger.norm(-1.0) is out of range"),
    "no threshold": ([*ALT, "--compress", "sign", "--trigger", "norm"], "should be written always, never, every:H"),
    "no such trigger": ([*ALT, "--compress", "sign", "--trigger", "nrm:1"], "There is no trigger 'nrm'"),
    "threshold that is no number": ([*ALT, "--compress", "sign", "--trigger", "norm:big"], "'big' is no number"),
    "every 0": ([*ALT, "--compress", "sign", "--trigger", "every:0"], "out of range"),
    "every half": ([*ALT, "--compress", "sign", "--trigger", "every:1.5"], "a whole number of rounds"),
    "falling threshold": ([*ALT, "--compress", "sign", "--trigger", "norm:1:-1:5"], "start and add are finite"),
    "a cap on nothing": ([*ALT, "--compress", "sign", "--trigger", "every:2:cap"], "only a threshold can be capped"),
    "tensors of the whole": ([*ALT, "--compress", "topk:5", "--trigger", "norm:1:tensor"], "cannot look per tensor"),
    "γ of 0": ([*ALT, "--compress", "sign", "--gamma", "0"], "gamma=0.0 is out of range"),
    "negative γ": ([*ALT, "--compress", "sign", "--gamma", "-0.5"], "gamma=-0.5 is out of range"),
    "γ above 1": ([*ALT, "--compress", "sign", "--gamma", "1.5"], "gamma=1.5 is out of range"),
    "γ that is no number": ([*ALT, "--compress", "sign", "--gamma", "big"], "neither a number nor auto, usual or"),
    "trigger alone": ([*ALT, "--trigger", "norm:1"], "--trigger belongs to a compressed exchange"),
    "γ alone": ([*ALT, "--gamma", "0.3"], "--gamma belongs to a compressed exchange"),
    "feedback alone": ([*ALT, "--feedback"], "--feedback belongs to a compressed exchange"),
    "squarm without a compressor": ([*SQUARM], "SQuARM compresses what it says; name how"),
    "squarm with feedback": ([*SQUARM, "--compress", "sign", "--feedback"], "keeps public copies"),
    "trigger of choco": (["run", "choco", "--compress", "sign", "--trigger", "norm:1"], "CHOCO has no trigger"),
    "two sources of momentum": ([*SQUARM, "--compress", "sign", "--momentum", "0.5"], "give its SGD momentum=0"),
    "copies on a graph that changes": ([*ALT, "--compress", "sign", "--graph", "random_undirected:2"], "never change"),
    "copies on a directed graph": ([*ALT, "--compress", "sign", "--graph", "random_directed:2:fixed"], "symmetric"),
    "push on a graph that changes": (
        ["run", "dfedpgp", "--compress", "sign", "--graph", "random_directed:2"], "never change"),
    "theory on a directed graph": (
        ["run", "dfedpgp", "--compress", "sign", "--gamma", "theory", "--graph", "random_directed:2:fixed"],
        "gamma='theory' is for symmetric weights"),
    "feedback and a trigger": (
        [*ALT, "--compress", "sign", "--feedback", "--gamma", "0.1", "--trigger", "norm:1"], "without a trigger"),
    "feedback by itself": ([*ALT, "--compress", "sign", "--feedback"], "wants a number for --gamma"),
    "nobody to speak to": (["run", "local", "--compress", "sign"], "Local cannot be compressed"),
    "a server": (["run", "fedavg", "--compress", "sign"], "FedAvg cannot be compressed"),
    "nobody connected": ([*ALT, "--compress", "sign", "--graph", "isolated"], "is not connected"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (command, name, *given), words = WRONG[case]
    said = refused(capsys, [command, name, *SMALL, "--out", tmp_path / "out", *given])
    assert words in said
    assert list(tmp_path.iterdir()) == []
