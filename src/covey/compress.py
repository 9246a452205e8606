"""Messages: what a peer says, as every receiver adds it, and how many bits it takes to say it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Message:
    """What each row says in one exchange.

    dense    [rows, ...]  the decoded payload: sender and receivers add exactly these numbers
    formula  [rows]       bits by the formula that papers compare
    encoded  [rows]       bits of the payload as it would be sent
    """

    dense: Tensor
    formula: Tensor
    encoded: Tensor

    @staticmethod
    def of(thing: Tensor | Message) -> Message:
        """A tensor is a message that says every number: 32 bits each by the formula, whatever its type takes."""
        if isinstance(thing, Message):
            return thing
        numbers = torch.full((len(thing),), float(thing[0].numel() if len(thing) else 0), dtype=torch.float64)
        return Message(thing, 32 * numbers, 8 * thing.element_size() * numbers)
