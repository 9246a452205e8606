"""Compressed gossip by public copies: everyone says how it differs from what its neighbours think it is, in few bits.

    q_i = C(x_i − x̂_i), or nothing where the trigger is silent;   x̂_i⁺ = x̂_i + q_i at i and at all who hear i
    x_i⁺ = x_i + γ Σ_j w_ij (x̂_j⁺ − x̂_i⁺)                          post: after the copies are brought up to date
    pre: x_i⁺ = x_i + γ Σ_j w_ij (x̂_j − x̂_i) first, then q_i = C(x_i⁺ − x̂_i): one step stale, communication overlaps

A. Koloskova, S. U. Stich, M. Jaggi, *Decentralized stochastic optimization and gossip algorithms with compressed
communication* (CHOCO), 2019; with a trigger it is the exchange of SPARQ-SGD and SQuARM-SGD. The mean over peers stays
for every C, γ and trigger. `copies`: a peer needs only the sum s_i = Σ_j w_ij x̂_j, which it brings up to date by what
it hears; "each" keeps every neighbour's copy, at a memory of degree times width, and gives the same numbers. Both need
a graph that never changes: to a new neighbour the sum means nothing. Copies begin at zero, as in the papers, or at the
first model, where that is `known` to be the same for all. C = Identity and γ = 1 is plain gossip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from covey.compress import Compressor, Message
from covey.errors import BadInput
from covey.exchange.exchange import Exchange
from covey.exchange.gamma import Gamma, adapt, first_step, flags, require_gamma, watch
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.randomness import key
from covey.trigger import Always, Trigger, always


@dataclass(frozen=True)
class Compressed(Exchange):
    """X⁺ = X + γ (W − I) X̂⁺ with copies that learn C(X − X̂)."""

    compressor: Compressor
    gamma: Gamma = "auto"
    trigger: Trigger = always
    order: Literal["post", "pre"] = "post"
    copies: Literal["sum", "each"] = "sum"
    known: bool = False
    needs: ClassVar[Needs] = "symmetric-fixed"

    def __post_init__(self) -> None:
        require_gamma(self.gamma)
        if self.copies == "each" and self.gamma == "auto":
            raise BadInput("gamma='auto' goes with copies='sum'; with copies='each' give a number, or 'usual'.")
        if self.order not in ("post", "pre") or self.copies not in ("sum", "each"):
            raise BadInput(f"order='{self.order}' is 'post' or 'pre', and copies='{self.copies}' is 'sum' or 'each'.")

    def start(self, peers: Peers, link: Link) -> None:
        self.compressor.require_fits(peers.shared.shape[1])
        first = peers.shared.clone() if self.known else torch.zeros_like(peers.shared)
        if self.known and not torch.equal(first, first[:1].expand_as(first)):
            raise BadInput("known=True takes the first model for known, but peers start from different shared models.")
        peers.state["hat"] = first
        if self.copies == "sum":
            peers.state["sum"] = link.weight_heard().to(first)[:, None] * first if self.known else first.clone()
        else:
            slots = link.neighbours().shape[1]
            peers.state["copies"] = first[:, None].repeat(1, slots, 1)
        peers.state["gamma"] = first_step(self.gamma, self.compressor, peers, link)
        if self.gamma == "auto":
            watch(peers)

    def __call__(self, peers: Peers, link: Link) -> None:
        x, state = peers.shared, peers.state
        if self.order == "pre":
            x = self.towards(peers, link).mul_(state["gamma"]).add_(x)
        q = compressed(self.compressor, self.trigger, x - state["hat"], peers)
        q.add_to(state["hat"])
        heard = self.hear(q, peers, link)
        if self.gamma == "auto" or self.order == "post":
            drawn = self.towards(peers, link)
            if heard is not None:
                adapt(peers, link, heard, drawn, x - state["hat"])
            if self.order == "post":
                x = drawn.mul_(state["gamma"]).add_(x)
        peers.shared = x

    def hear(self, q: Message, peers: Peers, link: Link) -> Tensor | None:
        """Bring what is kept of the neighbours' copies up to date; the neighbours' flags, where γ adapts."""
        state = peers.state
        if self.copies == "each":
            state["copies"] = state["copies"] + link.gather(q).rows
            return None
        if self.gamma != "auto":
            state["sum"] = link.mix(q, onto=state["sum"])
            return None
        state["sum"], heard = link.mix(q, flags(peers), onto=state["sum"])
        return heard

    def towards(self, peers: Peers, link: Link) -> Tensor:
        """Σ_j w_ij x̂_j − x̂_i, a new tensor."""
        hat = peers.state["hat"]
        if self.copies == "sum":
            return peers.state["sum"] - hat
        weights = link.weights().to(hat)
        return (weights[..., None] * (peers.state["copies"] - hat[:, None])).sum(1)


def compressed(compressor: Compressor, trigger: Trigger, gap: Tensor, peers: Peers) -> Message:
    """The message of each peer, tensor by tensor; a bit more where receivers must be told whether there is one."""
    tensors = peers.tensors("shared")
    keys = key(peers.seed, "compress", peers.round, peers.ids) if compressor.draws else None
    if isinstance(trigger, Always) and peers.everybody:
        return compressor(gap, keys, tensors=tensors)
    seen = tensors if trigger.per == "tensor" and not compressor.whole else [slice(0, gap.shape[1])]
    size = torch.stack([gap[:, part].square().sum(1) for part in seen], 1)
    send = trigger(size, peers.round, *peers.progress())
    send = send & peers.active.to(send.device)[:, None]
    message = compressor(gap, keys, tensors=tensors, send=send)
    return message.told(len(seen)) if trigger.asks else message
