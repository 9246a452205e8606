"""The dictionary of the sources: one orthonormal basis for what all their representations span.

    V ∈ R^{d×q},   VᵀV = I,   span V = span [B_1, …, B_m],   q ≤ Σ k_i

Singh, *Towards Efficient Federated Learning*, 5.3.1 (there by Gram and Schmidt, which cannot tell a repeated direction
from rounding). Each B_i counts by the space it spans, whatever its scale, and the singular values of the bases beside
each other tell new directions from old: m identical sources give √m and zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.transfer.given import Numbers, columns, relative


def dictionary(sources: Sequence[Numbers], *, rank: int | None = None, tolerance: float | None = None) -> Tensor:
    """V [d, q] from representations B_i, each [d, k_i] (or one direction [d]).

    rank       keep the so many directions that the sources share most, for sources that agree up to noise
    tolerance  what counts as no new direction, as a part of the largest singular value; by default the rounding of the
               coarsest type given, so that a source that went through float32 does not bring its own rounding along
    """
    if len(sources) == 0:
        raise BadInput("A dictionary needs at least one representation; none was given.")
    blocks = [columns(B, f"B_{i + 1}") for i, B in enumerate(sources)]
    if len({len(B) for B in blocks}) > 1:
        raise BadInput(
            f"The representations have {[len(B) for B in blocks]} rows; all need one per input of the target."
        )
    if rank is not None and rank < 1:
        raise BadInput(f"rank={rank} keeps no direction; give 1 or more, or leave it out.")
    size = max(len(blocks[0]), sum(B.shape[1] for B in blocks))
    tolerance = relative(tolerance, size, *sources)
    bases = [_basis(B, tolerance) for B in blocks]
    V = _basis(torch.cat(bases, dim=1), tolerance)
    if V.shape[1] == 0:
        raise BadInput(
            "The dictionary has rank zero: every representation is zero; leave out sources that learned nothing."
        )
    return V[:, :rank]


def _basis(B: Tensor, tolerance: float) -> Tensor:
    """An orthonormal basis of what the columns span, the most shared direction first."""
    if B.shape[1] == 0:
        return B
    away = B.T @ B - torch.eye(B.shape[1], dtype=B.dtype, device=B.device)
    if float(away.abs().max()) <= len(B) * torch.finfo(B.dtype).eps:
        return B  # it is one already, as blocks of features and the B of `learn_source` are
    U, s, _ = torch.linalg.svd(B, full_matrices=False)
    return U[:, s > tolerance * s[0]]
