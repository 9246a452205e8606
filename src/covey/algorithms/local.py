"""Local: every peer alone.

    x ← x − η g(x; ξ)                            τ steps, all parameters, own data; nothing is sent

The floor of every comparison: a personalised method that does not beat it has nothing to say. Not FedAvg without
sampling, and not D-PSGD on the graph `isolated` by accident: that reduction is a test.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.algorithm import Algorithm
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.training import SGD


@dataclass(frozen=True)
class Local(Algorithm):
    """Every peer trains on its own data and never speaks."""

    local: SGD

    @property
    def needs(self) -> Needs:
        return "any"

    def train(self, peers: Peers) -> None:
        peers.train(self.local)

    def exchange(self, peers: Peers, link: Link) -> None:
        pass
