"""DFedSAM: DFedAvgM whose gradient is taken where it is steepest, over the whole model.

    ε = ρ g_i(y; ξ) / ‖g_i(y; ξ)‖₂;   y ← y − η ∇F_i(y + ε; ξ)          K steps, the same batch ξ, momentum reset
    z_i = y_i^K;   x_i⁺ = Σ_j W_ij z_j                                   Q times in a row (`gossips`): DFedSAM-MGS

Y. Shi et al., *Improving the model consistency of decentralized federated learning*, 2023. ρ is `local.sam` (the papers
take 0.01); every step costs two gradients. ρ = 0 is DFedAvgM, bit for bit. Each of the Q exchanges is paid for. Not
DFedSalt, which keeps its head, trains in turn, and takes the norm over the trained part alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from covey.algorithms.algorithm import Habit
from covey.algorithms.dfedavg import DFedAvgM
from covey.errors import BadInput
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class DFedSAM(DFedAvgM):
    """DFedAvgM with sharpness-aware local steps."""

    gossips: int = 1
    habit: ClassVar[Habit] = Habit(sharp=True)

    def __post_init__(self) -> None:
        if self.gossips < 1:
            raise BadInput(f"DFedSAM(gossips={self.gossips}) would never exchange; use 1, or a few for DFedSAM-MGS.")

    def exchange(self, peers: Peers, link: Link) -> None:
        for _ in range(self.gossips):
            super().exchange(peers, link)
