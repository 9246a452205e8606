"""The one thing that a loop written beside src asks of it: which samples each mini-batch holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

import covey
from covey.data.samples import Samples


@dataclass(frozen=True)
class Recorded(Samples):
    """Samples that write down every batch they hand out. No two peers share one, so its place says whose it is."""

    log: list[Tensor] = field(default_factory=list)

    def pooled(self, positions: Tensor) -> tuple[Tensor, ...]:
        self.log.append(positions.clone())
        return super().pooled(positions)

    def take(self) -> list[list[list[int]]]:
        """peer -> its batches since the last call, in order -> its samples in them, numbered from 0."""
        assert len(self.index) == len(torch.unique(self.index))
        order = {position: place for place, position in enumerate(self.index.tolist())}
        starts = self.starts.tolist()
        batches: list[list[list[int]]] = [[] for _ in starts[1:]]
        for positions in self.log:
            for batch in ([order[position] for position in row] for row in positions.tolist()):
                peer = sum(start <= batch[0] for start in starts) - 1
                assert all(starts[peer] <= place < starts[peer + 1] for place in batch)
                batches[peer].append([place - starts[peer] for place in batch])
        self.log.clear()
        return batches


def recorded(parts: Sequence[tuple[Tensor, Tensor, Tensor, Tensor]]) -> covey.data.Federated:
    """What each peer brings, x and y to train on and to be tested on, with its batches written down."""
    data = covey.data.from_peers(parts, transform=None)
    return replace(data, train=Recorded(**vars(data.train)))
