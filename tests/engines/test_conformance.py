"""The rules that every method obeys, whatever it is."""

from __future__ import annotations

import ast
import math
import pickle
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
import torch

import covey
from covey import algorithms
from covey.graphs import Graph
from covey.link import InProcessLink
from covey.peers import Peers
from covey.training.pace import Pace
from engines.table import CASES, PEERS, Case, task

every = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def simulate(case: Case, rounds: int = 3, **how: object) -> covey.Run:
    how = {"seed": 3, "chunk": 3, **how}
    return covey.simulate(case.algorithm, task(), case.graph(), rounds=rounds, **how)


def held(run: covey.Run) -> dict[str, torch.Tensor]:
    return {"rows": run.peers.rows, "models": run.rows, **run.peers.state}


def assert_same(one: covey.Run, other: covey.Run) -> None:
    a, b = held(one), held(other)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def by_hand(case: Case, graph: Graph | None = None) -> tuple[Peers, InProcessLink]:
    prepared = case.algorithm.prepare(task())
    peers = Peers(prepared, torch.arange(PEERS), PEERS, 3, "heads", Pace.fixed(1))
    link = InProcessLink((graph or case.graph()).bound(3, prepared.train.counts))
    case.algorithm.start(peers, link)
    return peers, link


def test_the_table_is_complete() -> None:
    named = {getattr(algorithms, name) for name in algorithms.__all__} - {algorithms.Algorithm}
    assert {type(case.algorithm) for case in CASES} == named


@every
def test_finite_and_moving(case: Case) -> None:
    run = simulate(case)
    first = task().start(torch.arange(PEERS), 3, "common")
    assert all(value.isfinite().all() for value in held(run).values())
    assert not torch.equal(run.rows, first)
    names = {name for name, _ in run.peers.task.module.named_parameters()}  # type: ignore[attr-defined]
    assert case.adds or names == {name for name, _ in task().module.named_parameters()}  # type: ignore[attr-defined]
    assert set(run.params) == names | {
        "body.1.running_mean", "body.1.running_var", *case.adds,
    }  # fmt: skip


@every
def test_same_seed_same_bits_other_seed_other_numbers(case: Case) -> None:
    first = simulate(case)
    assert_same(first, simulate(case))
    assert not torch.equal(first.rows, simulate(case, seed=4).rows)


