"""Plain linear algebra to compare with: what a textbook writes, right where nothing is ill conditioned."""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDING = 1e-10


def near(a: Tensor, b: Tensor, tolerance: float = ROUNDING) -> bool:
    return a.shape == b.shape and float((a - b).abs().max()) <= tolerance * (1 + float(b.abs().max()))


def projector(B: Tensor) -> Tensor:
    """Onto the columns of B, through the pseudo-inverse."""
    return B @ torch.linalg.pinv(B, rtol=1e-9)


def inverted(X: Tensor) -> Tensor:
    """Xᵀ(XXᵀ)⁻¹, for rows that are independent."""
    return X.T @ torch.linalg.inv(X @ X.T)
