"""DFedPGP: heads and bodies in turn, bodies pushed over a directed graph.

    v_i^{t+1}    K_v steps of  v ← v − η_v ∇_v F_i(z_i^t, v; ξ),        z_i = u_i / μ_i
    u_i^{t+½}    K_u steps of  u ← u − η_u ∇_u F_i(u / μ_i^t, v_i^{t+1}; ξ)
    u_i^{t+1}  = Σ_j P_ij u_j^{t+½};   μ_i^{t+1} = Σ_j P_ij μ_j^t;   z_i^{t+1} = u_i^{t+1} / μ_i^{t+1}

*Decentralized Directed Collaboration for Personalized Federated Learning* (Algorithm 1). P is column-stochastic: the
sender splits its mass, so Σμ = m. On a row-stochastic P (`weights="pull"`, the paper's Appendix B and code) μ stays 1
and the method is DFedAlt on that graph. Gradients are taken at z, steps act on u (so the effective rate is η_u / μ).
Evaluation: (z_i, v_i) after the exchange. u alone is not a
model: it means nothing without its mass. It is DFedAlt with push-sum in the place of gossip, and made so here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.algorithms.dfedalt import DFedAlt
from covey.exchange import Exchange, PushSum


@dataclass(frozen=True)
class DFedPGP(DFedAlt):
    """Local training of head and body in turn at z = u / μ; push-sum of the bodies."""

    by: Exchange = field(default=PushSum(), kw_only=True)
