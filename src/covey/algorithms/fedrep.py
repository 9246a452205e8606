"""FedRep: heads and bodies in turn, bodies averaged by a server.

    i ∈ S_t:  τ_h epochs on v_i with u frozen, then τ_b epochs on u with v_i frozen
    u ← Σ_{i∈S_t} p_i u_i;   v_i stays

L. Collins, H. Hassani, A. Mokhtari, S. Shakkottai, *Exploiting shared representations for personalized federated
learning*, 2021 (official: τ_h = 10, τ_b = 1). DFedAlt with a server in the place of the neighbours. Not FedPer, which
trains both at once, nor one optimiser over both with rates of zero: each phase has its own state.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.dfedalt import DFedAlt
from covey.graphs.soundness import Needs


@dataclass(frozen=True)
class FedRep(DFedAlt):
    """Alternating local training of head and body; the server averages the bodies."""

    @property
    def needs(self) -> Needs:
        return "server"
