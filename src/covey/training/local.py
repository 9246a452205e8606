"""The loop over local steps: chunks of peers, all steps of a chunk before the next, peers of unequal size side by side.

Within a chunk the peers lie in order of their numbers of samples, so that those who still have steps to take are
always the first ones, and those with equally large batches are neighbours: nearly everything is a slice, nothing is
padded, and unequal peers cost what their sum costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.randomness import key
from covey.rows import Group
from covey.tasks.task import Batch, Task
from covey.training.batches import ALL, Batches, Plan, Turn, blocks
from covey.training.gradients import Gradient, OneAtATime, Stacked
from covey.training.pace import Pace
from covey.training.sgd import SGD


@dataclass(frozen=True)
class Terms:
    """What a method adds to plain SGD, a row per peer each (see `Peers.train`)."""

    mass: Tensor | None = None
    plus: Tensor | None = None
    pull: tuple[float, Tensor] | None = None
    mask: Tensor | None = None
    memory: Tensor | None = None

    def require_shapes(self, rows: int, columns: slice, group: Group) -> None:
        """A term that does not fit would broadcast for one size of chunk and fail for another."""
        width = columns.stop - columns.start
        centre = None if self.pull is None else self.pull[1]
        named = {"plus": self.plus, "the centre of pull": centre, "mask": self.mask, "memory": self.memory}
        for name, term in named.items():
            if term is not None and term.shape != (rows, width):
                raise BadInput(
                    f"{name} has shape {tuple(term.shape)}, but group '{group}' needs a row per peer over its "
                    f"columns: ({rows}, {width})."
                )
        if self.mass is not None and self.mass.shape != (rows, 1):
            raise BadInput(f"mass has shape {tuple(self.mass.shape)}; one number per peer is needed: ({rows}, 1).")


class Worker:
    """Takes the local steps of one group of columns."""

    def __init__(self, task: Task, group: Group, pace: Pace, like: Tensor) -> None:
        self.task, self.group, self.pace = task, group, pace
        layout = task.layout
        self._columns = layout.columns(group)
        self._trained = layout.trained(group)
        offset = self._columns.start
        self._inside = slice(self._trained.start - offset, self._trained.stop - offset)  # trained, within the group
        fields = layout.members(group, layout.statistics).values()
        self._statistics = [f.columns for f in fields]
        self._alone = OneAtATime(task, group, like)
        self._stacked = Stacked(task, group) if pace.chunk > 1 else None

    def descend(
        self, rows: Tensor, chosen: Tensor, local: SGD, keys: Tensor, round: int, taken: Tensor, terms: Terms,
        work: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Work on rows[chosen] in place; returns the number of steps and the mean loss of each chosen peer."""
        counts = self.task.train.counts[chosen]
        plan = Plan.of(counts, local, self.task.smallest_batch, work)
        losses = torch.full((len(chosen),), torch.nan, dtype=torch.float64)
        order = torch.argsort(counts, descending=True, stable=True)
        if work is not None:  # those who work equally much side by side
            order = order[torch.argsort(work[order], descending=True, stable=True)]
        ordered = plan.of_peers(order)
        for block, chunks in blocks(ordered, self.pace.chunk):
            those = order[block]
            batches = Batches(ordered.of_peers(block), keys[those], chosen[those], self.task.train)
            for chunk in chunks:
                own = those[chunk]
                turns = batches.of_chunk(chunk)
                there = keys[own] if self.task.seeded else keys[own].to(rows.device)
                losses[own] = self._work(rows, chosen[own], turns, local, there, round, taken[own], terms)
        return plan.steps, losses / plan.steps.clamp(min=1)

    def gradients(self, rows: Tensor, local: SGD, keys: Tensor, mass: Tensor | None) -> Tensor:
        """∇F of every row over the trained columns: over one batch of `local`, or over its epoch, every sample weighing
        the same."""
        counts = self.task.train.counts
        plan = Plan.of(counts, local, self.task.smallest_batch)
        value = rows.new_zeros(len(rows), self._trained.stop - self._trained.start)
        for who in torch.argsort(counts, descending=True, stable=True).split(self.pace.chunk):
            for turn in Batches(plan.of_peers(who), keys[who], who, self.task.train).of_chunk(slice(0, len(who))):
                peers = who[turn.part]
                point = self._at(rows[peers], None if mass is None else mass[peers])
                gradient = self.gradient(point, self._batch(turn, who), keys[peers].to(rows.device)).value
                if local.epochs is None or turn.samples is None:
                    value[peers] = gradient
                else:
                    value[peers] += gradient * (turn.samples.shape[1] / counts[peers].to(gradient))[:, None]
        return value

    def _work(
        self, rows: Tensor, who: Tensor, turns: Iterator[Turn], local: SGD, keys: Tensor, round: int, taken: Tensor,
        terms: Terms,
    ) -> Tensor:  # fmt: skip
        """All local steps of one chunk; returns the sum of each peer's losses."""
        # One peer lies in the working model itself, unless gradients are taken elsewhere than at its row.
        there = len(who) == 1 and terms.mass is None and not local.sam
        at = slice(int(who[0]), int(who[0]) + 1) if len(who) == 1 else who
        x = self._alone.flat.copy_(rows[at]) if there else rows[at].clone() if len(who) == 1 else rows[at]
        velocity = None
        if terms.memory is not None:
            velocity = terms.memory[who][:, self._inside]
        elif local.momentum:
            velocity = torch.zeros_like(x[:, self._trained])
        cut = _cut(terms, who, self._inside)
        total = torch.zeros(len(who), dtype=torch.float64, device=x.device)
        alike, first = bool((taken == taken[0]).all()), int(taken[0])
        for turn in turns:
            part = turn.part
            before = (first if alike and isinstance(turn.step, int) else taken[part]) + turn.step
            step_keys = key(keys[part], "step", turn.step) if self.task.keyed else keys[part]
            own, moving = x[part], None if velocity is None else velocity[part]
            loss = self._step(own, self._batch(turn, who), step_keys, local, local.rates(round, before), moving,
                              cut.part(part))  # fmt: skip
            if isinstance(part, slice):
                total[part].add_(loss)
                continue
            total[part] += loss
            x[part] = own  # it was a copy, not a view
            if velocity is not None and moving is not None:
                velocity[part] = moving
        rows[at, self._columns] = x[:, self._columns]
        if terms.memory is not None and velocity is not None:
            terms.memory[who, self._inside] = velocity
        return total.cpu()

    def _batch(self, turn: Turn, who: Tensor) -> Batch:
        data = self.task.train
        return data.everything(who[turn.part]) if turn.samples is None else data.pooled(turn.samples)

    def _step(self, x: Tensor, batch: Batch, keys: Tensor, local: SGD, lr: float | Tensor,
              velocity: Tensor | None, terms: Terms) -> Tensor:  # fmt: skip
        """One step of some peers of a chunk, in place on their rows x."""
        trained = x[:, self._trained]
        here = self.gradient(self._at(x, terms.mass), batch, keys)
        value, loss = here.value, here.loss
        if local.sam:
            norm = value.norm(dim=1, keepdim=True)
            ahead = x.clone()
            ahead[:, self._trained] += torch.where(norm > 0, local.sam * value / norm, 0.0)
            value = self.gradient(self._at(ahead, terms.mass), batch, keys).value
        self._keep_statistics(x, here, terms.mass)
        value = local.limit(value)
        if terms.plus is not None:
            value = value + terms.plus
        if terms.pull is not None:
            value = value + terms.pull[0] * (trained - terms.pull[1])
        local.step(trained, value, velocity, lr)
        if terms.mask is not None:
            trained.mul_(terms.mask)
        return loss

    def gradient(self, point: Tensor, batch: Batch, keys: Tensor) -> Gradient:
        if self._stacked is not None and len(point) >= self.pace.stack_from:
            return self._stacked(point, batch, keys)
        if len(point) == 1:
            return self._alone(point, batch, keys)
        singles = []
        for r in range(len(point)):
            one = self._alone(point[r : r + 1], tuple(part[r : r + 1] for part in batch), keys[r : r + 1])
            singles.append(Gradient(one.value.clone(), one.loss, one.statistics))
        kept = [s.statistics for s in singles if s.statistics is not None]
        return Gradient(torch.cat([s.value for s in singles]), torch.cat([s.loss for s in singles]),
                        torch.cat(kept) if kept else None)  # fmt: skip

    def _at(self, x: Tensor, mass: Tensor | None) -> Tensor:
        """Where the gradient is taken: push-sum rows are de-biased, shared / mass."""
        if mass is None:
            return x
        point = x.clone()
        point[:, self.task.layout.shared] /= mass
        return point

    def _keep_statistics(self, x: Tensor, here: Gradient, mass: Tensor | None) -> None:
        if here.statistics is None:
            return
        at, shared = 0, self.task.layout.shared
        for columns in self._statistics:
            width = columns.stop - columns.start
            value = here.statistics[:, at : at + width]
            x[:, columns] = value if mass is None or columns.start >= shared.stop else value * mass
            at += width


def _cut(terms: Terms, who: Tensor, inside: slice) -> _Cut:
    def columns(t: Tensor | None) -> Tensor | None:
        return None if t is None else t[who][:, inside]

    pull = None if terms.pull is None else (terms.pull[0], terms.pull[1][who][:, inside])
    mass = None if terms.mass is None else terms.mass[who]
    return _Cut(mass, columns(terms.plus), pull, columns(terms.mask))


@dataclass(frozen=True)
class _Cut(Terms):
    """Terms of one chunk over the trained columns."""

    def part(self, part: slice | Tensor) -> Terms:
        if part is ALL:
            return self

        def rows(t: Tensor | None) -> Tensor | None:
            return None if t is None else t[part]

        pull = None if self.pull is None else (self.pull[0], self.pull[1][part])
        return Terms(rows(self.mass), rows(self.plus), pull, rows(self.mask))
