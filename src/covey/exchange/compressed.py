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

What is said are changes, so they travel with `carry`: a network delivers them late rather than never, once, and in
order. Until a late one is there, its receivers' s_i lack it, and the mean moves by γ w_ij times what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from covey.compress import Compressor, Message
from covey.errors import BadInput
from covey.exchange.exchange import Exchange
from covey.exchange.gamma import Gamma, adapt, first_step, flags, lead, require_gamma, watch
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.randomness import key
from covey.rows import blocks
from covey.trigger import Trigger, always


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
        if self.trigger.per == "tensor" and self.compressor.whole:
            raise BadInput(f"{self.compressor} speaks of the whole model, so its trigger cannot look per tensor.")

    def start(self, peers: Peers, link: Link) -> None:
        self.compressor.require_fits(peers.shared.shape[1])
        if self.copies == "each" and not link.graph.fixed:
            raise BadInput(f"copies='each' needs neighbours that stay, and graph '{link.graph.name}' changes.")
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
        peers.state["spoke"] = peers.rows.new_zeros(len(peers), 2)
        if self.gamma == "auto":
            watch(peers, link)

    def __call__(self, peers: Peers, link: Link) -> None:
        if self.order == "pre":
            self.follow(peers, link)
        q = compressed(self.compressor, self.trigger, peers.shared, peers, known=peers.state["hat"])
        q.add_to(peers.state["hat"])
        heard = self.hear(q, peers, link)
        if heard is not None:
            adapt(peers, heard, self.leads(peers, link))
        if self.order == "post":
            self.follow(peers, link)

    def follow(self, peers: Peers, link: Link) -> None:
        """x ← x + γ (Σ_j w_ij x̂_j − x̂_i), in place."""
        x, gamma = peers.shared, peers.state["gamma"]
        for rows in blocks(x):
            x[rows] += self.towards(peers, link, rows).mul_(gamma[rows])

    def leads(self, peers: Peers, link: Link) -> Tensor:
        """What γ="auto" looks at, [rows, 3]."""
        x, hat = peers.shared, peers.state["hat"]
        return torch.cat([lead(self.towards(peers, link, rows), x[rows] - hat[rows]) for rows in blocks(x)])

    def hear(self, q: Message, peers: Peers, link: Link) -> Tensor | None:
        """Bring what is kept of the neighbours' copies up to date; the neighbours' flags, where γ adapts."""
        state = peers.state
        if self.copies == "each":
            state["copies"] = state["copies"] + link.gather(q, carry=True).rows
            return None
        if self.gamma != "auto":
            state["sum"] = link.mix(q, carry=True, onto=state["sum"])
            return None
        state["sum"], heard = link.mix(q, flags(peers), carry=True, onto=state["sum"])
        return heard

    def towards(self, peers: Peers, link: Link, rows: slice) -> Tensor:
        """Σ_j w_ij x̂_j − x̂_i of some rows, a new tensor."""
        hat = peers.state["hat"][rows]
        if self.copies == "sum":
            return peers.state["sum"][rows] - hat
        weights = link.weights().to(hat)[rows]
        return (weights[..., None] * (peers.state["copies"][rows] - hat[:, None])).sum(1)


def compressed(
    compressor: Compressor, trigger: Trigger, x: Tensor, peers: Peers, known: Tensor | None = None
) -> Message:
    """The message of each peer, of x or of how it differs from what is known of it, tensor by tensor; a bit more where
    receivers must be told whether there is one.

    state["spoke"] [rows, 2] counts what was said and what could have been: messages, or tensors where the trigger looks
    at each.
    """
    tensors = peers.tensors("shared")
    seen = tensors if trigger.per == "tensor" else [slice(0, x.shape[1])]
    keys = key(peers.seed, "compress", peers.round, peers.ids)
    t, lr = peers.progress()
    active = peers.active.to(x.device)[:, None]
    messages: list[Message] = []
    counts: list[Tensor] = []
    for rows in blocks(x):
        gap = x[rows] if known is None else x[rows] - known[rows]
        size = gap.new_zeros(len(gap), len(seen))
        if trigger.asks:
            size = torch.stack([gap[:, part].square().sum(1) for part in seen], 1)
        send = trigger(size, peers.round, t[rows], lr[rows]) & active[rows]
        messages.append(compressor(gap, keys[rows], tensors=tensors, send=send))
        counts.append(torch.cat([send.sum(1, keepdim=True), active[rows] * len(seen)], 1))
    peers.state["spoke"] = peers.state["spoke"] + torch.cat(counts)
    message = Message.joined(messages)
    return message.told(len(seen)) if trigger.asks else message
