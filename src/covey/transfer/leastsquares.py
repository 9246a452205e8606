"""Least squares with the solution of smallest norm, safe at every rank.

    Θ = X⁺ y = Z S⁻¹ Uᵀ y,     X = U S Zᵀ,   singular values below tolerance · s₁ count as zero

Where X has full column rank this is the only solution; elsewhere it is the one of smallest norm among all that fit
equally well, so nothing explodes at n = d or with repeated rows. XᵀX and XXᵀ are never formed: they would square the
condition number. Not ridge regression: what is kept is not shrunk.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Fit:
    """solution [d] or [d, outputs]; rank: how many directions of the inputs the samples determine."""

    solution: Tensor
    rank: int


def least_squares(X: Tensor, y: Tensor, tolerance: float) -> Fit:
    """argmin ‖y − XΘ‖, the one of smallest norm where there are several. X [n, d]; y [n] or [n, outputs].
    tolerance: see `covey.transfer.given.relative`."""
    U, s, Zt = torch.linalg.svd(X, full_matrices=False)
    rank = int((s > tolerance * s[0]).sum()) if len(s) else 0
    coordinates = U[:, :rank].T @ (y if y.dim() == 2 else y[:, None]) / s[:rank, None]
    solution = Zt[:rank].T @ coordinates
    return Fit(solution if y.dim() == 2 else solution[:, 0], rank)
