"""Which samples a peer uses at which local step: a function of (seed, purpose, round, peer) alone.

A pass is one random order of a peer's samples, cut into mini-batches. Epochs keep the last, smaller batch of a pass;
steps use full batches only, so that every step weighs the same. Each round begins a new pass.

Peers side by side take steps in the order that suits the machine: each its own in sequence, and at any moment those
together whose batches are equally large. Nothing is padded, and who has much waits for nobody.
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


@dataclass(frozen=True)
class Turn:
    """Some peers of a chunk take a step together, on batches of one size."""

    part: slice | Tensor  # which of the chunk: neighbours, or named one by one
    step: Tensor | int  # how many steps each has taken before (one number where it is the same for all)
    positions: Tensor  # [peers of the part, size] among each peer's own samples


class Batches:
    """The turns of a chunk of peers, who lie in descending order of their numbers of samples."""

    def __init__(self, plan: Plan, keys: Tensor) -> None:
        self._plan = plan
        self._passes = int((plan.steps // plan.per_pass).max()) if len(plan.steps) else 0
        if plan.whole:
            return
        passes = (plan.steps + plan.per_pass - 1) // plan.per_pass
        peer = torch.repeat_interleave(torch.arange(len(passes)), passes)
        turn = torch.arange(len(peer)) - (passes.cumsum(0) - passes)[peer]
        self._order = permutations(key(keys[peer], turn), plan.counts[peer])
        self._start = (plan.counts * passes).cumsum(0) - plan.counts * passes

    def __iter__(self) -> Iterator[Turn]:
        plan = self._plan
        by_steps = bool((plan.steps == plan.steps[0]).all()) and not bool(plan.rest.any())
        return self._step_by_step(int(plan.steps[0])) if by_steps else self._pass_by_pass()

    def _step_by_step(self, steps: int) -> Iterator[Turn]:
        """All take equally many steps: everybody takes the first, then the second, …"""
        plan = self._plan
        groups = list(_runs(plan.size))
        for k in range(steps):
            turn, place = k // plan.per_pass, k % plan.per_pass
            for part in groups:
                yield Turn(part, k, self._positions(part, turn[part], place[part]))

    def _pass_by_pass(self) -> Iterator[Turn]:
        """Epochs of unequal peers: full batches first, those with fewer dropping out; then the smaller last batches,
        those of one size together, whoever's they are."""
        plan = self._plan
        full = plan.counts // plan.size
        rests = [(plan.rest == size).nonzero()[:, 0] for size in plan.rest.unique().tolist() if size]
        for turn in range(self._passes):
            before = turn * plan.per_pass
            for place in range(int(full[0])):
                going = int((full > place).sum())
                for part in _runs(plan.size[:going]):
                    at = torch.full((part.stop - part.start,), turn)
                    yield Turn(part, before[part] + place, self._positions(part, at, torch.full_like(at, place)))
            for who in rests:
                at = torch.full((len(who),), turn)
                positions = self._positions(who, at, full[who], int(plan.rest[who[0]]))
                part = slice(int(who[0]), int(who[0]) + 1) if len(who) == 1 else who
                yield Turn(part, before[who] + full[who], positions)

    def _positions(self, part: slice | Tensor, turn: Tensor, place: Tensor, size: int | None = None) -> Tensor:
        plan = self._plan
        size = int(plan.size[part][0]) if size is None else size
        within = torch.arange(size)
        if plan.whole:
            return within.expand(len(turn), -1)
        starts = self._start[part] + turn * plan.counts[part] + place * plan.size[part]
        return self._order[starts[:, None] + within]


def _runs(sizes: Tensor) -> Iterator[slice]:
    """Neighbours with equal sizes."""
    at = 0
    for length in torch.unique_consecutive(sizes, return_counts=True)[1].tolist():
        yield slice(at, at + length)
        at += length
