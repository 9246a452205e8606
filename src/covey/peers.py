"""The peers of one process, and their local work."""

from __future__ import annotations

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.randomness import key
from covey.rows import Group
from covey.tasks.task import Init, Task, TrainingData
from covey.training.batches import Plan
from covey.training.local import Terms, Worker
from covey.training.pace import Pace, measure
from covey.training.sgd import SGD

_PIECE = 512  # samples of a peer whose gradient is taken in one go


class Peers:
    """The rows that this process hosts: all of them in a simulation, one on a real peer.

    rows    [rows, width]     what each peer's model holds; `shared` and `personal` are its two groups of columns
    state   name -> tensor    whatever a method keeps, peer first; saved and resumed by the engine
    active  bool [rows]       who takes part in this round; nothing of the others moves
    ids     int64 [rows]      who they are among all `n` peers; randomness is keyed by it
    losses  purpose -> [rows] the mean loss over the steps of a phase of this round, NaN for those who sat it out
    effort  int64 [rows]      the gradients taken in this round: one a step, two where it is sharpness-aware
    work    [rows] or None    how many times the steps of a phase each peer takes in this round; None: once, all
    """

    def __init__(self, task: Task, ids: Tensor, n: int, seed: int = 0, init: Init = "common",
                 pace: Pace | None = None, work: Tensor | None = None) -> None:  # fmt: skip
        """work: a table [rounds, n] that begins again where a run is longer (`covey.per_peer`)."""
        self.task, self.ids, self.n, self.seed, self.round = task, ids, n, seed, 0
        self.rows = task.start(ids, seed, init)
        self.state: dict[str, Tensor] = {}
        self.active = torch.ones(len(ids), dtype=torch.bool)
        self.losses: dict[str, Tensor] = {}
        self.effort = torch.zeros(len(ids), dtype=torch.int64)
        self.pace = pace
        self._schedule = work
        self.work = self._work_in(0)
        self._rates: dict[str, Tensor] = {}
        self._workers: dict[Group, Worker] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def begin(self, round: int, active: Tensor) -> None:
        """A round begins (called by the engine)."""
        self.round, self.active, self.losses = round, active, {}
        self.work = self._work_in(round)
        self.effort = torch.zeros_like(self.effort)

    def _work_in(self, round: int) -> Tensor | None:
        return None if self._schedule is None else self._schedule[round % len(self._schedule)][self.ids]

    @property
    def data(self) -> TrainingData:
        return self.task.train

    @property
    def shared(self) -> Tensor:
        return self.rows[:, self.task.layout.shared]

    @shared.setter
    def shared(self, value: Tensor) -> None:
        self._put("shared", value)

    @property
    def personal(self) -> Tensor:
        return self.rows[:, self.task.layout.personal]

    @personal.setter
    def personal(self, value: Tensor) -> None:
        self._put("personal", value)

    def _put(self, group: Group, value: Tensor) -> None:
        if value.shape == self.rows.shape:
            self.rows = value
        else:
            self.rows[:, self.task.layout.columns(group)] = value

    def of_active(self, new: Tensor, old: Tensor) -> Tensor:
        """`new` for those who take part in this round, `old` for the others."""
        return torch.where(self.active.to(new.device).view(-1, *(1,) * (new.dim() - 1)), new, old)

    def steps(self, local: SGD) -> Tensor:
        """How many steps of `local` each peer takes in this round, [rows, 1]: epochs over unequal data differ, and so
        does `work`."""
        steps = Plan.of(self.data.counts, local, self.task.smallest_batch, self.work).steps
        return steps.to(self.rows)[:, None]

    def tensors(self, group: Group) -> list[slice]:
        """The tensors of a group, as columns within it."""
        layout = self.task.layout
        first = layout.columns(group).start
        fields = layout.members(group, layout.statistics | layout.parameters).values()
        columns = sorted((f.columns.start - first, f.columns.stop - first) for f in fields)
        return [slice(start, stop) for start, stop in columns if stop > start]

    def progress(self, purpose: str = "shared") -> tuple[Tensor, Tensor]:
        """How many steps of a phase each peer has taken, and the rate of its last one: columns [rows, 1]. Before the
        first step the rate is zero."""
        taken = self.state.get(f"steps/{purpose}", torch.zeros(len(self), dtype=torch.int64))
        return taken[:, None].to(self.rows), self._rates.get(purpose, torch.zeros(len(self), 1)).to(self.rows)

    def direction(self, local: SGD, before: Tensor, after: Tensor) -> Tensor:
        """(before − after) / (η K): the mean direction in which the round's K steps of `local` went, at the rate of the
        last one; 0 where there was none."""
        length = self.progress()[1] * self.steps(local)
        return torch.where(length > 0, (before - after) / length, 0.0)

    def ones(self) -> Tensor:
        """A column of ones, such as the first push-sum mass."""
        return self.rows.new_ones(len(self), 1)

    def with_shared(self, shared: Tensor) -> Tensor:
        """The rows with other shared columns, as a new tensor."""
        rows = self.rows.clone()
        rows[:, self.task.layout.shared] = shared
        return rows

    def train(
        self,
        local: SGD,
        group: Group = "all",
        *,
        mass: Tensor | None = None,
        plus: Tensor | None = None,
        pull: tuple[float, Tensor] | None = None,
        mask: Tensor | None = None,
        memory: Tensor | None = None,
        purpose: str | None = None,
    ) -> None:
        """Let the active peers take the steps of `local` on the columns of a group, in place; all else is untouched.

        Every term is data with a row per peer, over the columns of the group (all columns where it is "all"):
        mass    [rows, 1]  the gradient is taken at shared / mass; steps act on the undivided rows
        plus               added to every gradient, after SAM and clipping and before momentum
        pull    (λ, c)     adds λ(x − c) to every gradient; λ is one number
        mask               multiplies the columns after each step
        memory             momentum that outlives the round, changed in place
        purpose            names the draw of mini-batches; two calls with one purpose in a round see the same ones.
                           By default "personal" for the personal group, else "shared"
        """
        terms = Terms(mass, plus, pull, mask, memory)
        purpose = purpose or ("personal" if group == "personal" else "shared")
        self._descend(self.rows, local, group, terms, purpose, self.active)

    def trained(
        self,
        local: SGD,
        group: Group = "all",
        *,
        rows: Tensor | None = None,
        mass: Tensor | None = None,
        plus: Tensor | None = None,
        pull: tuple[float, Tensor] | None = None,
        mask: Tensor | None = None,
        memory: Tensor | None = None,
        purpose: str,
        everyone: bool = False,
        continuing: str | None = None,
    ) -> Tensor:
        """As `train`, on a copy of the rows (or of other `rows`), which is returned. With `everyone` the inactive
        train too and nothing is remembered: that is for evaluation. Rates that depend on the step go on from where
        the purpose `continuing` stands."""
        copy = (self.rows if rows is None else rows).clone()
        who = torch.ones_like(self.active) if everyone else self.active
        terms = Terms(mass, plus, pull, mask, memory)
        self._descend(copy, local, group, terms, purpose, who, continuing, remember=not everyone)
        return copy

    def grad(self, *, rows: Tensor | None = None, mass: Tensor | None = None, local: SGD | None = None,
             purpose: str = "grad") -> Tensor:  # fmt: skip
        """∇F of every peer at its row (statistics columns are 0): over all its data, or over one batch of `local`."""
        point = self.rows if rows is None else rows
        one = self._one_pass() if local is None else SGD(lr=0.0, batch=local.batch)
        gradient = torch.zeros_like(point)
        own = self._worker("all", one).gradients(point, one, self._keys(purpose), mass)
        gradient[:, self.task.layout.trained("all")] = own
        self.effort = self.effort + self.active
        return gradient

    def _one_pass(self) -> SGD:
        """All that each peer has: at once, or in pieces where that is much and the mean over pieces is the same."""
        task = self.task
        apart = task.loss_per_sample is not None and task.smallest_batch == 1
        if apart and int(self.data.counts.max()) > _PIECE:
            return SGD(lr=0.0, epochs=1, batch=_PIECE)
        return SGD(lr=0.0)

    def _require_batches(self, local: SGD) -> None:
        smallest = self.task.smallest_batch
        if int(self.data.counts.min()) < smallest:
            peer = int(self.ids[self.data.counts.argmin()])
            raise BadInput(f"Peer {peer} has a single training sample, and BatchNorm needs two; give it more data.")
        if local.batch is not None and local.batch < smallest:
            raise BadInput(f"batch={local.batch} is too small: BatchNorm needs {smallest} samples in every batch.")

    def _keys(self, purpose: str) -> Tensor:
        return key(self.seed, purpose, self.round, self.ids)

    def _worker(self, group: Group, local: SGD) -> Worker:
        if not self._workers:
            self.pace = measure(self.task, self.rows, local.batch, self.pace)
        assert self.pace is not None
        if group not in self._workers:
            self._workers[group] = Worker(self.task, group, self.pace, self.rows)
        return self._workers[group]

    def _descend(self, rows: Tensor, local: SGD, group: Group, terms: Terms, purpose: str, who: Tensor,
                 continuing: str | None = None, remember: bool = True) -> None:  # fmt: skip
        terms.require_shapes(len(self), self.task.layout.columns(group), group)
        columns = self.task.layout.trained(group)
        if not who.any() or columns.start == columns.stop or not local.work:
            return
        chosen = who.nonzero()[:, 0]
        counter = f"steps/{continuing or purpose}"
        taken = self.state.get(counter, torch.zeros(len(self), dtype=torch.int64))
        self._require_batches(local)
        worker = self._worker(group, local)
        keys = self._keys(purpose)[chosen]
        work = None if self.work is None else self.work[chosen]
        steps, loss = worker.descend(rows, chosen, local, keys, self.round, taken[chosen], terms, work)
        if remember:
            self.state[counter] = taken.index_add(0, chosen, steps)
            last = local.rates(self.round, self.state[counter][chosen] - 1)
            rates = self._rates.get(purpose, torch.zeros(len(self), 1, dtype=torch.float64)).clone()
            rates[chosen] = torch.as_tensor(last, dtype=torch.float64).view(-1, 1).expand(len(chosen), 1)
            self._rates[purpose] = rates
            self.effort = self.effort.index_add(0, chosen, steps * (2 if local.sam else 1))
            losses = torch.full((len(self),), torch.nan, dtype=torch.float64)
            self.losses[purpose] = losses.index_copy_(0, chosen, loss)
