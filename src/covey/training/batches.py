"""Which samples a peer uses at which local step: a function of (seed, purpose, round, peer) alone.

A pass is one random order of a peer's samples, cut into mini-batches. Epochs keep the last, smaller batch of a pass;
steps use full batches only, so that every step weighs the same. Each round begins a new pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.randomness import key, permutations
from covey.training.sgd import SGD


@dataclass(frozen=True)
class Plan:
    """How many steps each peer takes, and how its passes are cut: int64 [peers] each."""

    counts: Tensor
    size: Tensor
    rest: Tensor  # samples in the smaller last batch of a pass, 0 where there is none
    per_pass: Tensor
    steps: Tensor
    whole: bool  # every batch is all that the peer has, in order

    @staticmethod
    def of(counts: Tensor, local: SGD, smallest: int = 1) -> Plan:
        """smallest: the fewest samples a batch may have (2 under BatchNorm: one sample has no variance); a smaller
        rest of a pass is left out."""
        size = counts if local.batch is None else counts.clamp(max=local.batch)
        rest = counts % size
        rest = torch.where((rest >= smallest) & (local.epochs is not None), rest, 0)
        per_pass = counts // size + (rest > 0)
        steps = per_pass * local.epochs if local.epochs is not None else torch.full_like(counts, local.work)
        return Plan(counts, size, rest, per_pass, steps, local.batch is None)

    def of_peers(self, which: Tensor) -> Plan:
        own = (self.counts[which], self.size[which], self.rest[which], self.per_pass[which], self.steps[which])
        return Plan(*own, self.whole)


class Batches:
    """The mini-batches of some peers, in the order in which they are worked on."""

    def __init__(self, plan: Plan, keys: Tensor) -> None:
        self._plan = plan
        self._uniform = bool((plan.counts == plan.counts[0]).all())
        if plan.whole:
            return
        passes = (plan.steps + plan.per_pass - 1) // plan.per_pass
        if self._uniform:
            passes = torch.full_like(passes, int(passes.max()))
        peer = torch.repeat_interleave(torch.arange(len(passes)), passes)
        turn = torch.arange(len(peer)) - (passes.cumsum(0) - passes)[peer]
        self._order = permutations(key(keys[peer], turn), plan.counts[peer])
        self._start = (plan.counts * passes).cumsum(0) - plan.counts * passes
        if self._uniform:
            self._order = self._order.view(len(passes), int(passes[0]), int(plan.counts[0]))
            self._cut = int(plan.per_pass[0]), int(plan.size[0])

    def runs(self, step: int, going: int) -> Iterator[tuple[slice, Tensor]]:
        """At this step, for the first `going` peers (those who take it): runs of neighbours in order whose batches
        are equally large, as (slice, positions [run, size] among the peer's own samples)."""
        plan = self._plan
        if plan.whole:
            size, length = torch.unique_consecutive(plan.counts[:going], return_counts=True)
            at = 0
            for b, m in zip(size.tolist(), length.tolist(), strict=True):
                yield slice(at, at + m), torch.arange(b).expand(m, b)
                at += m
        elif self._uniform:
            turn, place = divmod(step, self._cut[0])
            first = place * self._cut[1]
            yield slice(0, going), self._order[:going, turn, first : first + self._cut[1]]
        else:
            yield from self._unequal_runs(step, going)

    def _unequal_runs(self, step: int, going: int) -> Iterator[tuple[slice, Tensor]]:
        plan = self._plan
        turn, place = step // plan.per_pass[:going], step % plan.per_pass[:going]
        ends = (plan.rest[:going] > 0) & (place == plan.per_pass[:going] - 1)
        sizes = torch.where(ends, plan.rest[:going], plan.size[:going])
        starts = self._start[:going] + turn * plan.counts[:going] + place * plan.size[:going]
        size, length = torch.unique_consecutive(sizes, return_counts=True)
        at = 0
        for b, m in zip(size.tolist(), length.tolist(), strict=True):
            yield slice(at, at + m), self._order[starts[at : at + m, None] + torch.arange(b)]
            at += m
