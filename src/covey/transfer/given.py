"""What the functions of this package accept, and refuse: numbers, as float64 matrices of fitting shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from covey.errors import BadInput

Numbers = Tensor | Sequence[Any]  # or a numpy array: whatever torch.as_tensor takes


def numbers(values: Numbers, name: str) -> Tensor:
    """A float64 tensor of finite numbers."""
    x = _tensor(values).to(torch.float64)
    if not bool(x.isfinite().all()):
        raise BadInput(f"{name} holds {int((~x.isfinite()).sum())} entries that are no finite numbers; clean it first.")
    return x


def columns(values: Numbers, name: str) -> Tensor:
    """A matrix [d, k]; a vector [d] is one column."""
    x = numbers(values, name)
    x = x[:, None] if x.dim() == 1 else x
    if x.dim() != 2 or len(x) == 0:
        raise BadInput(f"{name} has the shape {tuple(x.shape)}; it must be a matrix [d, k], or a vector [d].")
    return x


def samples(X: Numbers, y: Numbers, what: str = "") -> tuple[Tensor, Tensor]:
    """X [n, d] and y, [n] or [n, outputs]."""
    x, y = numbers(X, f"{what}X"), numbers(y, f"{what}y")
    if x.dim() != 2 or y.dim() not in (1, 2) or len(x) != len(y):
        raise BadInput(
            f"{what}X has the shape {tuple(x.shape)} and {what}y {tuple(y.shape)}; they must be [n, d] and [n] (or "
            "[n, outputs]), a row per sample."
        )
    if not x.numel():
        raise BadInput(f"{what}X has the shape {tuple(x.shape)}; at least one sample and one input are needed.")
    return x, y


def require_inputs(d: int, X: Tensor, name: str) -> None:
    if X.shape[1] != d:
        raise BadInput(f"X has {X.shape[1]} inputs and {name} {d}; both must live in the same space of inputs.")


def relative(tolerance: float | None, size: int, *given: Numbers) -> float:
    """What counts as zero, as a part of the largest singular value: `tolerance`, or else what rounding leaves of a zero
    in a matrix of that size, in the coarsest type among what was given."""
    if tolerance is None:
        types = [_tensor(values).dtype for values in given]
        return min(size * max(torch.finfo(t if t.is_floating_point else torch.float64).eps for t in types), 0.1)
    if not 0 <= tolerance < 1:
        raise BadInput(
            f"tolerance={tolerance} must be at least 0 and less than 1: a part of the largest singular value."
        )
    return tolerance


def _tensor(values: Numbers) -> Tensor:
    """Lists become float64, as numpy has it; torch would round them to float32."""
    return values.detach() if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