@every
def test_chunks_change_rounding_only(case: Case) -> None:
    alone, three, all_ = (simulate(case, chunk=chunk).rows for chunk in (1, 3, PEERS))
    torch.testing.assert_close(three, alone, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(all_, alone, rtol=1e-9, atol=1e-11)


@every
def test_looking_changes_nothing(case: Case) -> None:
    before = torch.get_rng_state()
    looked = simulate(case, rounds=4, evaluate_every=1, theory=True, similarity=True)
    assert torch.equal(before, torch.get_rng_state())
    assert_same(looked, simulate(case, rounds=4, evaluate_every=4))
    assert len(looked.history) == 4
    assert all(math.isfinite(value) for entry in looked.history for value in entry["theory"].values())


@every
def test_resume_is_exact(case: Case, tmp_path: Path) -> None:
    whole = simulate(case, rounds=6)

    def stop(round: int, entry: object) -> None:
        if round == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(case, rounds=6, out=tmp_path / "run", checkpoint_every=3, on_round=stop)
    resumed = simulate(case, rounds=6, resume=tmp_path / "run")
    assert_same(whole, resumed)
    assert [e["round"] for e in resumed.history] == [1, 2, 3, 4, 5, 6]
    timeless = [[{k: v for k, v in entry.items() if k != "seconds"} for entry in r.history] for r in (whole, resumed)]
    assert timeless[0] == timeless[1]
    assert whole.traffic.as_dict() == resumed.traffic.as_dict()


@every
def test_personal_columns_never_leave(case: Case) -> None:
    """A head that is not a number harms nobody else. (A method for one common model has no personal columns.)"""
    peers, link = by_hand(case)
    for t in range(2):
        link.begin(t)
        peers.begin(t, link.round.active)
        case.algorithm.train(peers)
        own = peers.personal[0].clone()
        peers.rows[0, peers.task.layout.personal] = torch.nan
        case.algorithm.exchange(peers, link)
        assert peers.rows[1:].isfinite().all()
        assert peers.shared[0].isfinite().all()
        peers.rows[0, peers.task.layout.personal] = own


@every
def test_training_leaves_the_absent_alone(case: Case) -> None:
    peers, link = by_hand(case)
    link.begin(0)
    peers.begin(0, torch.tensor([True, False] * (PEERS // 2)))
    rows = peers.rows.clone()
    state = {name: value.clone() for name, value in peers.state.items()}
    case.algorithm.train(peers)
    absent = ~peers.active
    assert torch.equal(peers.rows[absent], rows[absent])
    assert not torch.equal(peers.rows[peers.active], rows[peers.active])
    for name, value in state.items():
        assert torch.equal(peers.state[name][absent], value[absent]), name


@every
def test_the_absent_keep_what_is_theirs(case: Case) -> None:
    """Through training and exchange; what a server holds alike for all rows is its own."""
    graph = covey.graphs.absent(case.graph(), 0.5, seed=1)
    if case.algorithm.needs.endswith("fixed") or case.algorithm.needs == "centre":
        # Copies at neighbours: whoever misses a message knows another copy. A centre is no peer that comes and goes.
        with pytest.raises(covey.UnsoundGraph, match="changes from round to round"):
            covey.simulate(case.algorithm, task(), graph)
        return
    peers, link = by_hand(case, graph)
    kept = set(peers.state)  # what is made in a round, to cross from training to the exchange, is not kept
    missed = torch.zeros(PEERS, dtype=torch.bool)
    for t in range(6):
        link.begin(t)
        peers.begin(t, link.round.active)
        away = ~peers.active
        missed |= away
        own = peers.personal if case.server else peers.rows
        kept |= {name for name in peers.state if name.startswith("steps/")}
        before = {"own": own.clone()} | {name: peers.state[name].clone() for name in kept}
        case.algorithm.train(peers)
        case.algorithm.exchange(peers, link)
        after = {"own": peers.personal if case.server else peers.rows} | peers.state
        for name, value in before.items():
            of_server = case.server and bool((after[name] == after[name][:1]).all())
            assert of_server or torch.equal(after[name][away], value[away]), name
    assert missed.any() and peers.rows.isfinite().all()


@every
def test_models_change_nothing(case: Case) -> None:
    peers, link = by_hand(case)
    link.begin(0)
    peers.begin(0, link.round.active)
    case.algorithm.train(peers)
    case.algorithm.exchange(peers, link)
    before = {"rows": peers.rows.clone(), **{k: v.clone() for k, v in peers.state.items()}}
    names = [name for name, _ in case.algorithm.models(peers)]
    after = {"rows": peers.rows, **peers.state}
    assert names and before.keys() == after.keys()
    assert all(torch.equal(before[k], after[k]) for k in before)


@every
def test_a_method_is_frozen_configuration(case: Case) -> None:
    own = case.algorithm
    assert pickle.loads(pickle.dumps(own)) == own
    hash(own)
    text = repr(own)
    simulate(case, rounds=1)
    assert repr(own) == text
    with pytest.raises(FrozenInstanceError):
        setattr(own, fields(own)[0].name, None)


@every
def test_a_rank_that_hosts_some_peers_trains_them_alike(case: Case) -> None:
    """Local work depends on who a peer is, not on which rows lie beside its own."""
    peers, link = by_hand(case)
    link.begin(0)
    peers.begin(0, torch.ones(PEERS, dtype=torch.bool))
    case.algorithm.train(peers)
    ids = torch.tensor([4, 1])
    some = Peers(case.algorithm.prepare(task()).select(ids), ids, PEERS, 3, "heads", Pace.fixed(1))
    started, _ = by_hand(case)  # what a rank keeps are its rows of what all keep
    some.rows, some.state = started.rows[ids], {name: value[ids] for name, value in started.state.items()}
    some.begin(0, torch.ones(2, dtype=torch.bool))
    case.algorithm.train(some)
    assert torch.equal(some.rows, peers.rows[ids])


@pytest.mark.parametrize("path", sorted(Path(algorithms.__file__).parent.glob("*.py")), ids=lambda p: p.stem)
def test_a_file_is_a_page_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") < 100
    if path.stem not in ("__init__", "algorithm"):
        docstring = ast.get_docstring(ast.parse(text)) or ""
        assert any(arrow in docstring for arrow in ("←", "⁺", " = ")), "its equations"
        assert "not " in docstring.lower().replace("\n", " "), "what it is not"
