"""SQuARM-SGD: SPARQ-SGD with Nesterov's momentum.

    v ← β (η_{t−1} / η_t) v + g_i(x; ξ);   x ← x − η_t (g + β v)            H = local.steps times, v never sent
    if ‖x_i^{½} − x̂_i‖² > c_t η_t²:  q_i = C(x_i^{½} − x̂_i),  else q_i = 0
    x̂_i⁺ = x̂_i + q_i;   x_i⁺ = x_i^{½} + γ Σ_j w_ij (x̂_j⁺ − x̂_i⁺)

N. Singh, D. Data, J. George, S. Diggavi, *SQuARM-SGD: communication-efficient momentum SGD for decentralized
optimization*, 2020 (Algorithm 1; q_i is computed once, not per neighbour). `rescale=False` leaves the factor out
(D-25); with a constant rate it is one. With v̄ the mean buffer, x̄ − (ηβ²/(1 − β)) v̄ moves by exactly
−(η/(1 − β)) times the mean gradient, whatever C, γ, the trigger and H are. β = 0 is SPARQ-SGD. Not DFedAvgM by
compressed gossip: here the momentum lives on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from covey.algorithms.algorithm import Habit
from covey.algorithms.sparq import SPARQ
from covey.errors import BadInput


@dataclass(frozen=True)
class SQuARM(SPARQ):
    """Local steps with Nesterov's momentum, then compressed gossip that a trigger may silence."""

    beta: float = 0.9
    rescale: bool = True
    habit: ClassVar[Habit] = Habit(momentum=0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.beta < 1:
            raise BadInput(f"SQuARM(beta={self.beta}) is out of range; use a momentum in [0, 1).")
        if self.local.momentum not in (0.0, self.beta):
            raise BadInput(f"SQuARM has beta={self.beta}; give its SGD momentum=0, not {self.local.momentum}.")
        momentum = replace(self.local, momentum=self.beta, nesterov=self.beta > 0, rescale=self.rescale)
        object.__setattr__(self, "local", momentum)
