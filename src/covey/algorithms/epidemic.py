"""Epidemic: local steps, then everybody sends its model to a few at random, and averages what it happens to hear.

    x_i^{½} = x_i after K steps of  x ← x − η g_i(x; ξ)
    x_i⁺ = (x_i^{½} + Σ_{j ∈ S_i} x_j^{½}) / (1 + |S_i|)             S_i: those who drew i in this round

M. de Vos et al., *Epidemic learning: boosting decentralized learning with randomized communication*, 2023. EL-Local is
this on the graph `epidemic:K`, where each draws K others by itself; EL-Oracle is it on `random_undirected:K`, where all
hear equally many. It is DFedAvg, and it is the graph that makes the method: one that never changes is refused. Under
EL-Local the mean over peers moves a little in every round, and stays in expectation. Not push-sum, which would keep it:
receivers weigh alike all that they hear, and nobody sends a mass.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.dfedavg import DFedAvg
from covey.errors import BadInput
from covey.exchange import Gossip
from covey.graphs.soundness import Needs


@dataclass(frozen=True)
class Epidemic(DFedAvg):
    """DFedAvg among neighbours drawn anew in every round."""

    def __post_init__(self) -> None:
        if not isinstance(self.by, Gossip):
            raise BadInput(f"Epidemic averages what it hears; leave `by` at Gossip(), instead of {self.by}.")

    @property
    def needs(self) -> Needs:
        return "changing"
