"""FedAvgM: FedAvg with momentum at the server.

    Δ_t = w_t − Σ_{i∈S_t} p_i w_i;   s ← β s + Δ_t;   w_{t+1} = w_t − η_s s                       β = 0.9, η_s = 1

T.-M. H. Hsu, H. Qi, M. Brown, *Measuring the effects of non-identical data distribution*, 2019. β = 0 and η_s = 1 is
FedAvg. Not DFedAvgM, whose momentum is local. Every row keeps the server's w and s, which are the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from covey.algorithms.fedavg import FedAvg
from covey.errors import BadInput
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """Federated averaging with server momentum."""

    beta: float = 0.9
    server_lr: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise BadInput(f"FedAvgM(beta={self.beta}) is out of range; use a momentum in [0, 1).")
        if not self.server_lr > 0:
            raise BadInput(f"FedAvgM(server_lr={self.server_lr}) is out of range; use a rate above 0, such as 1.")

    def start(self, peers: Peers, link: Link) -> None:
        super().start(peers, link)
        peers.state["server"] = peers.rows.clone()
        peers.state["momentum"] = torch.zeros_like(peers.rows)

    def exchange(self, peers: Peers, link: Link) -> None:
        super().exchange(peers, link)
        if not bool(link.round.active.any()):  # nobody was there: no step of the server
            return
        w = peers.state["server"]
        s = self.beta * peers.state["momentum"] + (w - peers.rows)
        peers.rows = w - self.server_lr * s
        peers.state["server"], peers.state["momentum"] = peers.rows.clone(), s
