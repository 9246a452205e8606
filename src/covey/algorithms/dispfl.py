"""Dis-PFL: every peer trains a sparse model of its own shape, and averages with neighbours what they both have.

    w_i ← m_i ⊙ (w_i − η g_i(w_i; ξ))                                          E epochs under the peer's mask m_i
    m_i⁺: of each tensor the share ρ_t of the weights, those smallest in magnitude, is given up, and as many that were
          masked come in, those with the largest |∇F_i(w_i; ξ')| or at random       ρ_t = (ρ_0 / 2)(1 + cos(πt / T))
    w_i⁺ = m_i⁺ ⊙ (Σ_j W_ij w_j) / (Σ_j W_ij m_j)                               over those that have the weight; else 0

R. Dai, L. Shen, F. He, X. Tian, D. Tao, *DisPFL: towards communication-efficient personalized federated learning via
decentralized sparse training*, 2022. Masks begin at random and different, with ERK densities (`training/masks.py`);
neighbours hear the mask that the weights were trained under. Their average is uniform: on regular graphs, and pulled
ones, that is W; elsewhere W's weights are used. Their published runs regrow at random, use no momentum, and let the
rate decay by 0.998; `rounds` is T (on the command line, that of the run). What regrows starts from the neighbours'
mean, or 0. The mean over peers moves. density = 1 is DFedAvg. Not pruning of a dense model: nobody ever holds one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from covey.algorithms.algorithm import Algorithm, Habit
from covey.compress.masked import masked
from covey.errors import BadInput
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.randomness import key, uniform
from covey.tasks.task import Task
from covey.training import SGD
from covey.training.masks import drawn, renewed


@dataclass(frozen=True)
class DisPFL(Algorithm):
    """Local steps under a mask that moves, and averages over those who have a weight."""

    local: SGD
    density: float = 0.5
    regrow: Literal["gradient", "random"] = "gradient"
    prune: float = 0.5
    rounds: int = 500
    habit: ClassVar[Habit] = Habit(momentum=0.0)

    def __post_init__(self) -> None:
        if not 0 < self.density <= 1:
            raise BadInput(f"DisPFL(density={self.density}) is out of range; use a share in (0, 1], such as 0.5.")
        if not 0 <= self.prune <= 1 or self.rounds < 1:
            raise BadInput(f"DisPFL(prune={self.prune}, rounds={self.rounds}): a share in [0, 1], and 1 round or more.")
        if self.regrow not in ("gradient", "random"):
            raise BadInput(f"DisPFL(regrow='{self.regrow}') is neither 'gradient' nor 'random'.")

    @property
    def needs(self) -> Needs:
        return "row"

    def prepare(self, task: Task) -> Task:
        return task.whole()

    def start(self, peers: Peers, link: Link) -> None:
        fields, keys = peers.task.layout.parameters.values(), key(peers.seed, "mask", peers.ids)
        peers.state["mask"] = drawn(fields, self.density, peers.rows.shape[1], keys).to(peers.rows.device)
        peers.rows = peers.rows * peers.state["mask"]

    def train(self, peers: Peers) -> None:
        mask = peers.state["held"] = peers.state["mask"]
        peers.train(self.local, mask=mask)
        share = self.prune / 2 * (1 + math.cos(math.pi * min(peers.round / self.rounds, 1.0)))
        if self.regrow == "gradient":
            score = peers.grad(local=self.local, purpose="regrow").abs()
        else:
            score = uniform(key(peers.seed, "regrow", peers.round, peers.ids), mask.shape[1]).to(mask.device)
        new = renewed(mask, peers.task.layout.parameters.values(), peers.rows, score, share)
        peers.state["mask"] = peers.of_active(new, mask)

    def exchange(self, peers: Peers, link: Link) -> None:
        total, having = link.mix(*masked(peers.rows, peers.state["held"]))
        peers.rows = torch.where(having > 0, total / having, 0.0) * peers.state["mask"]
