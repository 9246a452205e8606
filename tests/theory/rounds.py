"""Rounds driven by hand, so that a test can look, or meddle, between training and exchange."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from covey.algorithms import Algorithm
from covey.graphs import Graph
from covey.link import InProcessLink
from covey.peers import Peers
from covey.tasks import Task
from covey.training.pace import Pace


class Rounds:
    """The engine's order of calls (begin, train, exchange), one at a time."""

    def __init__(self, algorithm: Algorithm, task: Task, graph: Graph, *, seed: int = 0, init: str = "common",
                 chunk: int | None = None) -> None:  # fmt: skip
        task = algorithm.prepare(task)
        n = len(task.train)
        self.algorithm = algorithm
        self.peers = Peers(task, torch.arange(n), n, seed, init, Pace.fixed(chunk or n))
        self.link = InProcessLink(graph.bound(seed, task.train.counts))
        self.t = 0
        algorithm.start(self.peers, self.link)

    def train(self) -> None:
        self.link.begin(self.t)
        self.peers.begin(self.t, self.link.round.active)
        self.algorithm.train(self.peers)

    def exchange(self) -> None:
        self.algorithm.exchange(self.peers, self.link)
        self.t += 1
        self.peers.round = self.t

    def go(self, rounds: int = 1) -> Rounds:
        for _ in range(rounds):
            self.train()
            self.exchange()
        return self

    @property
    def models(self) -> Tensor:
        """What each peer would use, [peers, width]."""
        return next(self.algorithm.models(self.peers))[1].clone()

    @property
    def mean(self) -> Tensor:
        return self.peers.shared.mean(0)


def trajectory(algorithm: Algorithm, task: Task, graph: Graph, rounds: int, **how: object) -> Tensor:
    """The models after every exchange, [rounds, peers, width]."""
    run = Rounds(algorithm, task, graph, **how)
    return torch.stack([run.go().models for _ in range(rounds)])


def fingerprint(run: Rounds) -> str:
    """A hash of every number that the peers and the link hold."""
    peers = run.peers
    held = {"rows": peers.rows, "active": peers.active} | peers.state
    held |= {f"loss {name}": value for name, value in peers.losses.items()}
    held |= {f"in flight {name}": value for name, value in run.link.in_flight.items()}
    text = hashlib.sha256(f"{peers.round} {run.link.traffic.as_dict()}".encode())
    for name in sorted(held):
        text.update(name.encode() + held[name].detach().contiguous().numpy().tobytes())
    return text.hexdigest()
