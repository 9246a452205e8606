"""The loop over local steps: chunks of peers, all steps of a chunk before the next, peers of unequal size side by side.

Within a chunk the peers lie in order of their numbers of samples, so that those who still have steps to take are
always the first ones, and those with equally large batches are neighbours: nearly everything is a slice, nothing is
padded, and unequal peers cost what their sum costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.randomness import key
from covey.rows import Group
from covey.tasks.task import Batch, Task
from covey.training.batches import ALL, Batches, Plan, Turn, blocks
from covey.training.gradients import Gradient, OneAtATime, Stacked, TwoPoint
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
        if not task.differentiable and task.probe is None:
            raise BadInput(
                "A black box has no gradient; take SaddlePoint(feedback='bandit', zeta=…), or task.probed(zeta)."
            )
        self._probe = None if task.probe is None else TwoPoint(task, group, task.probe)
        self._alone = OneAtATime(task, group, like)
        self._stacked = Stacked(task, group) if pace.chunk > 1 else None
        self._laid: _Laid | None = None  # of the last call; the next one is mostly like it

    def descend(
        self, rows: Tensor, chosen: Tensor, local: SGD, keys: Tensor, round: int, taken: Tensor, terms: Terms,
        work: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Work on rows[chosen] in place; returns the number of steps and the mean loss of each chosen peer."""
        laid = self._laid
        if laid is None or not laid.serves(chosen, local, work):
            laid = self._laid = _Laid.out(chosen, local, work, self.task, self.pace.chunk)
        if laid.turns is not None and len(chosen) == len(rows):
            there = self._beside(rows, keys)
            return laid.steps, self._work_on_all(rows, laid, local, there, round, taken, terms) / laid.counted
        losses = torch.full((len(chosen),), torch.nan, dtype=torch.float64)
        for those, plan, chunks in laid.blocks:
            batches = Batches(plan, keys[those], chosen[those], self.task.train)
            for chunk in chunks:
                own = those[chunk]
                turns, there = batches.of_chunk(chunk), self._beside(rows, keys[own])
                losses[own] = self._work(rows, chosen[own], turns, local, there, round, taken[own], terms)
        return laid.steps, losses / laid.counted

    def _beside(self, rows: Tensor, keys: Tensor) -> Tensor:
        """Keys where they are used: beside the rows, or, where they seed torch's generator, on the CPU."""
        return keys if self.task.seeded else keys.to(rows.device)

    def gradients(self, rows: Tensor, local: SGD, keys: Tensor, mass: Tensor | None) -> tuple[Tensor, Tensor]:
        """∇F of every row over the trained columns, and F: over one batch of `local`, or over its epoch, every sample
        weighing the same."""
        counts = self.task.train.counts
        plan = Plan.of(counts, local, self.task.smallest_batch)
        value = rows.new_zeros(len(rows), self._trained.stop - self._trained.start)
        loss = rows.new_zeros(len(rows))
        for who in torch.argsort(counts, descending=True, stable=True).split(self.pace.chunk):
            for turn in Batches(plan.of_peers(who), keys[who], who, self.task.train).of_chunk(slice(0, len(who))):
                peers = who[turn.part]
                point = self._at(rows[peers], None if mass is None else mass[peers])
                there = self._beside(rows, keys[peers])
                here = self.gradient(point, self._batch(turn, who, there), there)
                if local.epochs is None or turn.samples is None:
                    value[peers], loss[peers] = here.value, here.loss.to(loss)
                else:
                    share = turn.samples.shape[1] / counts[peers].to(value)
                    value[peers] += here.value * share[:, None]
                    loss[peers] += here.loss.to(loss) * share
        return value, loss

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
        total = self._steps(x, who, turns, local, keys, round, taken, velocity, _cut(terms, who, self._inside))
        rows[at, self._columns] = x[:, self._columns]
        if terms.memory is not None and velocity is not None:
            terms.memory[who, self._inside] = velocity
        return total

    def _work_on_all(self, rows: Tensor, laid: _Laid, local: SGD, keys: Tensor, round: int, taken: Tensor,
                     terms: Terms) -> Tensor:  # fmt: skip
        """The same where all rows are one chunk, in order: on the rows themselves, nothing looked up."""
        velocity = None
        if terms.memory is not None:
            velocity = terms.memory[:, self._inside]
        elif local.momentum:
            velocity = torch.zeros_like(rows[:, self._trained])
        cut = _cut(terms, ALL, self._inside)
        return self._steps(rows, laid.chosen, laid.turns or (), local, keys, round, taken, velocity, cut)

    def _steps(self, x: Tensor, who: Tensor, turns: Iterable[Turn], local: SGD, keys: Tensor, round: int, taken: Tensor,
               velocity: Tensor | None, cut: _Cut) -> Tensor:  # fmt: skip
        """The steps themselves, in place on x and velocity."""
        total = torch.zeros(len(who), dtype=torch.float64, device=x.device)
        alike = not callable(local.lr) or bool((taken == taken[0]).all())
        first = int(taken[0]) if callable(local.lr) else 0  # a rate that is a number asks nobody
        for turn in turns:
            part = turn.part
            before = (first if alike and isinstance(turn.step, int) else taken[part]) + turn.step
            step_keys = key(keys[part], "step", turn.step) if self.task.keyed else keys[part]
            own, moving = x[part], None if velocity is None else velocity[part]
            batch = self._batch(turn, who, step_keys)
            loss = self._step(own, batch, step_keys, local, local.rates(round, before), moving, cut.part(part))
            if isinstance(part, slice):
                total[part].add_(loss)
                continue
            total[part] += loss
            x[part] = own  # it was a copy, not a view
            if velocity is not None and moving is not None:
                velocity[part] = moving
        return total.cpu()

    def _batch(self, turn: Turn, who: Tensor, keys: Tensor) -> Batch:
        data = self.task.train
        own = data.everything(who[turn.part]) if turn.samples is None else data.pooled(turn.samples)
        return self.task.drawn(own, keys)

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
        if self._probe is not None:
            return self._probe(point, batch, keys)
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


