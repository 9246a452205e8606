"""D²: decentralised training without the bias of unlike data, for the price of D-PSGD's messages.

    s_i = x_i − η g_i(x_i; ξ)
    x_i⁺ = Σ_j W̃_ij (s_j + e_j);   e_i⁺ = x_i⁺ − s_i                  e = 0 at first;  W̃ = (I + W)/2, or W itself

So x^{t+1} = W̃ (2x^t − x^{t−1} − η (g^t − g^{t−1})): H. Tang, X. Lian, M. Yan, C. Zhang, J. Liu, *D²: decentralized
training over decentralized data*, 2018. That is stable only if the least eigenvalue of W̃ is above −1/3, and the ring of
an even number of peers lies on the edge. So W̃ = (I + W)/2 by default, with which it is exact diffusion (K. Yuan, B.
Ying, X. Zhao, A. H. Sayed, 2019; NIDS of Z. Li, W. Shi, M. Yan, 2019); `lazy=False` is the paper's. Means move by the
mean gradient, and the limit with a constant step is the optimum of the sum. Not with several local steps, from which
a bias comes that e does not see: those are refused; GT-DSGD takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.algorithms.algorithm import Algorithm, Habit
from covey.errors import BadInput, UnsoundGraph
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.tasks.task import Task
from covey.training import SGD


@dataclass(frozen=True)
class D2(Algorithm):
    """One gradient step, and an exchange that remembers what the last one changed."""

    local: SGD
    lazy: bool = True
    habit: ClassVar[Habit] = Habit(momentum=0.0, steps=1)

    def __post_init__(self) -> None:
        if self.local.steps != 1:
            raise BadInput("D2 takes one step per round; use SGD(steps=1) (--steps 1), or gtdsgd for several.")

    @property
    def needs(self) -> Needs:
        return "symmetric-fixed"

    def prepare(self, task: Task) -> Task:
        return task.whole()

    def start(self, peers: Peers, link: Link) -> None:
        if not self.lazy and link.graph.fixed and 1 - link.graph.gaps()[1] <= -1 / 3 + 1e-9:
            raise UnsoundGraph(
                f"D2(lazy=False) diverges where an eigenvalue of W is −1/3 or less, as on '{link.graph.name}'; "
                "use lazy=True."
            )
        peers.state["lead"] = torch.zeros_like(peers.rows)

    def train(self, peers: Peers) -> None:
        peers.train(self.local)

    def exchange(self, peers: Peers, link: Link) -> None:
        s, e = peers.rows, peers.state["lead"]
        x = link.mix(s + e)
        if self.lazy:
            x = (x + s + e) / 2
        lead = torch.zeros_like(e)
        trained = peers.task.layout.trained("all")  # running statistics are averaged and no more
        lead[:, trained] = (x - s)[:, trained]
        peers.rows, peers.state["lead"] = x, peers.of_active(lead, e)
