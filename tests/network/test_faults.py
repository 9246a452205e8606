"""Messages that are lost, doubled, reordered and late, and neighbours that come and go: what must stay, stays."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from covey import SGD, Task, graphs
from covey import algorithms as a
from covey.exchange import PushSum
from covey.network import Peer
from covey.network.post import Stopped
from network import audit
from network.coveys import names, play, rows
from network.memory import Faults, Wires

torch.set_num_threads(1)
STILL = SGD(0.0)  # no training: what is mixed is all that happens
PEERS, WIDTH = 6, 5
START = torch.randn(PEERS, WIDTH, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
FAULTS = Faults(lose=0.3, double=0.3, delay=0.5, seconds=0.02)


def still(peers: int = PEERS) -> Task:
    """Peers that start in different places and do not train."""
    return Task.from_function(
        lambda p, own: (p["x"] - own).square().sum(),
        {"x": torch.zeros(WIDTH, dtype=torch.float64)},
        torch.zeros(peers, WIDTH, dtype=torch.float64),
        start={"x": START[:peers]},
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


def test_others_go_on_without_a_dead_neighbour_which_joins_them_where_they_are(tmp_path: Path) -> None:
    graph, rounds = graphs.ring(4), 60
    roster = names(4)
    wires, reached = Wires(), threading.Event()

    def play_one(name: str, stop_at: int | None, after: threading.Event | None) -> Peer:
        def on_round(done: int, entry: object) -> None:
            time.sleep(0.01)
            if done == stop_at:
                peer.stop()
            if done == 30:
                reached.set()

        peer = Peer(a.DFedAvg(STILL), still(4), graph, name, roster=roster, transport=wires.end(name),
                    folder=tmp_path / name, evaluate_every=rounds, on_round=on_round)  # fmt: skip
        with contextlib.suppress(Stopped):
            peer.run(rounds)
        return peer

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        others = [pool.submit(play_one, name, None, None) for name in roster if name != "peer-1"]
        pool.submit(play_one, "peer-1", 5, None).result(60)
        assert reached.wait(60)  # the others are in round 30: they did not wait for it
        back = pool.submit(play_one, "peer-1", None, None).result(60)
        ends = [one.result(60) for one in others]
    assert back.status.skipped >= 20 and back.peers.round == rounds
    near = [end.status.neighbours["peer-1"] for end in ends if end.me != "peer-3"]
    assert all(one.missed >= 20 and one.presence == "alive" for one in near)
    assert all(not other.missed for end in ends for name, other in end.status.neighbours.items() if name != "peer-1")
    everybody = torch.cat([end.peers.rows for end in (*ends, back)])
    assert close(everybody.sum(0), START[:4].sum(0))  # edges to the dead were used by nobody
