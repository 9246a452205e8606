"""Gossip: everyone takes the weighted average of what it hears.

    X⁺ = W X

With doubly stochastic W the mean over peers stays, and differences shrink by |λ₂(W)| per round. On a server graph this
is the server's average.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.exchange.exchange import Exchange
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class Gossip(Exchange):
    """X⁺ = W X."""

    def __call__(self, peers: Peers, link: Link) -> None:
        peers.shared = link.mix(peers.shared)
