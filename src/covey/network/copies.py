"""Running sums of changes, so that what a neighbour has lost can be said again as a whole.

Changes of public copies must arrive in order and once. The streams see to that, unless a peer loses its disk, or goes
back to an older copy of it. Then what it has kept is not what was said: the numbers differ, or the digests

    chain = H(chain, message)        chain = H(sum) where the whole sum was said

and the whole sum is said next, dense, in the place of the change; the receiver adds by how much it differs from what
it had. The same is done where so many changes wait for a neighbour that their sum is shorter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from covey.compress import Message
from covey.network.codec import decode_row, encode_row
from covey.network.heard import Things
from covey.network.post import Post
from covey.network.protocol import Letter
from covey.network.store import Outgoing
from covey.network.wire import Kind


def chained(chain: bytes, kind: Kind, body: bytes | memoryview) -> bytes:
    """The digest of all that was said, with one message more."""
    start = b"sum" if kind is Kind.SUM else chain
    return hashlib.blake2b(bytes(start) + bytes(body), digest_size=16).digest()


class Copies:
    """`tensors`: what I have said in each call, "said/call", and what I have heard of each neighbour,
    "heard/call/name". Only calls with changes have any."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self.tensors: dict[str, Tensor] = {}

    def say(self, call: int, change: Message) -> None:
        change.add_to(self._sum(f"said/{call}", change))

    def letter(self, plain: Outgoing, body: bytes, messages: Sequence[Message]) -> Outgoing:
        """The message to one neighbour: the change, or the whole sum."""
        waiting = self._post.afresh(plain.neighbour, plain.call)
        kind, own = Kind.SAID, None
        if waiting is not None:
            kind, own = Kind.SUM, self._whole(plain.call, waiting, messages)
        chain = chained(self._post.chain(plain.neighbour, plain.call), kind, body if own is None else own)
        return replace(plain, letter=replace(plain.letter, kind=kind, body=own, chain=chain))

    def _whole(self, call: int, waiting: Sequence[Letter], messages: Sequence[Message]) -> bytes:
        """The sum, and beside it what else has not arrived, added up (mass)."""
        rest = [message.dense.clone() for message in messages[1:]]
        for letter in waiting:
            body = letter.body if letter.body is not None else self._post.store.said(letter.round, call)
            like = self.like(messages) if letter.kind is Kind.SUM else messages
            things = [] if body is None else decode_row(body, like)[1:]
            for total, thing in zip(rest, things, strict=False):
                if thing is not None:
                    thing.add_to(total)
        return b"".join(encode_row([Message.of(one) for one in (self.tensors[f"said/{call}"], *rest)]))

    def like(self, messages: Sequence[Message]) -> list[Message]:
        """What a whole sum looks like."""
        return [Message.of(torch.zeros_like(message.dense)) for message in messages]

    def hear(self, name: str, call: int, things: Things, whole: bool) -> Things:
        """Add a change to what was heard; of a whole sum, what is to be added."""
        first = things[0]
        if first is None:
            return things
        heard = self._sum(f"heard/{call}/{name}", first)
        if not whole:
            first.add_to(heard)
            return things
        change = first.dense - heard
        heard.copy_(first.dense)
        return [Message.of(change), *things[1:]]

    def _sum(self, key: str, like: Message) -> Tensor:
        if key not in self.tensors:
            self.tensors[key] = torch.zeros_like(like.dense)
        return self.tensors[key]
