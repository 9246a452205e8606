"""Processes that are killed: what is on disk then is what counts, and it always adds up.

A kill is an exception in the peer's thread before one of its database's statements, after which nothing of the process
remains: its transport is cut and the open transaction is rolled back, as the system does for a process that is gone.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from covey import SGD, Task, graphs
from covey import algorithms as a
from covey.algorithms.algorithm import Algorithm
from covey.graphs.graph import Graph
from covey.link import Link
from covey.network import Peer
from covey.network.post import Stopped
from covey.peers import Peers
from network import audit
from network.coveys import names, simulated
from network.memory import Wires

torch.set_num_threads(1)
PEERS, ROUNDS = 4, 3
POINTS = torch.randn(PEERS, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
STEP = SGD(0.1, steps=2)


def task() -> Task:
    return Task.from_function(
        lambda p, own: 0.5 * (p["x"] - own).square().sum(), {"x": torch.zeros(3, dtype=torch.float64)}, POINTS
    )


class Killed(BaseException):
    """Not an Exception: nobody may handle it."""


class Fuse:
    """So many statements of its databases are executed; before the next one all threads that use them die."""

    def __init__(self, left: int) -> None:
        self.left, self.burnt, self._lock = left, threading.Event(), threading.Lock()

    def guard(self, peer: Peer) -> None:
        peer.store._db = Guarded(peer.store._db, self)

    def burn(self) -> None:
        with self._lock:
            self.left -= 1
            if self.left < 0:
                self.burnt.set()
                raise Killed


class Guarded:
    """A database connection with a fuse."""

    def __init__(self, db: Any, fuse: Fuse) -> None:
        self._db, self._fuse = db, fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._db, name)
        if name not in ("execute", "executemany"):
            return found

        def guarded(*arguments: Any) -> Any:
            if arguments[0] != "ROLLBACK":  # that is what the system does
                self._fuse.burn()
            return found(*arguments)

        return guarded


@dataclass(frozen=True)
class Twice(a.DFedAvg):
    """Two exchanges in a round, the second of what the first gave: pushed mass, twice."""

    @property
    def needs(self) -> Any:
        return "column"

    def start(self, peers: Peers, link: Link) -> None:
        peers.state["mass"] = peers.ones()

    def exchange(self, peers: Peers, link: Link) -> None:
        for _ in range(2):
            peers.shared, peers.state["mass"] = link.mix(peers.shared, peers.state["mass"], carry=True)

    def models(self, peers: Peers) -> Any:
        yield "model", peers.shared / peers.state["mass"]


CASES = {
    "push": (a.SGP(STEP), graphs.random_directed(PEERS, 2, seed=1)),
    "push twice": (Twice(STEP), graphs.random_directed(PEERS, 2, seed=1)),
    "gossip": (a.DFedAvg(STEP), graphs.ring(PEERS)),
}


class Covey:
    """All peers in threads, some with a fuse."""

    def __init__(self, algorithm: Algorithm, graph: Graph, folder: Path) -> None:
        self.algorithm, self.graph, self.folder = algorithm, graph, folder
        self.wires, self.roster = Wires(), names(PEERS)
        self.done: dict[int, Tensor] = {}

    def peer(self, i: int) -> Peer:
        name = self.roster[i]
        return Peer(self.algorithm, task(), self.graph, name, roster=self.roster, transport=self.wires.end(name),
                    folder=self.folder / name, evaluate_every=ROUNDS, grace=30.0)  # fmt: skip

    def run(self, i: int, peer: Peer, again: bool) -> None:
        try:
            self.done[i] = peer.run(ROUNDS).peers.rows
        except (Killed, Stopped):
            if again:
                self.run(i, self.peer(i), False)

    def play(self, fuse: Fuse | None = None, who: range = range(0), again: bool = False) -> Tensor | None:
        """To the end; None where they were killed. again: who is killed is started once more, else all are stopped."""
        peers = [self.peer(i) for i in range(PEERS)]
        for i in who:
            if fuse is not None:
                fuse.guard(peers[i])
        threads = [threading.Thread(target=self.run, args=(i, peer, again), daemon=True)
                   for i, peer in enumerate(peers)]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.01)
                if fuse is not None and fuse.burnt.is_set() and not again:
                    for peer in peers:
                        peer.stop()
        assert all(isinstance(one, Killed) for one in self.wires.problems)
        return torch.cat([self.done[i] for i in range(PEERS)]) if len(self.done) == PEERS else None


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_a_peer_killed_before_any_statement_ends_with_the_same_bits(name: str, stride: int, tmp_path: Path) -> None:
    algorithm, graph = CASES[name]
    reference = simulated(algorithm, task, graph, ROUNDS, seed=0).peers.rows
    statements, fuse = 0, Fuse(0)
    while not statements or fuse.burnt.is_set():
        fuse = Fuse(statements)
        rows = Covey(algorithm, graph, tmp_path / str(statements)).play(fuse, range(1, 2), again=True)
        assert rows is not None and torch.equal(rows, reference), f"killed before statement {statements}"
        statements += stride
    assert statements > 30


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stride", [37, pytest.param(5, marks=pytest.mark.soak)])
def test_when_all_are_killed_at_once_what_lies_on_their_disks_adds_up(name: str, stride: int, tmp_path: Path) -> None:
    """And all go on from there to the same bits."""
    algorithm, graph = CASES[name]
    reference = simulated(algorithm, task, graph, ROUNDS, seed=0).peers.rows
    statements, kills = 60, 0
    while True:
        covey = Covey(algorithm, graph, tmp_path / str(statements))
        rows = covey.play(Fuse(statements), range(PEERS))
        with suppress(audit.NotStarted):
            assert name != "push" or abs(audit.pushed(covey.folder, graph)[1] - PEERS) < 1e-12
        if rows is not None:
            break
        covey.done.clear()
        rows = covey.play()
        assert rows is not None and torch.equal(rows, reference), f"killed before statement {statements}"
        statements, kills = statements + stride, kills + 1
    assert kills > 3
