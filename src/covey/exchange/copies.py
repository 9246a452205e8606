"""Public copies, one of every neighbour: for methods that look at neighbours one by one and mix nothing.

    x̂_k⁺ = x̂_k + C(x_k − x̂_k), or x̂_k where the trigger is silent        at k and at all who hear k

The copies begin at the first models, said without compression. Everybody who holds a copy of k holds the same numbers.
`state["hat"]` is one's own copy, `state["copies"]` [rows, slots, width] the neighbours', in the slots of `link.gather`,
and `state["neighbours"]` who they are. Nothing is averaged: x stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from covey.compress import Compressor
from covey.exchange.compressed import compressed
from covey.exchange.exchange import Exchange
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.trigger import Trigger, always


@dataclass(frozen=True)
class Copies(Exchange):
    """X̂⁺ = X̂ + C(X − X̂), held by all who hear."""

    compressor: Compressor
    trigger: Trigger = always
    needs: ClassVar[Needs] = "symmetric-fixed"

    def start(self, peers: Peers, link: Link) -> None:
        self.compressor.require_fits(peers.shared.shape[1])
        heard = link.gather(peers.shared)
        peers.state |= {"hat": peers.shared.clone(), "copies": heard.rows, "neighbours": heard.peers}
        peers.state["spoke"] = peers.rows.new_zeros(len(peers), 2)

    def __call__(self, peers: Peers, link: Link) -> None:
        q = compressed(self.compressor, self.trigger, peers.shared, peers, peers.state["hat"])
        q.add_to(peers.state["hat"])
        peers.state["copies"] += link.gather(q, carry=True).rows
