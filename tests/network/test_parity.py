"""Peers that talk by messages end with the same bits as the simulator, which talks by matrices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from covey import SGD, compress, graphs, trigger
from covey import algorithms as a
from covey.exchange import Compressed, CompressedPush
from covey.graphs.graph import Graph
from engines.table import task
from network.coveys import play, rows, simulated

torch.set_num_threads(1)
PEERS, ROUNDS = 8, 20
SIZES = (12, 9, 12, 5, 20, 8, 7, 11)
HEAD, BODY = SGD(0.1, steps=2, batch=4), SGD(0.1, steps=2, batch=4, momentum=0.9)
STEP = SGD(0.05, steps=2, batch=4)


@dataclass(frozen=True)
class Case:
    name: str
    algorithm: a.Algorithm
    graph: Graph


CASES = (
    Case("dfedalt", a.DFedAlt(HEAD, BODY), graphs.random_undirected(PEERS, 3)),
    Case("dfedalt-full", a.DFedAlt(HEAD, BODY), graphs.full(PEERS)),
    Case("deprl", a.DePRL(HEAD, SGD(0.2, batch=4)), graphs.ring(PEERS)),
    Case("dfedpgp", a.DFedPGP(HEAD, BODY), graphs.random_directed(PEERS, 2)),
    Case("dfedpgp-pull", a.DFedPGP(HEAD, BODY), graphs.random_directed(PEERS, 2, weights="pull")),
    Case("dfedavgm", a.DFedAvgM(BODY), graphs.exponential(PEERS)),
    Case("squarm", a.SQuARM(STEP, compress.SignTopK(0.2), 0.3, trigger.norm(5.0, per="tensor")), graphs.ring(PEERS)),
    Case("choco", a.CHOCO(STEP, compress.TopK(5), 0.3), graphs.erdos_renyi(PEERS, 0.5, seed=1)),
    Case("choco-full", a.CHOCO(STEP, compress.TopK(5), 0.3), graphs.full(PEERS)),
    Case("choco-pre", a.CHOCO(BODY, compress.QSGD(15), 0.5, order="pre"), graphs.ring(PEERS)),
    Case("sparq", a.SPARQ(STEP, compress.RandK(0.2), 0.2, trigger.norm(5.0)), graphs.ring(PEERS)),
    Case("dfedalt-each", a.DFedAlt(HEAD, BODY, by=Compressed(compress.QTopK(0.3), 0.5, copies="each")),
         graphs.ring(PEERS)),
    Case("dfedpgp-compressed", a.DFedPGP(HEAD, BODY, by=CompressedPush(compress.Sign(), 0.5)),
         graphs.fixed(graphs.random_directed(PEERS, 2))),
)  # fmt: skip


NAMED = ("dfedalt", "deprl", "dfedpgp", "dfedavgm", "squarm")
BOTH = [pytest.param(case, torch.float64, id=case.name) for case in CASES] + [
    pytest.param(case, torch.float32, id=f"{case.name}-float32") for case in CASES if case.name in NAMED
]


@pytest.mark.parametrize(("case", "dtype"), BOTH)
def test_messages_and_matrices_give_the_same_bits(case: Case, dtype: torch.dtype, tmp_path: Path) -> None:
    runs = play(case.algorithm, lambda: task(dtype, SIZES), case.graph, ROUNDS, tmp_path, evaluate_every=ROUNDS)
    reference = simulated(case.algorithm, lambda: task(dtype, SIZES), case.graph, ROUNDS)
    assert torch.equal(rows(runs), reference.peers.rows)
    for name, value in reference.peers.state.items():
        assert torch.equal(torch.cat([run.peers.state[name] for run in runs]), value), name
