"""A task with two heads on one body: a generic one, and a personal one that corrects it.

    z = body(x);   o_G = h(z);   o_P = g(stop(z))
    training: CE(o_G + log n_i, y) + CE(stop(o_G) + o_P, y);   prediction: o_G + o_P        n_i(c): i's samples of c

The module's head, which `personal` names, becomes a pair of heads with the same input; everything else of the user's
module is left as it is, and since the pair is a module, peers are stacked, trained one at a time and judged like any
others. Its class counts are a buffer in each peer's row: personal, and moved by nobody.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from covey.errors import BadInput
from covey.rows import Layout
from covey.tasks.module import ModuleTask
from covey.tasks.task import Init, Task


class TwoHeads(nn.Module):
    """The generic head, and `own`, which begins as its copy. In training both scores [batch, 2, classes], the generic
    one balanced by the class counts; in evaluation their sum."""

    counts: Tensor

    def __init__(self, head: nn.Module, classes: int, own: nn.Module) -> None:
        super().__init__()
        self.generic, self.own = head, own
        like = next(head.parameters())
        self.register_buffer("counts", torch.ones(classes, dtype=like.dtype))

    def forward(self, z: Tensor) -> Tensor:
        generic = self.generic(z)
        own = self.own(z.detach(), self.counts) if isinstance(self.own, Hyper) else self.own(z.detach())
        both = generic.detach() + own
        if not self.training:
            return both
        return torch.stack([generic + self.counts.log(), both], dim=1)  # log 0: an absent class has probability 0


class Hyper(nn.Module):
    """A head whose parameters a small network makes of the peer's shares of classes. It begins as `head`."""

    def __init__(self, head: nn.Module, classes: int, width: int) -> None:
        super().__init__()
        self._shapes = {name: p.shape for name, p in head.named_parameters()}
        flat = torch.cat([p.detach().reshape(-1) for p in head.parameters()])
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            self.hidden = nn.Linear(classes, width, dtype=flat.dtype)
            self.out = nn.Linear(width, len(flat), dtype=flat.dtype)
            self.out.weight.zero_()
            self.out.bias.copy_(flat)
        self._head = [head]  # in a list: its parameters are made, and not this module's

    def forward(self, z: Tensor, counts: Tensor) -> Tensor:
        made = self.out(F.relu(self.hidden(counts / counts.sum().clamp(min=1))))
        parts = made.split([shape.numel() for shape in self._shapes.values()])
        named = {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}
        return functional_call(self._head[0].train(self.training), named, (z,))


def balanced(prediction: Tensor, target: Tensor) -> Tensor:
    """The loss of both heads, each on its own scores [batch, 2, classes]."""
    return F.cross_entropy(prediction[:, 0], target) + F.cross_entropy(prediction[:, 1], target)


class TwoHeadTask(ModuleTask):
    """A classification whose peers have a personal head beside the generic one.

    hyper: the personal head is made from the peer's shares of classes by a network with so many hidden units; that
    network is shared, and nothing that is trained stays personal.
    """

    def __init__(self, task: Task, hyper: int | None = None) -> None:
        if not isinstance(task, ModuleTask):
            raise BadInput("Two heads need a module whose head can be doubled, but this task is a function.")
        if task._loss is not F.cross_entropy or task.data.classes is None:
            raise BadInput(
                "Two heads balance the counts of classes, so they need a classification by cross-entropy; this task "
                "has another loss, or labels that are no classes."
            )
        name, outputs = task.head()
        module = copy.deepcopy(task.module)
        head = module.get_submodule(name)
        if hyper is not None and (hyper < 1 or any(True for _ in head.buffers())):
            raise BadInput(
                f"hyper={hyper} is a number of hidden units, 1 or more, for a head without running statistics."
            )
        own = copy.deepcopy(head) if hyper is None else Hyper(copy.deepcopy(head), outputs, hyper)
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, TwoHeads(head, outputs, own))
        self._pair = name
        super().__init__(module, task.data, f"{name}.own" if hyper is None else (), balanced, task.metrics,
                         task._statistics)  # fmt: skip
        self.loss_per_sample = task.loss_per_sample

    def _make_layout(self) -> Layout:
        layout = super()._make_layout()
        counts = f"{self._pair}.counts"
        statistics = {name: field.shape for name, field in layout.statistics.items()}
        parameters = {name: p.shape for name, p in self.module.named_parameters() if p.requires_grad}
        kept = layout.members("personal", layout.parameters | layout.statistics).keys()
        statistics[counts] = self.module.get_buffer(counts).shape
        return Layout(parameters, statistics, frozenset({*kept, counts}))

    def start(self, ids: Tensor, seed: int, init: Init) -> Tensor:
        rows = super().start(ids, seed, init)
        columns, counts = self.layout.statistics[f"{self._pair}.counts"].columns, self.data.class_counts().to(rows)
        rows[:, columns] = 0.0  # a model may have scores for more classes than there are
        rows[:, columns.start : columns.start + counts.shape[1]] = counts
        return rows

    def generic(self, rows: Tensor) -> Tensor:
        """The rows without their own heads, so that they predict o_G."""
        alone = rows.clone()
        for name, field in self.layout.parameters.items():
            if name.startswith(f"{self._pair}.own."):
                alone[:, field.columns] = 0.0
        return alone

    def loss_of(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(prediction, target)  # of what is predicted: the sum

    def state_dict(self, row: Tensor) -> dict[str, Tensor]:
        """Two linear heads on one input are one, and fit the user's module; others keep their two names."""
        every, pair = super().state_dict(row), f"{self._pair}."
        head = self.module.get_submodule(f"{pair}own")
        if type(head) is not nn.Linear:
            return every
        one = {pair + name: every[f"{pair}generic.{name}"] + every[f"{pair}own.{name}"] for name in head.state_dict()}
        return {name: value for name, value in every.items() if not name.startswith(pair)} | one
