"""The link of a peer whose neighbours are other processes: one row here, the others' rows behind the post office.

Sums are added in the order of the senders, oneself in one's place, product and sum rounded apart: the bits of
`covey.simulate(exact=True)`. How a call of the link becomes messages depends on what it must keep when some are lost:

    carried   mass and changes: durable, numbered, added once, late ones in a later round (`carry=True`)
    agreed    snapshots on a symmetric graph: both ends use an edge, or neither (`agreement.py`)
    shown     snapshots on any other graph: the weight of who is absent goes to oneself
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from covey.compress import Message, Sparse
from covey.compress.payload import Damaged
from covey.errors import BadInput
from covey.graphs.graph import Graph
from covey.graphs.weights import SameRow
from covey.link import Gathered, Link, Thing
from covey.network import agreement
from covey.network.codec import decode_row, encode_row
from covey.network.copies import Copies, chained
from covey.network.heard import Hearing, Late, Things
from covey.network.post import Post
from covey.network.protocol import Letter
from covey.network.replay import Replay
from covey.network.store import Heard, Outgoing, Stream
from covey.network.wire import Frame, Kind
from covey.traffic import Traffic


class NetworkLink(Link):
    """See `covey.link.Link`. `roster` names all peers in order; `me` is my place in it."""

    def __init__(self, graph: Graph, me: int, roster: Sequence[str], post: Post) -> None:
        if graph.hub:
            raise BadInput(f"The graph {graph.name} has a server, and here nobody is in the middle; use a graph of "
                           "neighbours, such as ring.")  # fmt: skip
        self.graph, self.me, self.roster, self.post = graph, me, list(roster), post
        self.place = {name: i for i, name in enumerate(roster)}
        self.traffic = Traffic()
        self.t = -1
        self.taken: dict[Stream, tuple[int, bytes]] = {}  # by the round that is under way
        self.copies = Copies(post)
        self.pending: set[tuple[int, int, int]] = set()  # (round, call, neighbour): used there, perhaps; not yet here
        self._used: list[Heard] = []
        self.replay = Replay(post.store)
        self._calls = 0
        self.round = graph.round(0)

    def begin(self, t: int) -> None:
        self.t, self._calls, self._used = t, 0, []
        self.taken = {}
        self.round = self.graph.round(max(t, 0))
        self.traffic.begin()
        self.replay.begin(t)
        self.post.begin(t)

    def _mix(self, messages: list[Message], carry: bool, wait: bool, onto: Tensor | None) -> list[Tensor]:
        messages, heard = self._exchange(messages, carry, wait, onto is not None)
        return [self._sum(k, message, heard, onto if k == 0 else None) for k, message in enumerate(messages)]

    def gather(self, thing: Thing, *, carry: bool = False) -> Gathered:
        messages, heard = self._exchange([Message.of(thing)], carry, True, carry)
        own = messages[0]
        ids, weights = self._slots()
        rows = own.dense.new_zeros(1, ids.shape[1], *own.dense.shape[1:])
        slots = {peer: slot for slot, peer in enumerate(ids[0].tolist()) if peer >= 0}
        said = [(peer, things[0]) for peer, (_, things) in heard.now.items()]
        for peer, message in said + [(one.peer, one.things[0]) for one in heard.late if carry]:
            if message is not None and peer in slots:
                rows[0, slots[peer]] += message.dense[0].to(rows)
        absent = [] if carry else [slot for peer, slot in slots.items() if peer not in heard.now]
        if absent:
            ids, weights = ids.clone(), weights.clone()
            ids[0, absent], weights[0, absent] = -1, 0.0
        return Gathered(ids, weights, lambda part: rows[:, :, part])

    def _slots(self) -> tuple[Tensor, Tensor]:
        ids, weights = self.round.weights.senders()
        return ids[self.me : self.me + 1], weights[self.me : self.me + 1]

    def _own_weights(self) -> Tensor:
        return self.round.weights.diagonal()[self.me : self.me + 1]

    # what is heard

    def _exchange(
        self, messages: list[Message], carry: bool, wait: bool, deltas: bool
    ) -> tuple[list[Message], Hearing]:
        call = self._calls
        self._calls += 1
        self._count(messages, wait)
        body = b"".join(encode_row(messages))
        if carry or self.graph.symmetric:
            earlier = self.replay.said(call)
            if earlier is not None and earlier != body:  # a replay that trained a little differently: what was said
                body = earlier  # is what counts
                messages = [own or Message.of(torch.zeros_like(new.dense)) for own, new in
                            zip(decode_row(body, messages), messages, strict=True)]  # fmt: skip
        if carry:
            return messages, self._carried(messages, body, call, wait, deltas)
        if self.graph.symmetric:
            return messages, agreement.agreed(self, messages, body, call)
        return messages, self._shown(messages, body, call)

    def _carried(self, messages: list[Message], body: bytes, call: int, wait: bool, deltas: bool) -> Hearing:
        into, out = self.row(self.t), self.column()
        own = self.own()
        if deltas:
            self.copies.say(call, messages[0])
        targets = self.replay.addressed(call)
        if targets is None:
            share = self.graph.column_stochastic and not deltas
            targets = {self.roster[k] for k in out if not (share and self.unreachable(self.roster[k], call))}
            letters = [self.letter(name, call, Kind.SAID, len(messages)) for name in sorted(targets)]
            if deltas:
                letters = [self.copies.letter(one, body, messages) for one in letters]
            self.post.say(self.t, call, body, letters, self.leaving(call))
        if self.graph.column_stochastic and not deltas:  # what cannot leave stays: columns still sum to one
            own += sum(weight for k, weight in out.items() if self.roster[k] not in targets)
        heard = Hearing(own)
        if self.replay.complete(call):
            for one in self.replay.heard(call):
                self._take_carried(heard, one.neighbour, call, one.letter, messages, True, deltas)
            return heard
        if wait:
            due = {self.roster[k] for k in into}
            self.post.wait(due, lambda: {name for name in due if not self._spoken(name, call)})
        for name in sorted(self.post.edges, key=self.place.__getitem__):
            for letter in self.post.arrived(name, call):
                if wait and letter.round > self.t:
                    break
                self._take_carried(heard, name, call, letter, messages, wait, deltas)
        return heard

    def _take_carried(self, heard: Hearing, name: str, call: int, letter: Letter, like: list[Message],
                      wait: bool, deltas: bool) -> None:  # fmt: skip
        self.take(name, call, letter, deltas)
        whole = letter.kind is Kind.SUM
        things = self.decode(name, letter.body, self.copies.like(like) if whole else like)
        weight = self.row(letter.round).get(self.place[name], 0.0)
        if things is None or not weight:
            return
        if deltas:
            things = self.copies.hear(name, call, things, whole)
        if letter.round == self.t and wait and not whole:
            heard.now[self.place[name]] = (weight, things)
        else:
            heard.late.append(Late(self.place[name], weight, things))

    def _spoken(self, name: str, call: int) -> bool:
        """Whether a neighbour has said what it says in this round, or will say nothing."""
        spoken = any(letter.round >= self.t for letter in self.post.arrived(name, call))
        return spoken or self.post.passed(name, call)

    def unreachable(self, name: str, call: int) -> bool:
        return self.post.gone(name) or self.post.full(name, call)

    def _shown(self, messages: list[Message], body: bytes, call: int) -> Hearing:
        into = self.row(self.t)
        for k in self.column():
            self.post.show(self.roster[k], self.snapshot(body, call, len(messages)))
        heard = Hearing(self.own())
        due = {self.roster[k] for k in into}

        def missing() -> set[str]:
            return {name for name in due if self.snapshot_of(name, call) is None
                    and not self.post.passed(name, call)}  # fmt: skip

        self.post.wait(due, missing)
        for k, weight in into.items():
            frame = self.snapshot_of(self.roster[k], call)
            things = None if frame is None else self.decode(self.roster[k], frame.body, messages)
            if things is None:
                heard.own += weight
            else:
                heard.now[k] = (weight, things)
        return heard

    # what both ways need

    def row(self, t: int) -> dict[int, float]:
        """Whom I hear in round t, and the weight that I give to each."""
        return self._entries(t, 0)

    def column(self) -> dict[int, float]:
        """Who hears me in this round, and the weight that each gives to me."""
        return self._entries(self.t, 1)

    def _entries(self, t: int, side: int) -> dict[int, float]:
        ends = self.graph.round(max(t, 0)).weights.entries()
        mine = (ends[side] == self.me) & (ends[0] != ends[1])
        return dict(zip(ends[1 - side][mine].tolist(), ends[2][mine].tolist(), strict=True))

    def own(self) -> float:
        return float(self.round.weights.diagonal()[self.me])

    def letter(self, name: str, call: int, kind: Kind, things: int = 0, body: bytes | None = None,
               after: int = 0) -> Outgoing:  # fmt: skip
        """The next message of a stream; `after` others that are not posted yet."""
        sequence = self.post.place(name, call) + 1 + after
        return Outgoing(name, call, Letter(sequence, kind, self.t, body, things=things))

    def snapshot(self, body: bytes, call: int, things: int) -> Frame:
        return Frame(Kind.SNAPSHOT, self.post.run, self.t, call, things=things, body=body)

    def snapshot_of(self, name: str, call: int) -> Frame | None:
        return self.post.snapshot(name, call)

    def take(self, name: str, call: int, letter: Letter, deltas: bool = False) -> None:
        """This message is used in this round, and all before it in its stream."""
        chain = self.post.heard_chain(name, call)
        chain = chained(chain, letter.kind, letter.body or b"") if deltas else chain
        self.post.take(name, call, letter.sequence, chain)
        self.taken[name, call] = (letter.sequence, chain)
        self._used.append(Heard(call, name, letter))

    def settle(self, call: int, k: int, round: int) -> None:
        """Neighbour k has spoken of this round, so whatever was open before is settled."""
        self.pending = {one for one in self.pending if one[1:] != (call, k) or one[0] > round}

    def leaving(self, call: int) -> list[Heard]:
        """What a message that leaves in this call depends on: all that the earlier calls of the round have used."""
        return [one for one in self._used if one.call < call]

    def decode(self, name: str, body: bytes | memoryview | None, like: list[Message]) -> Things | None:
        if body is None:
            return None
        try:
            things = decode_row(body, like)
        except Damaged as problem:
            self.post.refuse(name, f"a message of round {self.t} has {problem}")
            return None
        self.post.heard_now(name)
        return things

    # sums

    def _sum(self, k: int, own: Message, heard: Hearing, onto: Tensor | None) -> Tensor:
        pairs = {j: (weight, things[k]) for j, (weight, things) in heard.now.items()} | {self.me: (heard.own, own)}
        weights = self.round.weights
        sparse = isinstance(own.content, Sparse) and not (isinstance(weights, SameRow) and weights.own)
        kind = own.content.value if isinstance(own.content, Sparse) else own.content
        total = onto if sparse and onto is not None else kind.new_zeros(1, own.width)
        for j in sorted(pairs):
            _add(total, *pairs[j])
        for one in heard.late:
            _add(total, one.weight, one.things[k])
        shape = own.content.shape
        if onto is None or total is onto:
            return total.view(shape)
        return onto.add_(total.view(shape))

    def _count(self, messages: list[Message], wait: bool) -> None:
        """My own messages; what others sent stands in their ledgers."""
        n = self.graph.n

        def mine(bits: list[Tensor]) -> Tensor:
            return torch.zeros(n, dtype=torch.float64).index_put_((torch.tensor([self.me]),), torch.stack(bits).sum(0))

        whole = (sum(32.0 * m.width for m in messages), sum(8.0 * m.itemsize * m.width for m in messages))
        self.traffic.count(self.round, mine([m.formula for m in messages]), mine([m.encoded for m in messages]), whole,
                           wait)  # fmt: skip


def _add(total: Tensor, weight: float, said: Message | None) -> None:
    """total + w · what is said, product and sum rounded apart."""
    if said is None:
        return
    if isinstance(said.content, Sparse):
        value = said.content.value.to(total.device) * total.new_tensor(weight)
        total[0].index_add_(0, said.content.index.reshape(-1).to(total.device), value.reshape(-1))
    else:
        total.add_(said.content.reshape(1, -1).to(total.device) * total.new_tensor(weight))
