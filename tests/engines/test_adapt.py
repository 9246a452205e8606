"""New peers: whose representation they get, that nothing but heads is trained on it, and that their data are new."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import covey
from covey import SGD, BadInput, Task, algorithms, graphs
from covey.data import Federated
from covey.engine import representation

WORK = SGD(0.1, epochs=1, batch=5)
BODY = ("body.weight", "body.bias")


def network(width: int = 4, hidden: int = 3) -> nn.Module:
    torch.manual_seed(0)
    module = nn.Sequential()
    module.add_module("body", nn.Linear(width, hidden))
    module.add_module("head", nn.Linear(hidden, 2))
    return module


def numbered(count: int = 120, users: int = 12, **how: object) -> Federated:
    """Samples whose first number is their own, and whose second is that of their user."""
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(1))
    user = torch.arange(count) % users
    x[:, 0], x[:, 1] = torch.arange(count), user
    return covey.data.federate(x, (x[:, 2] > 0).long(), users=user, transform=None, **how)  # type: ignore[arg-type]


def names(data: Federated, column: int, *parts: str) -> set[int]:
    found: set[int] = set()
    for part in parts:
        samples = getattr(data, part)
        found |= set(samples.arrays[0][samples.index][:, column].long().tolist())
    return found


def learn(method: algorithms.Algorithm, graph: graphs.Graph, **how: object) -> covey.Run:
    task = Task.from_module(network(), numbered(peers=6, partition="iid", samples=8), personal="head")
    return covey.simulate(method, task, graph, rounds=3, init="heads", **how)  # type: ignore[arg-type]


def new_peers(personal: str | tuple[str, ...] = "head", hidden: int = 3) -> Task:
    known = numbered(peers=6, partition="iid", samples=8)
    return Task.from_module(network(hidden=hidden), covey.data.unseen(known, 5), personal=personal)


SOURCES = {
    "gossip": (algorithms.DFedAlt(WORK, WORK), graphs.ring(6)),
    "push-sum": (algorithms.DFedPGP(WORK, WORK), graphs.random_directed(6, 2)),
    "server, whole model": (algorithms.FedAvg(WORK), graphs.server(6, 0.5)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_representation_of_a_run_and_of_its_folder(name: str, tmp_path: Path) -> None:
    run = learn(*SOURCES[name], out=tmp_path / "run")
    for of in ("mean", 4):
        mine, read = representation(run, of), representation(tmp_path / "run", of)  # type: ignore[arg-type]
        assert mine.keys() == read.keys() >= set(BODY)
        for one, value in mine.items():
            assert torch.equal(value, read[one])
            every = run.params[one]  # what each peer would use: divided by its mass
            torch.testing.assert_close(value, every.mean(0) if of == "mean" else every[4], rtol=1e-6, atol=1e-7)
    if name == "push-sum":
        assert float(run.peers.state["mass"].std()) > 1e-3


@pytest.mark.parametrize("name", SOURCES)
def test_only_heads_are_trained_on_it(name: str, tmp_path: Path) -> None:
    run = learn(*SOURCES[name])
    learned, task = representation(run), new_peers()
    found = covey.adapt(run, task, SGD(0.2, epochs=1, batch=5), rounds=4, seed=7, out=tmp_path / "out")
    start = {k: v.clone() for k, v in network().named_parameters()}
    for body in BODY:
        assert torch.equal(found.adapted.params[body], learned[body].expand_as(found.adapted.params[body]))
        assert torch.equal(found.untrained.params[body], start[body].expand_as(found.untrained.params[body]))
        assert not torch.equal(found.scratch.params[body], found.untrained.params[body])
    for one in (found.adapted, found.untrained, found.scratch):
        assert (one.params["head.weight"] != start["head.weight"]).flatten(1).any(1).all()
        assert one.traffic.formula.links == 0
    again = covey.adapt(run, task, SGD(0.2, epochs=1, batch=5), rounds=4, seed=7)
    assert torch.equal(again.adapted.rows, found.adapted.rows)
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["algorithm"] == "Heads"
    assert {path.parent.name for path in (tmp_path / "out").rglob("summary.json")} == {"out", "untrained", "scratch"}
    assert found.summary().keys() == {"adapted", "untrained", "scratch"}


def test_a_head_on_the_true_representation_needs_less_data() -> None:
    """y = sign⟨w_i, φ x⟩ with φ: 60 → 2 common. From a run on 40 peers, new peers with 8 samples each come close to
    what φ itself gives them, which neither an untrained φ nor training all from scratch does."""
    generator = torch.Generator().manual_seed(3)
    true = torch.linalg.qr(torch.randn(60, 2, generator=generator)).Q

    def some(peers: int, samples: int) -> Federated:
        parts = []
        for _ in range(peers):
            x = torch.randn(samples + 200, 60, generator=generator)
            y = (x @ true @ torch.randn(2, generator=generator) > 0).long()
            parts.append((x[:samples], y[:samples], x[samples:], y[samples:]))
        return covey.data.from_peers(parts, transform=None)

    module, work = network(60, 2), SGD(0.1, epochs=2, batch=10, weight_decay=1e-3)
    run = covey.simulate(algorithms.DFedAlt(work, work), Task.from_module(module, some(40, 200), personal="head"),
                         graphs.full(40), rounds=30, evaluate_every=30)  # fmt: skip
    few = Task.from_module(module, some(30, 8), personal="head")
    found = covey.adapt(run, few, SGD(0.2, epochs=5), rounds=20, evaluate_every=20).summary()
    score = {name: summary["accuracy"]["mixed"]["last"] for name, summary in found.items()}
    assert score["adapted"] > 0.8 > 0.65 > max(score["untrained"], score["scratch"]), score


# --- what is new


def test_the_data_of_new_peers_are_disjoint_from_those_of_the_run() -> None:
    known = numbered(peers=6, partition="dirichlet:1", samples=8).hold_out(0.25, 0)
    new = covey.data.unseen(known, 5, seed=3)
    own, others = names(known, 0, "train", "validation"), names(new, 0, "train", "test")
    assert not own & others and len(own) + len(others) == 120 and len(own) == 48
    assert not names(new, 0, "train") & names(new, 0, "test")
    assert new.partition == "dirichlet:1" and len(new) == 5
    same, other = covey.data.unseen(known, 5, seed=3), covey.data.unseen(known, 5, seed=4)
    assert torch.equal(new.train.index, same.train.index) and not torch.equal(new.train.index, other.train.index)


def test_new_users_are_those_who_are_no_peers() -> None:
    known = numbered(peers=7, partition="natural", seed=2)
    new = covey.data.unseen(known)
    assert len(new) == 5 and not names(known, 1, "train", "test") & names(new, 1, "train", "test")
    assert len(names(new, 0, "train", "test")) == 50  # all that these five users have
    with pytest.raises(BadInput, match="All 12 users are peers of the run"):
        covey.data.unseen(numbered(partition="natural"))
    mixed = covey.data.unseen(numbered(partition="natural"), 4, "iid")  # what they held out, divided anew
    assert not names(numbered(partition="natural"), 0, "train") & names(mixed, 0, "train", "test")


@pytest.mark.parametrize(("attempt", "says"), [
    (lambda run, _: covey.adapt(run, new_peers(), WORK, of=9), "no peer 9: the run has 6"),
    (lambda run, _: covey.adapt(run, new_peers(()), WORK), "shared part of this module has 'head.weight'"),
    (lambda run, _: covey.adapt(run, new_peers(hidden=5), WORK), r"shape \[5, 4\], where the run shares \[3, 4\]"),
    (lambda run, out: covey.adapt(out / "none", new_peers(), WORK, out=out / "x"), "There is no checkpoint in"),
    (lambda run, out: covey.adapt(run, new_peers().data, WORK), "adapt.. takes a run or its folder"),
    (lambda run, out: covey.simulate(algorithms.Heads(WORK), new_peers(()), graphs.isolated(5)), "name the head"),
    (lambda run, out: covey.data.unseen(numbered(peers=6, partition="natural").select(torch.arange(2))),
     "do not say which user"),
])  # fmt: skip
def test_refused_in_a_sentence(attempt, says: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadInput, match=says) as refused:
        attempt(learn(*SOURCES["gossip"]), tmp_path)
    assert "\n" not in str(refused.value) and not list(tmp_path.iterdir())
