"""SPARQ-SGD: CHOCO-SGD with local steps, and silence where there is little to say.

    x_i^{½} after H = local.steps steps of  x ← x − η g_i(x; ξ)
    if ‖x_i^{½} − x̂_i‖² > c_t η_t²:  q_i = C(x_i^{½} − x̂_i),  else q_i = 0
    x̂_i⁺ = x̂_i + q_i;   x_i⁺ = x_i^{½} + γ Σ_j w_ij (x̂_j⁺ − x̂_i⁺)

N. Singh, D. Data, J. George, S. Diggavi, *SPARQ-SGD: event-triggered and compressed communication in decentralized
stochastic optimization*, 2019. SQuARM-SGD without momentum; a trigger that always speaks makes it CHOCO-SGD with local
steps. Not momentum-free by accident: a momentum in `local` lives on, as in DSGDm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from covey.algorithms.algorithm import Habit
from covey.algorithms.dsgdm import DSGDm
from covey.compress import Compressor
from covey.exchange import Compressed, Exchange
from covey.exchange.gamma import Gamma
from covey.trigger import Trigger, always


@dataclass(frozen=True)
class SPARQ(DSGDm):
    """Local steps, then compressed gossip that a trigger may silence."""

    compressor: Compressor
    gamma: Gamma = "auto"
    trigger: Trigger = always
    by: Exchange = field(init=False, repr=False)
    habit: ClassVar[Habit] = Habit(momentum=0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", Compressed(self.compressor, self.gamma, self.trigger))
