"""A source learns its model, and with it the representation that it can give to others.

    min_{B, W} ‖Y − XBW‖²,   B ∈ R^{d×k},  W ∈ R^{k×outputs}                                 (5.3)
    Θ = X⁺Y;   XΘ = U S Zᵀ;   BW = Θ Z_k Z_kᵀ                                       reduced-rank regression

Singh, *Towards Efficient Federated Learning*, (5.3); the minimiser is A. J. Izenman's, *Reduced-rank regression for the
multivariate linear model*, 1975. In (5.3) every source has its own B_i, so only what its own outputs need is
determined: with one output that is one direction, θ_i itself, however large k is. A common space of many such sources
is `dictionary([B_1, …], rank=l)`. Not a joint factorisation over sources: that would need their data in one place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.transfer.given import Numbers, relative, samples
from covey.transfer.leastsquares import least_squares


@dataclass(frozen=True)
class Source:
    """B [d, k], orthonormal, is what a source gives away; w ([k] or [k, outputs]) is its own head; θ = Bw."""

    B: Tensor
    w: Tensor

    @property
    def theta(self) -> Tensor:
        return self.B @ self.w


def learn_source(X: Numbers, y: Numbers, rank: int | None = None, *, tolerance: float | None = None) -> Source:
    """The least-squares model of rank `rank` or less; k is smaller where the outputs need fewer directions."""
    x, y = samples(X, y)
    if rank is not None and rank < 1:
        raise BadInput(f"rank={rank} leaves no representation; give 1 or more, or leave it out.")
    Y = y if y.dim() == 2 else y[:, None]
    tolerance = relative(tolerance, max(x.shape), X)
    theta = least_squares(x, Y, tolerance).solution
    _, s, Zt = torch.linalg.svd(x @ theta, full_matrices=False)
    k = int((s > tolerance * s[0]).sum())
    if k == 0:
        raise BadInput(
            "The source learned nothing: no output depends on any input; give it data with labels that vary."
        )
    Z = Zt[: min(k, rank or k)].T
    B, R = torch.linalg.qr(theta @ Z)
    w = R @ Z.T
    return Source(B, w if y.dim() == 2 else w[:, 0])
