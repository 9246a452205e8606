"""The consensus step size γ of compressed gossip."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from covey.compress import Compressor
from covey.errors import BadInput
from covey.link import Link
from covey.peers import Peers

Gamma = float | Literal["auto", "theory"]


def require_gamma(gamma: Gamma) -> None:
    if isinstance(gamma, str):
        if gamma not in ("auto", "theory"):
            raise BadInput(f"gamma='{gamma}' is neither a number nor 'auto' nor 'theory'.")
    elif not 0 < gamma <= 1:
        raise BadInput(f"gamma={gamma} is out of range; the consensus step lies above 0 and is at most 1.")


def theoretical(omega: float, delta: float, lam: float) -> float:
    """γ* of SQuARM-SGD's Theorem 2: 2δω / (64δ + δ² + 16λ² + 8δλ² − 16δω), δ = 1 − max(|λ₂|, |λ_n|), λ = 1 − λ_n."""
    return 2 * delta * omega / (64 * delta + delta**2 + 16 * lam**2 + 8 * delta * lam**2 - 16 * delta * omega)


def step_size(gamma: Gamma, compressor: Compressor, peers: Peers, link: Link) -> Tensor:
    """The first γ of each peer, [rows, 1]."""
    if gamma == "theory":
        omega = min(compressor.omega(part.stop - part.start) for part in peers.tensors("shared"))
        delta, lam = link.graph.gaps()
        value = theoretical(omega, delta, lam)
    else:
        value = 1.0 if gamma == "auto" else gamma
    return value * peers.ones()
