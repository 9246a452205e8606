"""EXTRA: D-PSGD whose remaining differences are summed up and fed back, so that it ends at the exact optimum.

    x_i⁺ = Σ_j W_ij x_j + b_i − η g_i(x_i; ξ);   b_i⁺ = b_i + ½ (Σ_j W_ij x_j − x_i)                b = 0 at first

W. Shi, Q. Ling, G. Wu, W. Yin, *EXTRA: an exact first-order algorithm for decentralized consensus optimization*, 2015:
x^{t+2} = (I + W) x^{t+1} − W̃ x^t − η (g^{t+1} − g^t) with W̃ = (I + W)/2, and x¹ = W x⁰ − η g⁰; the sum of differences
is b. Σ b stays 0, so the mean moves by the mean gradient; at the optimum of the sum b_i = η ∇F_i, wherefore the rate
should not change much from round to round. b = 0 for ever is D-PSGD, combine then adapt. Not D², which adapts first and
has other conditions; nor with several local steps, whose bias b cannot see: those are refused; GT-DSGD takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from covey.algorithms.algorithm import Algorithm, Habit
from covey.errors import BadInput
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.tasks.task import Task
from covey.training import SGD


@dataclass(frozen=True)
class EXTRA(Algorithm):
    """One gradient step, taken after the exchange, and the sum of all differences so far."""

    local: SGD
    habit: ClassVar[Habit] = Habit(momentum=0.0, steps=1)

    def __post_init__(self) -> None:
        if self.local.steps != 1:
            raise BadInput("EXTRA takes one step per round; use SGD(steps=1) (--steps 1), or gtdsgd for several.")

    @property
    def needs(self) -> Needs:
        return "symmetric-fixed"

    def prepare(self, task: Task) -> Task:
        return task.whole()

    def start(self, peers: Peers, link: Link) -> None:
        peers.state["differences"] = torch.zeros_like(peers.rows)

    def train(self, peers: Peers) -> None:
        peers.state["before"] = peers.rows.clone()
        peers.train(self.local)

    def exchange(self, peers: Peers, link: Link) -> None:
        x, b = peers.state["before"], peers.state["differences"]
        mixed, trained = link.mix(x), peers.task.layout.trained("all")
        peers.rows = mixed + b + (peers.rows - x)
        more = b.clone()
        more[:, trained] += (mixed - x)[:, trained] / 2  # running statistics are averaged and no more
        peers.state["differences"] = peers.of_active(more, b)
