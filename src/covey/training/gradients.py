"""Two ways to take the gradient of many peers: all in one stacked call, or one at a time; and, where only values can
be had, an estimate from two of them.

All answer the same question, so the loop over local steps is written once (`local.py`):

    gradient(point [m, width], rows, positions, keys) -> Gradient(value [m, trained], loss [m], statistics [m, …])

Stacked wins where a peer's work is small against the cost of a call; one at a time wins where the weights of all
peers together fall out of the cache, and works for every module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap

from covey.errors import BadInput
from covey.randomness import key, normal
from covey.rows import Group, views
from covey.tasks.task import Batch, Task


@dataclass
class Gradient:
    """∇F of each row over the trained columns of a group, its loss, and its statistics after the pass."""

    value: Tensor
    loss: Tensor
    statistics: Tensor | None


_TINY = 1 << 12  # numbers in all rows together under which a call costs more than its arithmetic


class Stacked:
    """Gradients of many peers in one call of `vmap`.

    Two ways: `vmap` of the gradient, or, in 0.6 of the calls' time, autograd through a `vmap` of the loss. The second
    is for functions of tiny rows: of large ones now the one, now the other is faster.
    """

    def __init__(self, task: Task, group: Group) -> None:
        layout = task.layout
        self._trained = layout.members(group, layout.parameters)
        self._fixed = {n: f for n, f in layout.parameters.items() if n not in self._trained}
        self._statistics = layout.statistics
        self._own = layout.members(group, layout.statistics)

        def loss(trained: dict[str, Tensor], fixed: dict[str, Tensor], statistics: dict[str, Tensor],
                 batch: Batch, key: Tensor) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
            value, after = task.loss_at({**fixed, **trained}, statistics, batch, key)
            return value, dict(after)

        self._loss = vmap(loss)
        self._light = task.data is None  # some layers (an LSTM) can be stacked in the first way only
        self._call = vmap(grad_and_value(loss, has_aux=True))

    def __call__(self, point: Tensor, batch: Batch, keys: Tensor) -> Gradient:
        m = len(point)
        trained, fixed = views(point, self._trained), views(point, self._fixed)
        statistics = views(point, self._statistics)
        if self._light and point.numel() < _TINY:
            leaves = {name: part.detach().requires_grad_() for name, part in trained.items()}
            with torch.enable_grad():
                loss, after = self._loss(leaves, fixed, statistics, batch, keys)
                parts = torch.autograd.grad(
                    loss.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True
                )
        else:
            gradient, (loss, after) = self._call(trained, fixed, statistics, batch, keys)
            parts = [gradient[name] for name in self._trained]
        value = torch.cat([part.reshape(m, -1) for part in parts], dim=1)
        own = [after[name].detach().reshape(m, -1) for name in self._own]
        return Gradient(value, loss.detach(), torch.cat(own, dim=1) if own else None)


class OneAtATime:
    """Gradients of one peer: its row is copied into a flat buffer of which a working model is a view, and its gradient
    into a second one, so that an update is a handful of kernels however many tensors there are."""

    def __init__(self, task: Task, group: Group, like: Tensor) -> None:
        layout = task.layout
        self.flat = like.new_zeros(1, layout.width)
        trained = layout.trained(group)
        self._gradient = like.new_zeros(1, trained.stop - trained.start)
        own = layout.members(group, layout.parameters)
        parameters = {
            name: nn.Parameter(self.flat[0, field.columns].view(field.shape), requires_grad=name in own)
            for name, field in layout.parameters.items()
        }
        self._leaves = [parameters[name] for name in own]
        self._parts = [
            self._gradient[0, f.columns.start - trained.start : f.columns.stop - trained.start].view(f.shape)
            for f in own.values()
        ]
        statistics = {n: self.flat[0, f.columns].view(f.shape) for n, f in layout.statistics.items()}
        self._statistics = [f.columns for f in layout.statistics.values()]
        self._own = [f.columns for f in layout.members(group, layout.statistics).values()]
        self._loss: Callable[[Batch, Tensor], Tensor] = task.bind(parameters, statistics)

    def __call__(self, point: Tensor, batch: Batch, keys: Tensor) -> Gradient:
        if point.data_ptr() != self.flat.data_ptr():
            self.flat.copy_(point)
        before = [self.flat[:, columns].clone() for columns in self._statistics]
        loss = self._loss(tuple(part[0] for part in batch), keys[0])
        parts = torch.autograd.grad(loss, self._leaves, allow_unused=True, materialize_grads=True)
        torch._foreach_copy_(self._parts, parts)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        after = [self.flat[:, columns].clone() for columns in self._own]
        for columns, value in zip(self._statistics, before, strict=True):
            self.flat[:, columns] = value
        return Gradient(self._gradient, loss.detach()[None], torch.cat(after, dim=1) if after else None)


class TwoPoint:
    """g = (d / 2ζ) (f(x + ζu; ξ) − f(x − ζu; ξ)) u with u uniform on the sphere of the group's d trained columns.

    Its mean is the gradient of f smoothed over a ball of radius ζ; for a quadratic that of f, and g = d ⟨∇f, u⟩ u for
    every ζ. A. Agarwal, O. Dekel, L. Xiao, *Optimal algorithms for online convex optimization with multi-point bandit
    feedback*, 2010. Statistics stay as they are.
    """

    def __init__(self, task: Task, group: Group, zeta: float) -> None:
        self._task, self._zeta = task, zeta
        self._trained = task.layout.trained(group)
        if task.seeded:
            raise BadInput("Two values can be compared only where chance is keyed; leave feedback='sample' here.")

    def __call__(self, point: Tensor, batch: Batch, keys: Tensor) -> Gradient:
        width = self._trained.stop - self._trained.start
        u = normal(key(keys, "direction").to(point.device), width).to(point)
        u /= u.norm(dim=1, keepdim=True)
        ahead, behind = self._value(point, u, batch, keys, self._zeta), self._value(point, u, batch, keys, -self._zeta)
        slope = (ahead - behind) * (width / (2.0 * self._zeta))
        return Gradient(u.mul_(slope.to(u)[:, None]), (ahead + behind) / 2, None)

    @torch.no_grad()
    def _value(self, point: Tensor, u: Tensor, batch: Batch, keys: Tensor, way: float) -> Tensor:
        layout, there = self._task.layout, point.clone()
        there[:, self._trained].add_(u, alpha=way)
        return self._task.losses_at(views(there, layout.parameters), views(there, layout.statistics), batch, keys)
