"""What cannot work is refused before anything is written, in one sentence that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import covey
from covey import SGD, BadInput, DamagedCheckpoint, Diverged, Task, UnsoundGraph, algorithms, graphs
from covey.peers import Peers


def task(personal: str | tuple[str, ...] = ()) -> Task:
    data = covey.data.load("digits", peers=4, partition="iid", samples=10, seed=0)
    torch.manual_seed(0)
    module = nn.Sequential()
    module.add_module("body", nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU()))
    module.add_module("head", nn.Linear(8, 10))
    return Task.from_module(module, data, personal=personal)


def simulate(**how: object) -> covey.Run:
    how = {"algorithm": algorithms.DFedAvg(SGD(0.1)), "task": task(), "graph": graphs.ring(4), "rounds": 3, **how}
    return covey.simulate(**how)


def small(x: float = 0.0, y: int = 0) -> Task:
    inputs, labels = torch.ones(4, 2), torch.tensor([0, 1, 2, y])
    inputs[2] += x
    return Task.from_module(nn.Linear(2, 3), covey.data.from_peers([(inputs, labels, torch.ones(1, 2), labels[:1])]))


def normalised() -> Task:
    data = covey.data.load("digits", peers=4, partition="iid", samples=10, seed=0)
    return Task.from_module(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10)), data)


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "graph of another size": (lambda: simulate(graph=graphs.ring(5)), BadInput, "ring has 5 peers, but the data"),
    "graph that breaks the assumption": (
        lambda: simulate(graph=graphs.random_directed(4, 1)), UnsoundGraph, "assumes doubly stochastic.*allow_unsound"),
    "no rounds": (lambda: simulate(rounds=0), BadInput, "rounds=0"),
    "unknown init": (lambda: simulate(init="random"), BadInput, "init='random'"),
    "a name for a graph": (lambda: simulate(graph="ring"), BadInput, "needs a graph such as"),
    "a name for an algorithm": (lambda: simulate(algorithm="dfedavg"), BadInput, "needs an algorithm such as"),
    "half a round": (lambda: simulate(rounds=2.5), BadInput, "rounds=2.5"),
    "no such device": (lambda: simulate(device="foo"), BadInput, "device 'foo' cannot be used"),
    "a target that is none": (lambda: simulate(target=float("nan")), BadInput, "target=nan"),
    "a term that does not fit": (
        lambda: Peers(task(), torch.arange(4), 4).train(SGD(0.1), plus=torch.ones(4, 1)), BadInput, "plus has shape"),
    "a group that is none": (
        lambda: Peers(task(), torch.arange(4), 4).train(SGD(0.1), "body"), BadInput, "no group 'body'"),
    "labels beyond the outputs": (lambda: small(y=3), BadInput, "training label 3, but the module has 3 outputs"),
    "labels below zero": (lambda: small(y=-1), BadInput, "label -1"),
    "a label that means too many classes": (lambda: small(y=10**9), BadInput, "number the labels from 0"),
    "data that are not finite": (lambda: small(x=float("nan")), BadInput, "training \\(peer 0\\) sample number 2"),
    "no data": (lambda: covey.data.federate(torch.ones(0, 2), torch.ones(0).long()), BadInput, "is empty"),
    "one sample under BatchNorm": (
        lambda: simulate(task=normalised(), algorithm=algorithms.DFedAvg(SGD(0.1, batch=1))), BadInput, "batch=1"),
    "no chunk": (lambda: simulate(chunk=0), BadInput, "chunk=0"),
    "validation of all": (lambda: simulate(validation=1.0), BadInput, "part to hold out is 1.0"),
    "personal prefix of nothing": (lambda: task("fc"), BadInput, "the names begin with body, head"),
    "personal prefix of everything": (lambda: task(("body", "head")), BadInput, "covers every parameter"),
    "a prefix is whole words": (lambda: task("hea"), BadInput, "matches no parameter"),
    "steps and epochs": (lambda: SGD(0.1, steps=2, epochs=1), BadInput, "steps or epochs, not both"),
    "a negative rate": (lambda: SGD(-1.0), BadInput, "lr=-1.0"),
    "momentum of one": (lambda: SGD(0.1, momentum=1.0), BadInput, "momentum=1.0"),
    "an order that is none": (
        lambda: algorithms.DPSGD(SGD(0.1), order="both"), BadInput, "neither 'atc'"),  # type: ignore[arg-type]
    "sam where it is not named": (
        lambda: algorithms.DFedSalt(SGD(0.1, sam=0.1), SGD(0.1)), BadInput, "keeps the personal phase plain"),
    "server momentum": (lambda: algorithms.FedAvgM(SGD(0.1), beta=1.0), BadInput, "beta=1.0"),
    "one model, many starts": (
        lambda: simulate(algorithm=algorithms.FedAvgM(SGD(0.1)), graph=graphs.server(4), init="all"), BadInput,
        "one model at the server"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_one_sentence(name: str) -> None:
    attempt, kind, says = REFUSED[name]
    with pytest.raises(kind, match=says) as refused:
        attempt()
    assert "\n" not in str(refused.value)
    assert str(refused.value).rstrip().endswith((".", ")"))


def test_an_unsound_graph_is_allowed_on_request_and_on_record() -> None:
    done = simulate(graph=graphs.random_directed(4, 1), allow_unsound=True)
    assert any("allowed on request" in note for note in done.summary()["notes"])


def test_divergence_names_peer_round_and_remedy(tmp_path: Path) -> None:
    b = torch.zeros(3, 2)
    quadratic = Task.from_function(lambda p, d: 0.5 * (p["x"] - d).square().sum(), {"x": torch.ones(2)}, b)
    with pytest.raises(Diverged, match=r"peer 0 .* round \d+ .*lower the learning rate"):
        covey.simulate(algorithms.Local(SGD(1e6)), quadratic, graphs.isolated(3), rounds=50, out=tmp_path / "run")


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(BadInput, match=r"not empty.*--resume"):
        simulate(out=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_nothing_is_written_where_something_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        simulate(graph=graphs.ring(5), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_resuming_another_run_names_what_differs(tmp_path: Path) -> None:
    simulate(out=tmp_path / "run")
    with pytest.raises(BadInput, match=r"run\.seed was 0, and now it is 1"):
        simulate(resume=tmp_path / "run", seed=1, rounds=5)
    with pytest.raises(BadInput, match="algorithm was"):
        simulate(resume=tmp_path / "run", algorithm=algorithms.DFedAvg(SGD(0.2)), rounds=5)


def test_a_damaged_checkpoint_is_recognised(tmp_path: Path) -> None:
    simulate(out=tmp_path / "run")
    [blob] = (tmp_path / "run" / "checkpoint").glob("*.safetensors")
    whole = blob.read_bytes()
    blob.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DamagedCheckpoint, match="digest"):
        simulate(resume=tmp_path / "run", rounds=5)
    blob.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedCheckpoint, match="digest"):
        simulate(resume=tmp_path / "run", rounds=5)
    (tmp_path / "run" / "checkpoint" / "latest.json").write_text("{")
    with pytest.raises(DamagedCheckpoint, match="cannot be read"):
        simulate(resume=tmp_path / "run", rounds=5)
    with pytest.raises(DamagedCheckpoint, match="no checkpoint"):
        simulate(resume=tmp_path / "elsewhere", rounds=5)


def test_a_torn_write_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    whole = simulate(rounds=6)
    simulate(rounds=3, out=tmp_path / "run")
    folder = tmp_path / "run" / "checkpoint"
    (folder / "round-4.safetensors.part").write_bytes(b"half")
    (folder / "latest.json.part").write_bytes(b"{")
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write('{"round": 4, "tor')
    resumed = simulate(rounds=6, resume=tmp_path / "run")
    assert torch.equal(resumed.rows, whole.rows)
    assert [entry["round"] for entry in resumed.history] == [1, 2, 3, 4, 5, 6]


def test_a_run_that_is_done_cannot_be_shortened(tmp_path: Path) -> None:
    simulate(rounds=3, out=tmp_path / "run")
    with pytest.raises(BadInput, match="done 3 rounds already"):
        simulate(rounds=2, resume=tmp_path / "run")


def test_resuming_with_other_data_model_loss_or_weights_is_refused(tmp_path: Path) -> None:
    data = covey.data.load("digits", peers=4, partition="iid", samples=10, seed=0)
    other = covey.data.load("digits", peers=4, partition="iid", samples=10, seed=1)

    def of(given: covey.data.Federated, bend: nn.Module, **how: object) -> Task:
        torch.manual_seed(0)
        return Task.from_module(nn.Sequential(nn.Flatten(), nn.Linear(64, 8), bend, nn.Linear(8, 10)), given, **how)

    simulate(task=of(data, nn.ReLU()), out=tmp_path / "run")
    half = nn.CrossEntropyLoss(label_smoothing=0.1)
    for task in (of(other, nn.ReLU()), of(data, nn.Tanh()), of(data, nn.ReLU(), loss=half)):
        with pytest.raises(BadInput, match=r"digest was|data_seed was"):
            simulate(task=task, resume=tmp_path / "run", rounds=5)
    one, two = torch.eye(4), torch.full((4, 4), 0.25)
    simulate(graph=graphs.from_matrix(one), out=tmp_path / "matrix")
    with pytest.raises(BadInput, match=r"graph\.\w+ was"):
        simulate(graph=graphs.from_matrix(two), resume=tmp_path / "matrix", rounds=5)


def test_a_torn_line_after_a_checkpoint_that_nobody_looked_at(tmp_path: Path) -> None:
    whole = simulate(rounds=12, evaluate_every=5)
    simulate(rounds=8, evaluate_every=5, checkpoint_every=1, out=tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    path.write_text(path.read_text().splitlines()[0] + '\n{"round": 10, "tor')
    resumed = simulate(rounds=12, evaluate_every=5, resume=tmp_path / "run")
    assert torch.equal(resumed.rows, whole.rows)
    assert [entry["round"] for entry in resumed.history] == [5, 10, 12]


def test_a_metric_that_is_no_number_survives_a_resume(tmp_path: Path) -> None:
    def metric(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.full_like(target, torch.nan, dtype=torch.float64)

    own = Task.from_module(task().module, task().data, metrics={"odd": metric})  # type: ignore[attr-defined]
    simulate(task=own, out=tmp_path / "run")
    assert simulate(task=own, resume=tmp_path / "run", rounds=5).summary()["odd"]["mixed"]["best"] is not None


def test_what_is_refused_in_its_first_round_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="batch=1"):
        simulate(task=normalised(), algorithm=algorithms.DFedAvg(SGD(0.1, batch=1)), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
