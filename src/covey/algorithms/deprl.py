"""DePRL: personal heads on a shared representation φ, learned by gossip.

    θ_i(k+1)   τ steps of  θ ← θ − α g_θ(φ_i(k), θ; ξ)
    φ_i(k+½) = φ_i(k) − β g_φ(φ_i(k), θ_i(k+1); ξ)
    φ_i(k+1) = Σ_j P_ij φ_j(k+½)

*DePRL: Achieving Linear Convergence Speedup in Personalized Decentralized Learning with Shared Representations*. This
is DFedAlt with K_v = τ head steps at rate α and one body step at rate β (the print's θ_i(k, τ−1) is the last iterate
θ_i(k, τ)). The paper's experiments count epochs instead: 2 for the head, 1 for the body; pass SGD(epochs=…) for both.
Its code averages with uniform weights, which on a random graph are not doubly stochastic: `erdos_renyi(…, "uniform")`
with `allow_unsound=True` is that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from covey.algorithms.algorithm import Habit
from covey.algorithms.dfedalt import DFedAlt


@dataclass(frozen=True)
class DePRL(DFedAlt):
    """DFedAlt as the DePRL paper has it: `personal` is the head phase (τ, α), `shared` the body phase (β)."""

    habit: ClassVar[Habit] = Habit(head_epochs=2)
