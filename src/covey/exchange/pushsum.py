"""Push-sum: averages over a directed graph, where nobody can make both rows and columns of the weights sum to one.

    X⁺ = P X;   μ⁺ = P μ,  μ⁰ = 1;   the model is X / μ

D. Kempe, A. Dobra, J. Gehrke, *Gossip-based computation of aggregate information*, 2003. The sender splits what it has
(columns of P sum to one), so ΣX and Σμ stay, and X / μ tends to the true mean on every strongly connected sequence of
graphs. What is undelivered arrives later and is added once (`carry`), so loss of a message delays mass and never
destroys it. Gradients belong at X / μ; steps act on X, so the effective rate is η / μ: watch the smallest mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from covey.errors import BadInput
from covey.exchange.exchange import Exchange
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class PushSum(Exchange):
    """X⁺ = P X with mass. overlap: take what has arrived and go on; the rest is added when it comes."""

    overlap: bool = False
    needs: ClassVar[Needs] = "column-or-pull"

    def start(self, peers: Peers, link: Link) -> None:
        if self.overlap and not link.graph.column_stochastic:
            raise BadInput("PushSum(overlap=True) needs a graph whose columns sum to one, such as random_directed:K.")
        peers.state["mass"] = peers.ones()

    def __call__(self, peers: Peers, link: Link) -> None:
        if not link.graph.column_stochastic:  # pulled: mass stays one, so nobody says it (D-01)
            peers.shared = link.mix(peers.shared)
            return
        wait = not self.overlap
        peers.shared, peers.state["mass"] = link.mix(peers.shared, peers.state["mass"], carry=True, wait=wait)

    def mass(self, peers: Peers) -> Tensor:
        return peers.state["mass"]
