"""Which samples a peer uses at which local step: a function of (seed, purpose, round, peer) alone.

A pass is one random order of a peer's samples, cut into mini-batches. Epochs keep the last, smaller batch of a pass;
steps use full batches only, so that every step weighs the same. Each round begins a new pass.

Peers side by side take steps in the order that suits the machine: each its own in sequence, and at any moment those
together whose batches are equally large. Nothing is padded, and who has much waits for nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from covey.randomness import key, permutations
from covey.tasks.task import TrainingData
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
    def of(counts: Tensor, local: SGD, smallest: int = 1, work: Tensor | None = None) -> Plan:
        """smallest: the fewest samples a batch may have (2 under BatchNorm: one sample has no variance); a smaller
        rest of a pass is left out. work: how many times the steps of `local` each peer takes, rounded to whole steps,
        at least one."""
        size = counts if local.batch is None else counts.clamp(max=local.batch)
        rest = counts % size
        rest = torch.where((rest >= smallest) & (local.epochs is not None), rest, 0)
        per_pass = counts // size + (rest > 0)
        steps = per_pass * local.epochs if local.epochs is not None else torch.full_like(counts, local.work)
        if work is not None:
            steps = torch.where(steps > 0, (steps * work + 0.5).floor().long().clamp(min=1), 0)
        return Plan(counts, size, rest, per_pass, steps, local.batch is None)

    def of_peers(self, which: Tensor | slice) -> Plan:
        own = (self.counts[which], self.size[which], self.rest[which], self.per_pass[which], self.steps[which])
        return Plan(*own, self.whole)


@dataclass(slots=True)
class Turn:
    """Some peers of a chunk take a step together, on batches of one size."""

    part: slice | Tensor  # which of the chunk: neighbours, or named one by one
    step: Tensor | int  # how many steps each has taken before (one number where it is the same for all)
    samples: Tensor | None  # [peers of the part, size] where their batches lie in the data; None: all that they have


ALL = slice(None)
_AT_ONCE = 1 << 20  # samples whose order is drawn in one go


class Batches:
    """The mini-batches of some peers, who lie in descending order of their numbers of samples."""

    def __init__(self, plan: Plan, keys: Tensor, who: Tensor, data: TrainingData) -> None:
        self._plan = plan
        if plan.whole:
            return
        passes = (plan.steps + plan.per_pass - 1) // plan.per_pass
        peer = torch.repeat_interleave(torch.arange(len(passes)), passes)
        turn = torch.arange(len(peer)) - (passes.cumsum(0) - passes)[peer]
        counts = plan.counts[peer]
        order = permutations(key(keys[peer], turn), counts)
        self._order = data.locate(torch.repeat_interleave(who[peer], counts), order)  # one look-up for all steps
        self._start = (plan.counts * passes).cumsum(0) - plan.counts * passes

    def of_chunk(self, chunk: slice) -> Iterator[Turn]:
        """The turns of neighbours who are worked on together; a turn's `part` and `step` count within the chunk."""
        own = _Turns(self._plan.of_peers(chunk))
        if not self._plan.whole:
            own.order, own.start = self._order, self._start[chunk]
        return iter(own)


