"""DFedAlt: heads and bodies in turn, bodies gossiped.

    v_i^{t+1}    K_v steps of  v ← v − η_v ∇_v F_i(u_i^t, v; ξ)                     body frozen
    u_i^{t+½}    K_u steps of  u ← u − η_u ∇_u F_i(u, v_i^{t+1}; ξ)                 head frozen
    u_i^{t+1}  = Σ_l W_il u_l^{t+½}

*Towards More Suitable Personalization in Federated Learning via Decentralized Partial Model Training* (Algorithm 1,
option I; its line 13 prints z_i for z_l). Output and evaluation: (u_i, v_i) after the exchange. Every step draws a
fresh batch. On a server with everybody taking part it is FedRep. Not DFedAvgM-P, which trains both at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.algorithm import Cooperative
from covey.peers import Peers
from covey.training import SGD


@dataclass(frozen=True)
class DFedAlt(Cooperative):
    """Local training of head and body in turn; the bodies are exchanged: U⁺ = W U^{½}."""

    personal: SGD
    shared: SGD

    def train(self, peers: Peers) -> None:
        mass = self.by.mass(peers)  # 1 under gossip; see DFedPGP
        peers.train(self.personal, group="personal", mass=mass)
        peers.train(self.shared, group="shared", mass=mass)