@dataclass(frozen=True)
class _Laid:
    """How the chosen peers lie side by side: in descending order of their work and samples, in blocks and chunks."""

    chosen: Tensor
    local: SGD
    work: Tensor | None
    steps: Tensor
    counted: Tensor  # steps, at least 1
    blocks: list[tuple[Tensor, Plan, list[slice]]]  # which of the chosen, their plan, and its chunks
    turns: list[Turn] | None  # of everybody, where they are one chunk, in order, and take all that they have

    @staticmethod
    def out(chosen: Tensor, local: SGD, work: Tensor | None, task: Task, chunk: int) -> _Laid:
        counts = task.train.counts[chosen]
        plan = Plan.of(counts, local, task.smallest_batch, work)
        order = torch.argsort(counts, descending=True, stable=True)
        if work is not None:  # those who work equally much side by side
            order = order[torch.argsort(work[order], descending=True, stable=True)]
        ordered = plan.of_peers(order)
        found = [(order[block], ordered.of_peers(block), chunks) for block, chunks in blocks(ordered, chunk)]
        turns = None
        if (
            plan.whole
            and work is None
            and len(found) == len(found[0][2]) == 1
            and len(order) > 1
            and bool((order.diff() > 0).all())
        ):
            turns = list(Batches(found[0][1], order, order, task.train).of_chunk(found[0][2][0]))
        return _Laid(chosen, local, work, plan.steps, plan.steps.clamp(min=1), found, turns)

    def serves(self, chosen: Tensor, local: SGD, work: Tensor | None) -> bool:
        """Whether these peers lie the same way for this phase."""
        return self.local == local and _same(self.chosen, chosen) and _same(self.work, work)


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other or (one is not None and other is not None and torch.equal(one, other))


def _cut(terms: Terms, who: Tensor | slice, inside: slice) -> _Cut:
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
