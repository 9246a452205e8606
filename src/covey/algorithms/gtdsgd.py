"""GT-DSGD: gradient tracking, which finds the optimum of all where plain gossip stops short of it.

    x_i^{½} = x_i after K steps of  x ← x − η (g_i(x; ξ) + c_i);   y_i = (x_i − x_i^{½}) / (η K)
    x_i⁺ = Σ_j W_ij x_j^{½};   c_i⁺ = c_i − y_i + Σ_j W_ij y_j                                      c = 0 at first

With K = 1, y = g + c and this is y_i⁺ = Σ_j W_ij y_j + g_i⁺ − g_i with y⁰ = g⁰: A. Nedić, A. Olshevsky, W. Shi,
*Achieving geometric convergence for distributed optimization over time-varying graphs*, 2017; with mini-batches S. Pu,
A. Nedić, *Distributed stochastic gradient tracking methods*, 2018. K > 1 is K-GT: Y. Liu, T. Lin, A. Koloskova, S. U.
Stich, *Decentralized gradient tracking with local steps*, 2023. c_i says how the others' gradients differ from i's; Σ c
stays 0, and at the optimum of the sum c_i = −∇F_i, so constant steps have no bias. Two rows a message. Not for personal
models by itself: it removes just the pull of a peer's own data. Clipping comes before c is added, and biases the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.algorithms.algorithm import Algorithm, Habit
from covey.errors import BadInput
from covey.link import Link
from covey.peers import Peers
from covey.tasks.task import Task
from covey.training import SGD


@dataclass(frozen=True)
class GTDSGD(Algorithm):
    """Local steps corrected by what neighbours' steps say, and an exchange of model and step."""

    local: SGD
    habit: ClassVar[Habit] = Habit(momentum=0.0)

    def __post_init__(self) -> None:
        if self.local.momentum:
            raise BadInput(f"GTDSGD tracks plain steps; give its SGD momentum=0, not {self.local.momentum}.")

    def prepare(self, task: Task) -> Task:
        return task.whole()

    def start(self, peers: Peers, link: Link) -> None:
        peers.state["correction"] = torch.zeros_like(peers.rows)

    def train(self, peers: Peers) -> None:
        peers.state["before"] = peers.rows.clone()
        peers.train(self.local, plus=peers.state["correction"])

    def exchange(self, peers: Peers, link: Link) -> None:
        c = peers.state["correction"]
        y = peers.direction(self.local, peers.state["before"], peers.rows)
        peers.rows, heard = link.mix(peers.rows, y)
        peers.state["correction"] = peers.of_active(c - y + heard, c)
