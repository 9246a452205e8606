"""Compressed exchange with error feedback: no copies, so the graph may change in every round.

    q_i = C(x_i + e_i);   e_i⁺ = x_i + e_i − q_i;   x_i⁺ = x_i + γ Σ_j w_ij (q_j − q_i)

In the manner of H. Tang et al., *DeepSqueeze*, 2019: what a message leaves out is said later. The mean over peers stays
for every C and γ. Unlike public copies (`compressed.py`) it compresses the model and not a difference that vanishes, so
under a strong compressor neighbours never agree exactly, and γ must be small; it is for graphs that change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from covey.compress import Compressor
from covey.errors import BadInput
from covey.exchange.compressed import compressed
from covey.exchange.exchange import Exchange
from covey.exchange.gamma import require_gamma
from covey.link import Link
from covey.peers import Peers
from covey.trigger import always


@dataclass(frozen=True)
class ErrorFeedback(Exchange):
    """X⁺ = X + γ (W − I) C(X + E)."""

    compressor: Compressor
    gamma: float = 0.1

    def __post_init__(self) -> None:
        require_gamma(self.gamma)
        if isinstance(cast(object, self.gamma), str):
            raise BadInput(f"ErrorFeedback(gamma='{self.gamma}') is no number; give one, such as 0.1.")

    def start(self, peers: Peers, link: Link) -> None:
        self.compressor.require_fits(peers.shared.shape[1])
        peers.state["error"] = torch.zeros_like(peers.shared)
        peers.state["spoke"] = peers.rows.new_zeros(len(peers), 2)

    def __call__(self, peers: Peers, link: Link) -> None:
        wanted = peers.shared + peers.state["error"]
        q = compressed(self.compressor, always, wanted, peers)
        peers.state["error"] = peers.of_active(wanted - q.dense, peers.state["error"])
        peers.shared = peers.shared + self.gamma * (link.mix(q) - q.dense)
