"""Messages: what a peer says, as every receiver adds it, and how many bits it takes to say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from covey.compress.forms import Form, joined


@dataclass(frozen=True)
class Sparse:
    """Rows of which few speak, and say few numbers: value[r, k] stands in row who[r], column index[r, k].

    All else is zero, and costs nothing to mix.
    """

    who: Tensor  # int64 [m], ascending
    index: Tensor  # int64 [m, k], ascending and different within a row
    value: Tensor  # [m, k]
    shape: tuple[int, int]

    def dense(self) -> Tensor:
        return self.add_to(self.value.new_zeros(self.shape))

    def add_to(self, rows: Tensor) -> Tensor:
        """rows + this, in place."""
        place = self.who[:, None] * self.shape[1] + self.index
        rows.view(-1).index_add_(0, place.view(-1), self.value.reshape(-1))
        return rows


@dataclass(frozen=True)
class Message:
    """What each row says in one exchange.

    content  [rows, ...]  the decoded payload, whole or `Sparse`: sender and receivers add exactly these numbers
    formula  [rows]       bits by the formula that papers compare
    encoded  [rows]       bits of the payload as it would be sent
    forms                 the payload tensor by tensor, of those who speak; None: raw numbers (see `payload.py`)
    tensors               the columns of each form
    said     bool [rows, tensors]  who speaks, of what; None: all, of everything
    """

    content: Tensor | Sparse
    formula: Tensor
    encoded: Tensor
    forms: tuple[Form, ...] | None = None
    tensors: tuple[slice, ...] = ()
    said: Tensor | None = None

    @staticmethod
    def of(thing: Tensor | Message) -> Message:
        """A tensor is a message that says every number: 32 bits each by the formula, whatever its type takes."""
        if isinstance(thing, Message):
            return thing
        numbers = torch.full((len(thing),), float(thing[0].numel() if len(thing) else 0), dtype=torch.float64)
        return Message(thing, 32 * numbers, 8 * thing.element_size() * numbers)

    @staticmethod
    def joined(messages: Sequence[Message]) -> Message:
        """Messages of some peers after others, all by one compressor, as one."""
        if len(messages) == 1:
            return messages[0]
        said = [one.said for one in messages if one.said is not None]
        forms = [one.forms for one in messages if one.forms is not None]
        return Message(
            _after_each_other([one.content for one in messages]),
            torch.cat([one.formula for one in messages]),
            torch.cat([one.encoded for one in messages]),
            tuple(joined(same) for same in zip(*forms, strict=True)),
            messages[0].tensors,
            torch.cat(said),
        )

    def told(self, bits: int) -> Message:
        """The same, with so many bits more that say what is said and what not. (In the payload of who speaks they are
        whole bytes; silence is recognised by its emptiness.)"""
        assert self.said is not None
        flags = 8.0 * ((bits + 7) // 8) * (bits > 1) * self.said.any(1)
        return replace(self, formula=self.formula + bits, encoded=self.encoded + flags)

    @cached_property
    def dense(self) -> Tensor:
        """The content as a tensor."""
        return self.content.dense() if isinstance(self.content, Sparse) else self.content

    @property
    def width(self) -> int:
        """Numbers per row."""
        content = self.content
        return content.shape[1] if isinstance(content, Sparse) else content[0].numel() if len(content) else 0

    @property
    def itemsize(self) -> int:
        """Bytes of a number that is said as it is."""
        return (self.content.value if isinstance(self.content, Sparse) else self.content).element_size()

    def add_to(self, rows: Tensor) -> Tensor:
        """rows + what is said, in place."""
        return self.content.add_to(rows) if isinstance(self.content, Sparse) else rows.add_(self.content)


def _after_each_other(contents: Sequence[Tensor | Sparse]) -> Tensor | Sparse:
    sparse = [content for content in contents if isinstance(content, Sparse)]
    if not sparse:
        return torch.cat([content for content in contents if isinstance(content, Tensor)])
    first, who = 0, list[Tensor]()
    for content in sparse:
        who.append(content.who + first)
        first += content.shape[0]
    shape = (first, sparse[0].shape[1])
    return Sparse(torch.cat(who), torch.cat([c.index for c in sparse]), torch.cat([c.value for c in sparse]), shape)
