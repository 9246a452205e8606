"""DFedAvgM-P: DFedAvgM with the head kept private (the ablation of the DFedPGP paper, its Table 4).

    (u_i, v_i) after K local steps with momentum θ, jointly, from (u_i^t, v_i^t)
    u_i⁺ = Σ_j W_ij u_j;   v_i⁺ = v_i

Head and body are trained together; trained in turn, it would be DFedAlt. With no personal part: DFedAvgM. Not
DFedAlt, whose phases have their own rates and momentum.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.algorithm import Cooperative
from covey.peers import Peers
from covey.training import SGD


@dataclass(frozen=True)
class DFedAvgMP(Cooperative):
    """Joint local steps on body and head, then gossip of the body alone."""

    local: SGD

    def train(self, peers: Peers) -> None:
        peers.train(self.local, mass=self.by.mass(peers))
