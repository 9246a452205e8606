"""Messages that are lost, doubled, reordered and late, and neighbours that come and go: what must stay, stays."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from covey import SGD, Task, graphs
from covey import algorithms as a
from covey.exchange import PushSum
from network import audit
from network.coveys import play, rows
from network.memory import Faults, Wires

torch.set_num_threads(1)
STILL = SGD(0.0)  # no training: what is mixed is all that happens
PEERS, WIDTH = 6, 5
START = torch.randn(PEERS, WIDTH, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
FAULTS = Faults(lose=0.3, double=0.3, delay=0.5, seconds=0.02)


def still() -> Task:
    """Peers that start in different places and do not train."""
    return Task.from_function(
        lambda p, own: (p["x"] - own).square().sum(),
        {"x": torch.zeros(WIDTH, dtype=torch.float64)},
        torch.zeros(PEERS, WIDTH, dtype=torch.float64),
        start={"x": START},
    )


def close(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() < 1e-12)


@pytest.mark.parametrize("overlap", [False, True], ids=["waits", "at its own pace"])
def test_push_sum_keeps_its_mass_whatever_the_wires_do(overlap: bool, tmp_path: Path) -> None:
    """Under faults, and after a restart of all on good wires, where what was under way arrives."""
    graph = graphs.random_directed(PEERS, 3, seed=1)
    method = a.SGP(STILL, by=PushSum(overlap=overlap))

    def slowly(done: int, entry: object) -> None:
        time.sleep(0.02 if overlap else 0.0)

    for rounds, faults in ((15, FAULTS), (75, Faults())):
        runs = play(
            method,
            still,
            graph,
            rounds,
            tmp_path,
            Wires(faults),
            steadfast=0.05,
            evaluate_every=rounds,
            on_round=slowly,
        )
        x, mass = audit.pushed(tmp_path, graph)
        assert abs(mass - PEERS) < 1e-12
        assert close(x, START.sum(0))
    debiased = torch.cat([run.rows for run in runs])
    assert (debiased - START.mean(0)).abs().max() < 1e-6


def test_gossip_keeps_the_mean_when_edges_fail(tmp_path: Path) -> None:
    graph = graphs.random_undirected(PEERS, 3, seed=1)
    method = a.DFedAvg(STILL)
    play(method, still, graph, 12, tmp_path, Wires(FAULTS), steadfast=0.05, evaluate_every=12)
    assert close(audit.agreed(tmp_path, graph), START.sum(0))
    runs = play(method, still, graph, 30, tmp_path, evaluate_every=30)
    assert close(rows(runs).sum(0), START.sum(0))
    assert (rows(runs) - START.mean(0)).abs().max() < 1e-3
