"""DSGDm: decentralised SGD with momentum that lives on.

    v ← β v + g_i(x; ξ);   x ← x − η v                        heavy ball;  Nesterov: x ← x − η (g + β v)
    x_i⁺ = Σ_j W_ij x_j                                       after K local steps; the buffer v stays, and is never sent

The usual baseline of the compressed methods ("vanilla decentralised SGD" of SQuARM-SGD with Nesterov's form) and of
*Linear Convergence of Decentralized FedAvg for PL Objectives*. β and the form are those of `local`. β = 0 is DFedAvg.
Not DFedAvgM, whose momentum starts anew in every round, nor QG-DSGDm, whose momentum follows the mixed model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.algorithms.algorithm import Habit
from covey.algorithms.dfedavg import DFedAvg
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class DSGDm(DFedAvg):
    """Local steps whose momentum outlives the round, then an exchange of the whole model."""

    habit: ClassVar[Habit] = Habit()

    def start(self, peers: Peers, link: Link) -> None:
        super().start(peers, link)
        if self.local.momentum:
            peers.state["momentum"] = torch.zeros_like(peers.rows)

    def train(self, peers: Peers) -> None:
        peers.train(self.local, mass=self.by.mass(peers), memory=peers.state.get("momentum"))
