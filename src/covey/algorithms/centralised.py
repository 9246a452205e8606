"""Centralised: SGD on everybody's data, as if they lay in one place.

    w ← w − η g(w; ξ)                            ξ drawn from all peers' training samples; K steps a round

The reference of speed-ups and optimality gaps, not a method for peers: it asks for what they will not do. In terms of
rows: the task is changed so that each peer has all training samples, peer 0 alone takes part (the graph `centre`), and
the others take its w over, so that it is judged on each peer's own test data, like any model. An epoch is a pass over
all samples, not one peer's share. Nothing is counted as sent: one model is shown in several rows, and what it would
cost to bring the data together depends on the data. With one peer it is Local. A function has no samples to pool: its
peers are, so that the loss is the mean of their losses. Not FedAvg on everybody, where many work and are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.algorithms.algorithm import Algorithm, Habit
from covey.compress import Message
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.tasks.task import Task
from covey.training import SGD


@dataclass(frozen=True)
class Centralised(Algorithm):
    """SGD on the pooled data."""

    local: SGD
    habit: ClassVar[Habit] = Habit(momentum=0.0)

    @property
    def needs(self) -> Needs:
        return "centre"

    def prepare(self, task: Task) -> Task:
        return task.whole().centralised()

    def train(self, peers: Peers) -> None:
        peers.train(self.local)

    def exchange(self, peers: Peers, link: Link) -> None:
        free = torch.zeros(len(peers), dtype=torch.float64)
        peers.rows = link.mix(Message(peers.rows, free, free))
