"""SGP: stochastic gradient push, the whole model over a directed graph.

    x_i^{½} = x_i − η ∇F_i(z_i; ξ),   z_i = x_i / w_i                            K local steps, w fixed meanwhile
    x_i⁺ = Σ_j P_ij x_j^{½};   w_i⁺ = Σ_j P_ij w_j;   z_i⁺ = x_i⁺ / w_i⁺

M. Assran, N. Loizou, N. Ballas, M. Rabbat, *Stochastic gradient push for distributed deep learning*, 2019. Momentum and
weight decay act on the numerator x and stay local, as in the authors' code. Σx and Σw are kept by every exchange. It is
DFedAvg with push-sum in the place of gossip, and made so here; with doubly stochastic P, w = 1 and the two are equal.
It is also DFedPGP without a personal part. Not for graphs whose rows sum to one: there w stays 1 and the limit is not
the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from covey.algorithms.algorithm import Habit
from covey.algorithms.dfedavg import DFedAvg
from covey.exchange import Exchange, PushSum


@dataclass(frozen=True)
class SGP(DFedAvg):
    """Local steps at the de-biased model z = x / w, then push-sum."""

    by: Exchange = field(default=PushSum(), kw_only=True)
    habit: ClassVar[Habit] = Habit()
