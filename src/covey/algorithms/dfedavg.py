"""DFedAvg and DFedAvgM: local SGD, then gossip of the whole model.

    z_i = x_i after K local steps      y^{k+1} = y^k − η g_i(y^k) + θ(y^k − y^{k−1}),  y^{−1} = y^0 = x_i
    x_i⁺ = Σ_j W_ij z_j

T. Sun, D. Li, B. Wang, *Decentralized federated averaging*, 2021. With θ = 0 (momentum of `local`) this is DFedAvg, the
method of *Linear Convergence of Decentralized FedAvg for PL Objectives*; the momentum starts at zero in every round.
K = 1 is adapt-then-combine D-PSGD. Not FedAvgM, whose momentum is the server's, nor DSGDm, whose momentum lives on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from covey.algorithms.algorithm import Cooperative, Habit
from covey.peers import Peers
from covey.tasks.task import Task
from covey.training import SGD


@dataclass(frozen=True)
class DFedAvg(Cooperative):
    """Local steps on the whole model, which is then exchanged: X⁺ = W Z."""

    local: SGD
    habit: ClassVar[Habit] = Habit(momentum=0.0)

    def prepare(self, task: Task) -> Task:
        return task.whole()

    def train(self, peers: Peers) -> None:
        peers.train(self.local, mass=self.by.mass(peers))


@dataclass(frozen=True)
class DFedAvgM(DFedAvg):
    """DFedAvg whose local steps carry momentum θ = `local.momentum`, reset every round (the papers use 0.9)."""

    habit: ClassVar[Habit] = Habit()
