"""Compressed push-sum: averages over a directed graph, said in few bits.

    q_i = C(x_i − x̂_i);   x̂_i⁺ = x̂_i + q_i
    x_i⁺ = x_i + γ (Σ_j p_ij x̂_j⁺ − x̂_i⁺);   μ_i⁺ = μ_i + γ (Σ_j p_ij μ_j − μ_i);   the model is x / μ

H. Taheri, A. Mokhtari, H. Hassani, R. Pedarsani, *Quantized decentralized stochastic learning over directed graphs*,
2020 (γ = 1), with the step γ of M. T. Toghani, C. A. Uribe, *Communication-efficient distributed cooperative learning
with compressed beliefs*, 2022. Columns of P sum to one, so Σx and Σμ stay for every C, γ and trigger: what is not said
stays with its owner. The mass is one exact number per message. Both x and μ follow the same lazy matrix
(1 − γ) I + γ P, so with C = Identity this is push-sum over it. The graph must not change (see `compressed.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from covey.compress import Message
from covey.errors import BadInput
from covey.exchange.compressed import Compressed
from covey.exchange.gamma import flags
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class CompressedPush(Compressed):
    """X⁺ = X + γ (P − I) X̂⁺ and μ⁺ = μ + γ (P − I) μ."""

    needs: ClassVar[Needs] = "column-fixed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.copies != "sum" or self.order != "post":
            raise BadInput("CompressedPush keeps sums of copies and speaks first; leave copies='sum' and order='post'.")
        if self.gamma == "theory":
            raise BadInput("gamma='theory' is for symmetric weights; push with a number, 'usual' or 'auto'.")

    def start(self, peers: Peers, link: Link) -> None:
        super().start(peers, link)
        peers.state["mass"] = peers.ones()

    def hear(self, q: Message, peers: Peers, link: Link) -> Tensor | None:
        state = peers.state
        if self.gamma == "auto":
            state["sum"], mass, heard = link.mix(q, state["mass"], flags(peers), carry=True, onto=state["sum"])
        else:
            (state["sum"], mass), heard = link.mix(q, state["mass"], carry=True, onto=state["sum"]), None
        state["mass"] = state["mass"] + state["gamma"] * (mass - state["mass"])
        return heard

    def mass(self, peers: Peers) -> Tensor:
        return peers.state["mass"]
