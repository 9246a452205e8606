"""D-PSGD: one gradient step and one exchange, in either order.

    atc  adapt then combine   x_i⁺ = Σ_j W_ij (x_j − η g_j(x_j))
    cta  combine then adapt   x_i⁺ = Σ_j W_ij x_j − η g_i(x_i)         gradient at the point before the exchange

X. Lian et al., *Can decentralized algorithms outperform centralized algorithms?*, 2017 (cta, the original). With more
than one local step atc is DFedAvg, and cta adds the whole local change after mixing. Both move the mean by the mean
gradient; their fixed points differ. The default is atc, as the papers' code and all forms with local steps have it. Not
gradient tracking: with different data the fixed point is biased in the order of η.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from covey.algorithms.algorithm import Habit
from covey.algorithms.dfedavg import DFedAvg
from covey.errors import BadInput
from covey.exchange import Gossip
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class DPSGD(DFedAvg):
    """Gradient step and gossip."""

    order: Literal["atc", "cta"] = "atc"
    habit: ClassVar[Habit] = Habit(momentum=0.0)

    def __post_init__(self) -> None:
        if self.order not in ("atc", "cta"):
            raise BadInput(f"DPSGD(order='{self.order}') is neither 'atc' (adapt then combine) nor 'cta'.")
        if self.order == "cta" and not isinstance(self.by, Gossip):
            raise BadInput(f"DPSGD(order='cta') adds its step after plain gossip; for {self.by} use order='atc'.")

    def train(self, peers: Peers) -> None:
        if self.order == "cta":
            peers.state["before"] = peers.shared.clone()
        super().train(peers)

    def exchange(self, peers: Peers, link: Link) -> None:
        if self.order == "atc":
            super().exchange(peers, link)
        else:
            before = peers.state["before"]
            step = peers.shared - before
            peers.shared = before
            super().exchange(peers, link)
            peers.shared = peers.shared + step
