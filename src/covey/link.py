"""What a method may ask of its neighbours, and the link between rows of one process.

The same three questions are answered by whatever the engine puts behind them: a matrix product here, collective
operations across devices, or messages between organisations. Every peer asks the same questions in the same order;
who has nothing to say sends an empty message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import torch
from torch import Tensor

from covey.compress import Message, Sparse
from covey.errors import BadInput
from covey.graphs.graph import Graph, Round
from covey.graphs.weights import Weights
from covey.sparse_mixing import mix_sparse
from covey.traffic import Traffic

Thing = Tensor | Message


@dataclass(frozen=True)
class Gathered:
    """What each neighbour said, a slot per neighbour: neighbours ascending, oneself excluded.

    peers   int64 [rows, slots]  who they are, -1 where a slot is empty
    weights [rows, slots]        what the graph gives them, 0 where empty
    """

    peers: Tensor
    weights: Tensor
    _take: Callable[[slice], Tensor]

    @cached_property
    def rows(self) -> Tensor:
        """[rows, slots, width], 0 where a slot is empty. Large: prefer `columns` where the width is a model's."""
        return self._take(slice(None))

    def columns(self, part: slice) -> Tensor:
        """The same for some columns only, so that a method may go through wide rows block by block."""
        return self._take(part)


class Link(ABC):
    """What neighbours say."""

    graph: Graph
    round: Round  # of this round; set by the engine through `begin`
    traffic: Traffic

    @abstractmethod
    def begin(self, t: int) -> None:
        """Round t begins (called by the engine)."""

    @overload
    def mix(self, thing: Thing, /, *, carry: bool = False, wait: bool = True, onto: Tensor | None = None) -> Tensor: ...
    @overload
    def mix(
        self,
        thing: Thing,
        second: Thing,
        /,
        *things: Thing,
        carry: bool = False,
        wait: bool = True,
        onto: Tensor | None = None,
    ) -> tuple[Tensor, ...]: ...
    def mix(
        self, *things: Thing, carry: bool = False, wait: bool = True, onto: Tensor | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        """Σ_j W_ij x_j of each thing [rows, width], oneself included; things given together travel in one message.

        carry=False  a snapshot: the weight of a neighbour who is absent goes to oneself.
        carry=True   for mass and for changes: what cannot be delivered now arrives later and is added then, once.
        wait=False   (with carry) take what has arrived and go on; the rest is added by a later call.
        onto         the mixture of the first thing is added to this tensor, in place: for running sums of changes. With
                     sparse messages it costs by what is said, not by the width.
        """
        if not things:
            raise BadInput("link.mix() needs something to mix.")
        if not wait and not carry:
            raise BadInput("link.mix(wait=False) needs carry=True: a late snapshot cannot be added to a later one.")
        mixed = self._mix([Message.of(thing) for thing in things], carry, wait, onto)
        return mixed[0] if len(mixed) == 1 else tuple(mixed)

    @abstractmethod
    def _mix(self, messages: list[Message], carry: bool, wait: bool, onto: Tensor | None) -> list[Tensor]: ...

    @abstractmethod
    def gather(self, thing: Thing, *, carry: bool = False) -> Gathered:
        """What each neighbour said, unmixed. carry: for changes, as in `mix`; a slot then holds the sum of what has
        arrived from its neighbour, each change once."""

    def weights(self) -> Tensor:
        """What each row gives to those it hears in this round: [rows, slots], 0 where empty. Nothing is sent."""
        return self._slots()[1]

    def weight_heard(self) -> Tensor:
        """Σ_j w_ij of each row, oneself included: 1 but for pushed weights. [rows]. Nothing is sent."""
        return self._own_weights() + self.weights().sum(1)

    def neighbours(self) -> Tensor:
        """Whom each row hears in this round: int64 [rows, slots], -1 where empty; the slots of `gather`."""
        return self._slots()[0]

    @abstractmethod
    def _slots(self) -> tuple[Tensor, Tensor]: ...

    @abstractmethod
    def _own_weights(self) -> Tensor: ...


class InProcessLink(Link):
    """All peers are rows of one matrix: mixing is a product with W.

    exact    add in the order of the senders, as a peer on a network does: bit-equal to it
    in_flight  what `wait=False` has sent and not delivered; it arrives in the next round in which its receiver is
             there. Saved with a checkpoint.
    """

    def __init__(self, graph: Graph, exact: bool = False) -> None:
        self.graph, self.exact = graph, exact
        self.traffic = Traffic()
        self.in_flight: dict[str, Tensor] = {}
        self._calls = 0
        self._senders: tuple[Weights, Tensor, Tensor] | None = None
        self.begin(0)

    def begin(self, t: int) -> None:
        self.round = self.graph.round(t)
        self._calls = 0
        self.traffic.begin()

    def _mix(self, messages: list[Message], carry: bool, wait: bool, onto: Tensor | None) -> list[Tensor]:
        self._count(messages, wait)
        mixed: list[Tensor] = []
        for k, message in enumerate(messages):
            if isinstance(message.content, Sparse) and wait:
                said = message.content
                total = said.value.new_zeros(said.shape) if k or onto is None else onto
                mixed.append(mix_sparse(self.round.weights, said, total))
                continue
            x = message.dense
            flat = x.reshape(len(x), -1)
            name = f"call{self._calls}/{k}"
            late = self._arrived(name)
            if wait:
                total = self.round.weights.apply(flat, self.exact)
            else:
                own = self.round.weights.diagonal().to(flat)[:, None]
                total = own * flat
                waiting, sent = self.in_flight.get(name), self.round.weights.off_diagonal().apply(flat, self.exact)
                self.in_flight[name] = sent if waiting is None else waiting + sent
            total = (total if late is None else total.add_(late)).view_as(x)
            mixed.append(total if k or onto is None else onto.add_(total))
        self._calls += 1
        return mixed

    def _arrived(self, name: str) -> Tensor | None:
        """What was in flight, for those who are here; what is for the absent waits for them."""
        late, here = self.in_flight.pop(name, None), self.round.active
        if late is None or bool(here.all()):
            return late
        here = here.to(late.device)[:, None]
        self.in_flight[name] = late.masked_fill(here, 0.0)
        return late.masked_fill(~here, 0.0)

    def gather(self, thing: Thing, *, carry: bool = False) -> Gathered:
        message = Message.of(thing)
        self._count([message])
        self._calls += 1
        x = message.dense
        ids, weights = self._slots()
        there, place = (ids >= 0).to(x.device), ids.clamp(min=0).to(x.device)

        def take(part: slice) -> Tensor:
            said = x[:, part][place]
            return said.masked_fill_(~there.view(*there.shape, *(1,) * (said.dim() - 2)), 0.0)

        return Gathered(ids, weights, take)

    def _slots(self) -> tuple[Tensor, Tensor]:
        weights = self.round.weights
        if self._senders is None or self._senders[0] is not weights:
            self._senders = (weights, *weights.senders())
        return self._senders[1], self._senders[2]

    def _own_weights(self) -> Tensor:
        return self.round.weights.diagonal()

    def _count(self, messages: list[Message], wait: bool = True) -> None:
        formula = torch.stack([m.formula for m in messages]).sum(0)
        encoded = torch.stack([m.encoded for m in messages]).sum(0)
        whole = (sum(32.0 * m.width for m in messages), sum(8.0 * m.itemsize * m.width for m in messages))
        self.traffic.count(self.round, formula, encoded, whole, wait)
