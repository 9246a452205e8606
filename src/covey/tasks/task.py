"""A task: a layout of rows, the peers' data, and the loss of one peer.

A task gives the loss in two forms, because each is fastest somewhere: as a pure function of named tensors, which
`vmap` applies to many peers at once, and bound to given tensors, which plain autograd differentiates for one peer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn

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
    keyed = False  # True: the forward pass uses the key it is given (dropout, or `seeded`)
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
    ) -> Task:
        """A task with loss(params, batch) -> scalar for one peer.

        data: a tensor, or a tuple of tensors, with a row per peer; `batch` is that peer's whole row, or, under
        SGD(batch=…), some entries of its first axis. start: named tensors with a row per peer, where the first
        values differ between peers.
        """
        from covey.tasks.function import FunctionTask

        return FunctionTask(loss, params, data, personal, start)
