"""Heads: every peer trains its head alone, on a representation that stays as it is.

    v_i ← v_i − η ∇_v F_i(φ, v_i; ξ)            φ frozen and the same for all, own data; nothing is sent

How the papers judge a representation φ by peers that had no part in it (Xiong et al., DePRL, AAAI 2024, Tables 2 and
8); `covey.adapt` takes φ from a run. Not FedBABU, whose heads stay while the body is trained, nor Local, which moves φ.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.local import Local
from covey.errors import BadInput
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class Heads(Local):
    """Every peer trains its head on its own data and never speaks; `of` says where the representation is from."""

    of: str = "untrained"

    def start(self, peers: Peers, link: Link) -> None:
        if peers.personal.shape[1] == 0:
            raise BadInput("Heads trains what is personal, and here all is shared; name the head, as personal='head'.")

    def train(self, peers: Peers) -> None:
        peers.train(self.local, group="personal")
