"""What a saddle point refuses, and what it reports rather than keep silent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import covey
from covey import BadInput, Diverged, Task, compress, constraints, graphs
from covey.algorithms import SaddlePoint
from covey.cli import methods
from covey.cli.main import main, parse
from covey.constraints import box, pairwise, proximity, region

PLAIN = compress.Identity()
DATA = torch.arange(4.0, dtype=torch.float64)[:, None]


def task(data: torch.Tensor = DATA) -> Task:
    return Task.from_function(lambda p, own: (p["x"] - own).square().sum(), {"x": torch.zeros(1).double()}, data)


def black(cost: Any) -> Task:
    return Task.from_blackbox(cost, {"x": torch.zeros(1).double()}, DATA)


def method(**how: Any) -> SaddlePoint:
    return SaddlePoint(
        **{"lr": 0.1, "delta": 1.0, "radius": 5.0, "compressor": PLAIN, "constraint": proximity(1.0), **how}
    )


@pytest.mark.parametrize(("make", "words"), [
    (lambda: method(lr=0.0), "lr > 0"),
    (lambda: method(delta=100.0), "delta"),
    (lambda: method(steps=0), "steps"),
    (lambda: method(feedback="bandid"), "'bandit'"),
    (lambda: method(output="mean"), "'last'"),
    (lambda: method(radius=0.0), "radius above 0"),
    (lambda: method(radius=1e-4, feedback="bandit", zeta=1e-4), "smaller zeta"),
    (lambda: method(radius=box(0.0, (1.0, 0.1)), feedback="bandit", zeta=0.05), "smaller zeta"),
    (lambda: method(radius=region(lambda z: z), feedback="bandit"), "smaller zeta"),
    (lambda: proximity(-0.1), "cannot be met"),
    (lambda: proximity(math.nan), "cannot be met"),
    (lambda: proximity([[0.0, 1.0], [-1.0, 0.0]]), "symmetric"),
    (lambda: proximity([[0.0, -1.0], [-1.0, 0.0]]), r"c\[0\]\[1\]=-1"),
    (lambda: box(1.0, 1.0), "empty or flat"),
    (lambda: task().probed(0.0), "above 0"),
])  # fmt: skip
def test_configurations(make: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        if isinstance(made := make(), SaddlePoint):
            made.prepare(task())


@pytest.mark.parametrize(("how", "words"), [
    ({"constraint": proximity(torch.ones(3, 3))}, "3 peers, but there are 4"),
    ({"radius": box((0.0, 0.0), 1.0)}, "2 sides, but 1"),
    ({"compressor": compress.TopK(2)}, "keeps more"),
    ({"constraint": pairwise(lambda a, b: a - b)}, "one number"),
    ({"constraint": pairwise(lambda a, b: torch.zeros(()))}, "one number"),
])  # fmt: skip
def test_what_does_not_fit_the_task(how: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        covey.simulate(method(**how), task(), graphs.ring(4), rounds=2, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_black_box_wants_two_values_and_a_number() -> None:
    with pytest.raises(BadInput, match="bandit"):
        covey.simulate(method(), black(lambda p, own: 1.0), graphs.ring(4), rounds=1)
    with pytest.raises(BadInput, match="must return a number; it returned 'high'"):
        covey.simulate(method(feedback="bandit"), black(lambda p, own: "high"), graphs.ring(4), rounds=1)


@pytest.mark.parametrize("feedback", ["sample", "bandit"])
def test_a_cost_that_is_no_number_names_the_peer_and_the_round(feedback: Any) -> None:
    """Peer 2's cost is the logarithm of what becomes negative."""
    made = Task.from_function(lambda p, own: torch.log(0.55 - p["x"].sum()) * (own.sum() == 2) + p["x"].square().sum(),
                              {"x": torch.zeros(1).double()}, DATA)  # fmt: skip
    with pytest.raises(Diverged, match=r"peer 2 is nan in round [3-9]"):
        covey.simulate(method(feedback=feedback, lr=0.06), made, graphs.ring(4), rounds=30)
    if feedback == "bandit":
        hidden = black(lambda p, own: math.nan if own[0] == 3 else 0.0)
        with pytest.raises(Diverged, match="peer 3 is nan in round 1"):
            covey.simulate(method(feedback="bandit"), hidden, graphs.ring(4), rounds=3)


def test_a_pair_that_cannot_be_met_is_proved_so() -> None:
    """‖a − b‖² + 9 ≤ 0 never; in a unit box a distance of 3 never. Each is named with its bound."""
    for constraint, least in ((pairwise(lambda a, b: (a - b).square().sum() + 9), 9.0),
                              (pairwise(lambda a, b: 3 + a.sum() + b.sum()), 1.0)):  # fmt: skip
        with pytest.warns(UserWarning, match=r"No two points of X meet the constraint of \[0, 1\]"):
            run = covey.simulate(method(constraint=constraint, radius=box(-1.0, 1.0), lr=0.01), task(), graphs.ring(4),
                                 rounds=400, evaluate_every=400)  # fmt: skip
        summary = run.summary()
        assert summary["constraints"]["infeasible"] == [[0, 1], [0, 3], [1, 2], [2, 3]]
        assert summary["constraints"]["worst"] >= least
        assert any("break their constraint" in note for note in summary["notes"])


def test_a_pair_that_can_be_met_is_never_called_infeasible() -> None:
    """And a broken constraint is reported though nothing else is said."""
    run = covey.simulate(method(constraint=proximity(0.01), lr=0.01), task(), graphs.ring(4), rounds=50)
    for entry in run.history:
        assert "infeasible" not in entry["constraints"]
    assert run.summary()["constraints"]["violated"] > 0 and "g = " in run.summary()["notes"][0]
    kept = covey.simulate(method(constraint=proximity(99.0)), task(), graphs.ring(4), rounds=5)
    assert kept.summary()["notes"] == [] and kept.summary()["constraints"]["violated"] == 0


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "run",
        "saddlepoint",
        "--data",
        "digits",
        "--peers",
        "4",
        "--samples",
        "10",
        "--personal",
        "body",
        "--model",
        "mlp",
        "--rounds",
        "2",
        "--quiet",
    ]
    own = ["--compress", "sign", "--lr", "0.02", "--batch", "5", "--with", "radius=50", "--with", "delta=1"]
    bound = ["--with", "constraint=proximity:0.5", "--with", "output=last", "--steps", "3"]
    made = methods.build("saddlepoint", parse([*words, *own, *bound]))  # type: ignore[arg-type]
    assert made == SaddlePoint(0.02, 1.0, 50.0, compress.Sign(), proximity(0.5), steps=3, batch=5, output="last")
    assert main([*words, *own, *bound, "--out", str(tmp_path / "run")]) == 0
    assert '"constraints"' in (tmp_path / "run" / "summary.json").read_text()
    assert main([*words, *own]) == 2 and "--with constraint=…" in capsys.readouterr().err
    assert main([*words, *own, *bound, "--epochs", "2"]) == 2
    assert constraints.proximity(1) == proximity(1.0)
