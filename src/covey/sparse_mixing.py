"""Mixing of sparse messages: Σ_j w_ij q_j costs by the numbers that are said and by who hears them, not by the width.

For each pair (receiver, sender) with weight, senders ascending for each receiver, the few numbers are added where they
belong. A peer on a network does the same for its one row, in the same order, and gets the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from covey.compress import Sparse
from covey.graphs.weights import SameRow, Weights

_PAIRS = 1 << 21  # numbers added in one go


def mix_sparse(weights: Weights, said: Sparse, total: Tensor) -> Tensor:
    """total + W q, in place."""
    m, k = said.index.shape
    n, width = said.shape
    if m == 0 or k == 0:
        return total
    if isinstance(weights, SameRow) and weights.own:  # everybody hears the same: one sum, added to every row
        return total.add_(_sum(weights.row, said))
    receiver, sender, weight = weights.entries()
    speaker = torch.full((n,), -1, dtype=torch.int64)
    speaker[said.who.cpu()] = torch.arange(m)
    heard = speaker[sender] >= 0
    receiver, place, weight = (t.to(total.device) for t in (receiver[heard], speaker[sender[heard]], weight[heard]))
    flat = total.view(-1)
    step = max(1, _PAIRS // k)
    for at in range(0, len(receiver), step):
        some = slice(at, at + step)
        where = receiver[some, None] * width + said.index[place[some]]
        value = weight[some, None].to(said.value) * said.value[place[some]]
        flat.index_add_(0, where.view(-1), value.view(-1))
    return total


def _sum(row: Tensor, said: Sparse) -> Tensor:
    """Σ_j w_j q_j as one row, senders ascending."""
    total = said.value.new_zeros(said.shape[1])
    weight = row[said.who.cpu()].to(said.value)
    return total.index_add_(0, said.index.view(-1), (weight[:, None] * said.value).view(-1))
