"""What a peer says that has some of the numbers only: those, and which they are."""

from __future__ import annotations

import torch
from torch import Tensor

from covey.compress.forms import Chosen, Floats, Signs
from covey.compress.message import Message


def masked(x: Tensor, mask: Tensor) -> tuple[Message, Message]:
    """The numbers of x [rows, d] where mask is set, as many in every row; and the mask, as ones and zeros.

    By the formula 32 bits a number and one bit per place. As encoded, the places are said with either message.
    """
    rows, d = x.shape
    index = mask.nonzero()[:, 1].view(rows, -1)
    inner = Signs(x.new_ones(rows, 1), torch.zeros_like(index, dtype=torch.bool))
    numbers, places = Chosen(index, Floats(x.gather(1, index)), d), Chosen(index, inner, d)
    bits = torch.full((rows,), 32.0 * index.shape[1] + d, dtype=torch.float64)
    tensors, said = (slice(0, d),), torch.ones(rows, 1, dtype=torch.bool)
    ours = Message(x * mask, bits, 8.0 * numbers.size().double(), (numbers,), tensors, said)
    return ours, Message(mask.to(x), 0 * bits, 8.0 * places.size().double(), (places,), tensors, said)
