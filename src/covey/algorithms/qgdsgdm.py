"""QG-DSGDm: momentum that follows the mixed model instead of a peer's own gradients.

    x ← x − η (g_i(x; ξ) + μ m̂_i)                                 K steps, m̂ held;  Nesterov: (1 + μ) g + μ² m̂
    x_i⁺ = Σ_j W_ij x_j^{½};   m̂_i⁺ = (1 − κ) m̂_i + κ (x_i − x_i⁺) / (η K)                        m̂ = 0 at first

T. Lin, S. P. Karimireddy, S. U. Stich, M. Jaggi, *Quasi-global momentum: accelerating decentralized deep learning on
heterogeneous data*, 2021. κ = 1 − μ unless given. The paper takes one step per round (K = 1); with several, m̂ is held
and then follows their mean. m̂ is never sent. Where η was 0 nothing was learned, and m̂ stays. μ = 0 is DFedAvg. Not
DSGDm, whose buffer gathers a peer's own gradients and so points where that peer's data pull.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from covey.algorithms.algorithm import Habit
from covey.algorithms.dfedavg import DFedAvg
from covey.errors import BadInput
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class QGDSGDm(DFedAvg):
    """DFedAvg with quasi-global momentum."""

    mu: float = 0.9
    kappa: float | None = None
    nesterov: bool = False
    habit: ClassVar[Habit] = Habit(momentum=0.0)

    def __post_init__(self) -> None:
        if not 0 <= self.mu < 1:
            raise BadInput(f"QGDSGDm(mu={self.mu}) is out of range; use a momentum in [0, 1).")
        if self.kappa is not None and not 0 < self.kappa <= 1:
            raise BadInput(f"QGDSGDm(kappa={self.kappa}) is out of range; use a share in (0, 1], or None for 1 − mu.")
        if self.local.momentum:
            raise BadInput(f"QGDSGDm has mu={self.mu}; give its SGD momentum=0, not {self.local.momentum}.")
        if self.by.needs.startswith("column"):
            raise BadInput(f"QGDSGDm follows x − x⁺, which by push-sum is no step; use gossip, not {self.by}.")

    def start(self, peers: Peers, link: Link) -> None:
        super().start(peers, link)
        peers.state["momentum"] = torch.zeros_like(peers.rows)

    def train(self, peers: Peers) -> None:
        peers.state["before"] = peers.rows.clone()
        mu, m, local = self.mu, peers.state["momentum"], self.local
        if self.nesterov:  # (1 + μ) (g + μ² / (1 + μ) m̂)
            rate = local.lr
            lr = (lambda step: (1 + mu) * rate(step)) if callable(rate) else (1 + mu) * rate
            peers.train(replace(local, lr=lr), plus=mu**2 / (1 + mu) * m)
        else:
            peers.train(local, plus=mu * m)

    def exchange(self, peers: Peers, link: Link) -> None:
        super().exchange(peers, link)
        m, kappa = peers.state["momentum"], 1 - self.mu if self.kappa is None else self.kappa
        scale = 1 + self.mu if self.nesterov else 1.0
        d = scale * peers.direction(self.local, peers.state["before"], peers.rows)
        moved = peers.steps(self.local) * peers.progress()[1] > 0
        peers.state["momentum"] = peers.of_active(torch.where(moved, (1 - kappa) * m + kappa * d, m), m)
