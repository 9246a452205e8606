"""DFedSalt: DFedAlt whose gradient is taken where it is steepest (SAM).

    ε = ρ ∇_u F_i(u, v; ξ) / ‖∇_u F_i(u, v; ξ)‖₂              norm over the trained part only; ε = 0 where the norm is 0
    u ← u − η_u ∇_u F_i(u + ε, v; ξ)                           the same batch ξ

*Towards More Suitable Personalization in Federated Learning via Decentralized Partial Model Training* (Algorithm 1,
option II; line 19 of the print loses "+ε"). ρ is `sam` of the phases that `on` names: the body (the paper's choice),
the head, or both, each with its own norm, since the phases alternate. ρ = 0 is DFedAlt, bit for bit. Under push-sum ε
is added to u, so its radius at z = u / μ is ρ / μ. Not DFedSAM, which perturbs and exchanges the whole model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from covey.algorithms.algorithm import Habit
from covey.algorithms.dfedalt import DFedAlt
from covey.errors import BadInput


@dataclass(frozen=True)
class DFedSalt(DFedAlt):
    """DFedAlt with sharpness-aware local steps."""

    on: Literal["shared", "personal", "both"] = "shared"
    habit: ClassVar[Habit] = Habit(sharp=True)

    def __post_init__(self) -> None:
        if self.on not in ("shared", "personal", "both"):
            raise BadInput(f"DFedSalt(on='{self.on}') is none of 'shared', 'personal' and 'both'.")
        for phase, sam in (("shared", self.shared.sam), ("personal", self.personal.sam)):
            if sam and self.on not in (phase, "both"):
                raise BadInput(
                    f"DFedSalt(on='{self.on}') keeps the {phase} phase plain, but its SGD has sam={sam}; "
                    f"use on='both', or sam=0 there."
                )