def blocks(plan: Plan, chunk: int) -> Iterator[tuple[slice, list[slice]]]:
    """The peers in blocks whose orders are drawn in one go, and each block's chunks: slices within the block.

    No chunk is larger than `chunk`, and all are nearly alike: a small last one would waste a stacked call.
    """
    chunk = -(-len(plan.counts) // -(-len(plan.counts) // chunk)) if len(plan.counts) else chunk
    drawn = 0 if plan.whole else int((plan.counts * (plan.steps / plan.per_pass).ceil()).sum())
    several = max(1, _AT_ONCE * len(plan.counts) // max(drawn, 1) // chunk) * chunk
    for at in range(0, len(plan.counts), several):
        size = min(several, len(plan.counts) - at)
        yield slice(at, at + size), [slice(c, min(c + chunk, size)) for c in range(0, size, chunk)]


@dataclass
class _Turns:
    """Who takes which step when, within a chunk."""

    _plan: Plan
    order: Tensor = field(init=False)  # of all samples of the block, pass by pass
    start: Tensor = field(init=False)  # where each peer's first pass begins in it

    def __iter__(self) -> Iterator[Turn]:
        plan = self._plan
        steps = int(plan.steps.max())
        alike = bool((plan.steps == steps).all())
        if plan.whole and alike:
            return self._all_at_once(steps)
        if alike and bool((plan.counts == plan.counts[0]).all()):
            return self._side_by_side(steps)
        if alike and not bool(plan.rest.any()):
            return self._step_by_step(steps)
        passes = steps // int(plan.per_pass[plan.steps.argmax()])
        if bool((plan.steps == passes * plan.per_pass).all()):
            return self._pass_by_pass()
        return self._each_its_own(steps)

    def _all_at_once(self, steps: int) -> Iterator[Turn]:
        """Every batch is all that a peer has, and those who have equally much go together."""
        groups = list(_runs(self._plan.size))
        return (Turn(part, k, None) for k in range(steps) for part in groups)

    def _side_by_side(self, steps: int) -> Iterator[Turn]:
        """All have equally much: whole numbers instead of tensors of them, which is what makes small steps fast."""
        count, size, per_pass = (int(t[0]) for t in (self._plan.counts, self._plan.size, self._plan.per_pass))
        m, passes, begin = len(self._plan.counts), -(-steps // per_pass), int(self.start[0])
        order = self.order[begin : begin + m * passes * count].view(m, passes, count)
        for k in range(steps):
            turn, place = divmod(k, per_pass)
            yield Turn(ALL, k, order[:, turn, place * size : min((place + 1) * size, count)])

    def _step_by_step(self, steps: int) -> Iterator[Turn]:
        """All take equally many steps: everybody takes the first, then the second, …"""
        plan = self._plan
        groups = list(_runs(plan.size))
        for k in range(steps):
            turn, place = k // plan.per_pass, k % plan.per_pass
            for part in groups:
                yield Turn(part, k, self._samples(part, turn[part], place[part], int(plan.size[part.start])))

    def _pass_by_pass(self) -> Iterator[Turn]:
        """Epochs of unequal peers: full batches first, those with fewer dropping out; then the smaller last batches,
        those of one size together, whoever's they are."""
        plan = self._plan
        full = plan.counts // plan.size
        rests = [(plan.rest == size).nonzero()[:, 0] for size in plan.rest.unique().tolist() if size]
        for turn in range(int((plan.steps // plan.per_pass).max())):
            before = turn * plan.per_pass
            for place in range(int(full[0])):
                going = int((full > place).sum())
                for part in _runs(plan.size[:going]):
                    at = torch.full((part.stop - part.start,), turn)
                    samples = self._samples(part, at, torch.full_like(at, place), int(plan.size[part.start]))
                    yield Turn(part, before[part] + place, samples)
            for who in rests:
                samples = self._samples(who, torch.full((len(who),), turn), full[who], int(plan.rest[who[0]]))
                yield Turn(_slice_of(who), before[who] + full[who], samples)

    def _each_its_own(self, steps: int) -> Iterator[Turn]:
        """Peers that work unequally much: at every step those who still have one to take, by the size of its batch."""
        plan = self._plan
        for k in range(steps):
            going = (plan.steps > k).nonzero()[:, 0]
            turn, place = k // plan.per_pass[going], k % plan.per_pass[going]
            size = torch.where(place < plan.counts[going] // plan.size[going], plan.size[going], plan.rest[going])
            for one in size.unique(sorted=True).flip(0).tolist():
                those = (size == one).nonzero()[:, 0]
                who = going[those]
                samples = None if plan.whole else self._samples(who, turn[those], place[those], one)
                yield Turn(_slice_of(who), k, samples)

    def _samples(self, part: slice | Tensor, turn: Tensor, place: Tensor, size: int) -> Tensor:
        plan = self._plan
        starts = self.start[part] + turn * plan.counts[part] + place * plan.size[part]
        return self.order[starts[:, None] + torch.arange(size)]


def _slice_of(who: Tensor) -> slice | Tensor:
    """Ascending places as a slice where they are neighbours: then rows are views and need not be copied."""
    first, last = int(who[0]), int(who[-1])
    return slice(first, last + 1) if last - first + 1 == len(who) else who


def _runs(sizes: Tensor) -> Iterator[slice]:
    """Neighbours with equal sizes."""
    at = 0
    for length in torch.unique_consecutive(sizes, return_counts=True)[1].tolist():
        yield slice(at, at + length)
        at += length
