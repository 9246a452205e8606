"""FedPer: FedAvg of the body; every peer keeps its head.

    i ∈ S_t:  (u, v_i) after E epochs of SGD, jointly, at one rate
    u ← Σ_{i∈S_t} p_i u_i;   v_i stays

M. G. Arivazhagan et al., *Federated learning with personalization layers*, 2019. Who is not sampled keeps its head
unchanged. The same local rule with gossip instead of a server is DFedAvgM-P; with no personal part it is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.dfedavgmp import DFedAvgMP
from covey.graphs.soundness import Needs


@dataclass(frozen=True)
class FedPer(DFedAvgMP):
    """Joint local steps on body and head; the server averages the bodies."""

    @property
    def needs(self) -> Needs:
        return "server"
