"""A task given as loss(params, batch) for one peer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from covey.errors import BadInput
from covey.rows import Layout
from covey.split import personal_names
from covey.tasks.digest import digest
from covey.tasks.task import Batch, Init, Named, Task


class PeerRows:
    """Data with a row per peer. `everything` is the whole row, with or without a sample axis."""

    def __init__(self, arrays: tuple[Tensor, ...]) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def counts(self) -> Tensor:
        samples = self.arrays[0].shape[1] if self.arrays[0].dim() > 1 else 1
        return torch.full((len(self),), samples)

    def everything(self, rows: Tensor) -> Batch:
        return tuple(a[rows] for a in self.arrays)

    def locate(self, rows: Tensor, positions: Tensor) -> Tensor:
        if any(a.dim() < 2 for a in self.arrays):
            raise BadInput("SGD(batch=…) needs data of shape [peers, samples, …]; this task's data has no sample axis.")
        return (rows * self.arrays[0].shape[1] + positions).to(self.arrays[0].device)

    def pooled(self, positions: Tensor) -> Batch:
        return tuple(a.flatten(0, 1)[positions] for a in self.arrays)


class FunctionTask(Task):
    """See `Task.from_function`."""

    def __init__(
        self,
        loss: Callable[[dict[str, Tensor], Any], Tensor],
        params: Mapping[str, Tensor],
        data: Tensor | tuple[Tensor, ...],
        personal: str | Sequence[str],
        start: Mapping[str, Tensor] | None,
    ) -> None:
        self._single = isinstance(data, Tensor)
        arrays = (data,) if isinstance(data, Tensor) else tuple(data)
        if not arrays or any(len(a) != len(arrays[0]) for a in arrays):
            raise BadInput("The data of a function task need the same number of rows, one per peer, in every tensor.")
        if not params:
            raise BadInput("A function task needs at least one named parameter.")
        self._loss, self._params, self._start = loss, dict(params), dict(start or {})
        for name, value in self._start.items():
            wanted = (len(arrays[0]), *self._params[name].shape) if name in self._params else None
            if tuple(value.shape) != wanted:
                raise BadInput(f"start['{name}'] has shape {tuple(value.shape)}; a row per peer is needed: {wanted}.")
        self._rows = PeerRows(arrays)
        self.layout = Layout(
            {name: value.shape for name, value in params.items()}, {}, personal_names(list(params), personal)
        )

    @property
    def train(self) -> PeerRows:
        return self._rows

    def start(self, ids: Tensor, seed: int, init: Init) -> Tensor:
        if init != "common":
            raise BadInput(f"init='{init}' has nothing to draw from in a function; give start=… with a row per peer.")
        rows = self.layout.pack(self._params).expand(len(ids), -1).clone()
        for name, value in self._start.items():
            rows[:, self.layout.parameters[name].columns] = value.reshape(len(value), -1).to(rows)
        return rows.to(self._rows.arrays[0].device)

    def _unwrap(self, batch: Batch) -> Any:
        return batch[0] if self._single else batch

    def loss_at(self, parameters: Named, statistics: Named, batch: Batch, key: Tensor) -> tuple[Tensor, Named]:
        return self._loss(dict(parameters), self._unwrap(batch)), statistics

    def bind(self, parameters: Named, statistics: Named) -> Callable[[Batch, Tensor], Tensor]:
        named = dict(parameters)
        return lambda batch, key: self._loss(named, self._unwrap(batch))

    def digest(self) -> str:
        loss = self._loss.loss if isinstance(self._loss, _MeanLoss) else self._loss
        return digest(loss, *self._params.values(), *self._start.values(), *self._rows.arrays)

    def whole(self) -> Task:
        task = copy.copy(self)
        task.layout = Layout({name: value.shape for name, value in self._params.items()}, {}, frozenset())
        return task

    def centralised(self) -> Task:
        """Its samples are the peers: the loss is the mean of theirs, SGD(batch=…) that of some of them."""
        task = copy.copy(self)
        task._loss = _MeanLoss(self._loss)
        n = len(self._rows)
        task._rows = PeerRows(tuple(a.expand(n, *a.shape) for a in self._rows.arrays))
        return task

    def select(self, ids: Tensor) -> Task:
        task = copy.copy(self)
        task._rows = PeerRows(self._rows.everything(ids))
        task._start = {name: value[ids] for name, value in self._start.items()}
        return task

    def to(self, device: torch.device | str) -> Task:
        task = copy.copy(self)
        task._rows = PeerRows(tuple(a.to(device) for a in self._rows.arrays))
        return task


@dataclass(frozen=True)
class _MeanLoss:
    """The mean over some peers of their losses at the same parameters."""

    loss: Callable[[dict[str, Tensor], Any], Tensor]

    def __call__(self, params: dict[str, Tensor], several: Any) -> Tensor:
        return vmap(self.loss, in_dims=(None, 0))(params, several).mean()
