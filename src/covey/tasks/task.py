"""A task: a layout of rows, the peers' data, and the loss of one peer.

A task gives the loss in two forms, because each is fastest somewhere: as a pure function of named tensors, which
`vmap` applies to many peers at once, and bound to given tensors, which plain autograd differentiates for one peer.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.func import vmap

from covey.errors import BadInput
from covey.rows import Layout

if TYPE_CHECKING:
    from covey.data import Federated

Batch = tuple[Tensor, ...]
Named = Mapping[str, Tensor]
Init = Literal["common", "heads", "all"]
Metric = Callable[[Tensor, Tensor], Tensor]  # (prediction, target) -> one number per sample


class TrainingData(Protocol):
    """The training data of the peers that this process hosts, by local row."""

    @property
    def counts(self) -> Tensor: ...
    def locate(self, rows: Tensor, positions: Tensor) -> Tensor:
        """Where the samples at these positions among each row's own lie, for `pooled`."""
        ...

    def pooled(self, positions: Tensor) -> Batch: ...
    def everything(self, rows: Tensor) -> Batch: ...
    def __len__(self) -> int: ...


class Task(ABC):
    """What is learned, and from what."""

    layout: Layout
    metrics: Mapping[str, Metric] = {}
    seeded = False  # True: the forward pass reads torch's generator, which is then seeded per peer and step
    keyed = False  # True: the loss uses the key it is given (dropout, `seeded`, samples drawn, directions)
    differentiable = True  # False: the loss is a black box, and there is no gradient but an estimate
    probe: float | None = None  # ζ: gradients are estimated from two values (`probed`); None: autograd
    smallest_batch = 1
    loss_per_sample: Metric | None = None  # the loss of each sample on its own, where the loss is their mean
    why_alone: str | None = None  # set where peers cannot be stacked, with the reason

    @property
    def data(self) -> Federated | None:
        """Train, test and validation samples; None where a task has a loss and nothing else."""
        return None

    @property
    @abstractmethod
    def train(self) -> TrainingData:
        """The training data."""

    @abstractmethod
    def start(self, ids: Tensor, seed: int, init: Init) -> Tensor:
        """The first rows [rows, width] of the peers `ids`. init says what differs between peers."""

    @abstractmethod
    def loss_at(self, parameters: Named, statistics: Named, batch: Batch, key: Tensor) -> tuple[Tensor, Named]:
        """The loss of one peer, and its statistics after the pass."""

    @abstractmethod
    def bind(self, parameters: Named, statistics: Named) -> Callable[[Batch, Tensor], Tensor]:
        """A function batch, key -> loss that reads `parameters` and changes `statistics` in place."""

    def losses_at(self, parameters: Named, statistics: Named, batch: Batch, keys: Tensor) -> Tensor:
        """The loss of each of several peers: everything with a row per peer."""
        if len(keys) > 1:
            return vmap(self.loss_at)(parameters, statistics, batch, keys)[0]
        own, kept = ({name: value[0] for name, value in part.items()} for part in (parameters, statistics))
        return self.loss_at(own, kept, tuple(part[0] for part in batch), keys[0])[0][None]

    def objectives_at(self, parameters: Named, statistics: Named, batch: Batch, keys: Tensor) -> Tensor:
        """What looks report of each of several peers: the loss, unless the task has something better."""
        return self.losses_at(parameters, statistics, batch, keys)

    def drawn(self, own: Batch, keys: Tensor) -> Batch:
        """The batches of this step, made of what the peers own: the same, unless the task draws samples."""
        return own

    def probed(self, zeta: float) -> Task:
        """The task with gradients estimated from two values of the loss, at x ± ζu with u uniform on the sphere:
        (d / 2ζ) (f(x + ζu; ξ) − f(x − ζu; ξ)) u, the same ξ in both. It is all that can be had of a black box."""
        if not 0 < zeta < math.inf:
            raise BadInput(f"zeta={zeta} is no distance between two points; use a number above 0, such as 1e-4.")
        task = copy.copy(self)
        task.probe, task.keyed = zeta, True
        return task

    def predict_at(self, parameters: Named, statistics: Named, x: Tensor) -> Tensor:
        """What one peer's model predicts, in evaluation mode."""
        raise BadInput(f"{type(self).__name__} predicts nothing; it has a loss only.")

    def bind_prediction(self, parameters: Named, statistics: Named) -> Callable[[Tensor], Tensor]:
        """A function x -> prediction of the model with these tensors."""
        raise BadInput(f"{type(self).__name__} predicts nothing; it has a loss only.")

    def loss_of(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The mean loss of predictions."""
        raise BadInput(f"{type(self).__name__} predicts nothing; it has a loss only.")

    def with_shared(self, tensors: Named) -> Task:
        """This task with its shared part starting from these tensors, by name."""
        raise BadInput(f"{type(self).__name__} cannot start from another run's tensors; it needs a module.")

    def hold_out(self, fraction: float, seed: int) -> Task:
        """The task with a part of each peer's training samples set aside for validation."""
        raise BadInput(f"validation={fraction} needs a data set to hold a part of; this task is a function.")

    def state_dict(self, row: Tensor) -> dict[str, Tensor]:
        """One row as named tensors, in the form that the user's module loads."""
        return {name: value[0].clone() for name, value in self.layout.unpack(row[None]).items()}

    @abstractmethod
    def digest(self) -> str:
        """A hash of the data, the model's shape and the loss: what must be the same for a run to go on."""

    @abstractmethod
    def whole(self) -> Task:
        """The same task with every parameter shared."""

    def with_statistics_at_home(self) -> Task:
        """The same task with BatchNorm's running statistics personal everywhere."""
        return self

    @abstractmethod
    def centralised(self) -> Task:
        """The same task where each peer has everybody's training data."""

    @abstractmethod
    def select(self, ids: Tensor) -> Task:
        """The task as the hosts of these peers see it: their data alone."""

    @abstractmethod
    def to(self, device: torch.device | str) -> Task:
        """The task with its data on a device."""

    def describe(self) -> dict[str, Any]:
        """What a report says of the task."""
        shared, personal = self.layout.shared, self.layout.personal
        own = {"shared": shared.stop - shared.start, "personal": personal.stop - personal.start}
        return own | (self.data.describe() if self.data is not None else {})

    @staticmethod
    def from_module(
        module: nn.Module,
        data: Federated,
        personal: str | Sequence[str] = (),
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        metrics: Mapping[str, Metric] | None = None,
        statistics: Literal["group", "personal"] = "group",
    ) -> Task:
        """A task that trains any `nn.Module`.

        personal: prefix(es) of the parameters that each peer keeps. loss: (prediction, target) -> mean, cross-entropy
        by default. metrics: name -> (prediction, target) -> one number per sample, accuracy by default.
        statistics: BatchNorm's running statistics follow the group of their layer ("group": those of a shared layer
        are averaged with neighbours), or stay personal everywhere ("personal").
        """
        from covey.tasks.module import ModuleTask

        return ModuleTask(module, data, personal, loss, metrics, statistics)

    @staticmethod
    def from_function(
        loss: Callable[[dict[str, Tensor], Any], Tensor],
        params: Mapping[str, Tensor],
        data: Tensor | tuple[Tensor, ...],
        personal: str | Sequence[str] = (),
        start: Mapping[str, Tensor] | None = None,
        sample: Callable[[Any, Tensor], Any] | None = None,
        objective: Callable[[dict[str, Tensor], Any], Tensor] | None = None,
    ) -> Task:
        """A task with loss(params, batch) -> scalar for one peer.

        data: a tensor, or a tuple of tensors, with a row per peer; `batch` is that peer's whole row, or, under
        SGD(batch=…), some entries of its first axis. start: named tensors with a row per peer, where the first
        values differ between peers. sample(rows of the data, keys [m]) -> batches with a row per peer: a fresh ξ for
        every step, drawn from the keys (`covey.randomness`). objective(params, own row) -> scalar: what looks report
        in the place of the loss, such as its expectation.
        """
        from covey.tasks.function import FunctionTask

        return FunctionTask(loss, params, data, personal, start, sample, objective)

    @staticmethod
    def from_blackbox(
        loss: Callable[[dict[str, Any], Any], Any],
        params: Mapping[str, Tensor],
        data: Tensor | tuple[Tensor, ...],
        personal: str | Sequence[str] = (),
        start: Mapping[str, Tensor] | None = None,
        sample: Callable[[Any, Tensor], Any] | None = None,
    ) -> Task:
        """A task whose loss(params, batch) -> number is no torch: a simulator, a measurement, another library.

        `params` and `batch` come as numpy arrays, everything else as in `from_function`. It has values and no
        gradient: for `SaddlePoint(feedback="bandit", zeta=…)`, or for any method on `task.probed(zeta)`.
        """
        from covey.tasks.function import BlackBoxTask

        return BlackBoxTask(loss, params, data, personal, start, sample, None)
