"""CHOCO-SGD: local steps, then compressed gossip by public copies.

    x_i^{½} = x_i − η d_i                                             d_i: gradient, or momentum that lives on
    q_i = C(x_i^{½} − x̂_i);   x̂_i⁺ = x̂_i + q_i                       everywhere where x̂_i is kept
    x_i⁺ = x_i^{½} + γ Σ_j w_ij (x̂_j⁺ − x̂_i⁺)                         order="pre": with the old copies, then q_i

A. Koloskova, S. U. Stich, M. Jaggi, *Decentralized stochastic optimization and gossip algorithms with compressed
communication*, 2019. The default order is the paper's listing; "pre" is its published code. C = Identity and γ = 1 is
DSGDm, and with one plain step adapt-then-combine D-PSGD. Not SPARQ-SGD, which adds a trigger, though one local step or
several make no difference here. The exchange itself is `covey.exchange.Compressed`, and fits other methods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from covey.algorithms.algorithm import Habit
from covey.algorithms.dsgdm import DSGDm
from covey.compress import Compressor
from covey.exchange import Compressed, Exchange
from covey.exchange.gamma import Gamma


@dataclass(frozen=True)
class CHOCO(DSGDm):
    """DSGDm by compressed gossip."""

    compressor: Compressor
    gamma: Gamma = "auto"
    order: Literal["post", "pre"] = "post"
    by: Exchange = field(init=False, repr=False)
    habit: ClassVar[Habit] = Habit(momentum=0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", Compressed(self.compressor, self.gamma, order=self.order))
