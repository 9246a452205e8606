"""The excess risk of a model, and what the theory says of it.

    EER(θ)  = (θ − θ*)ᵀ Σ (θ − θ*)                                                             (5.2)
    r_k(Σ)  = Σ_{i>k} λ_i / λ_{k+1},   R_k(Σ) = (Σ_{i>k} λ_i)² / Σ_{i>k} λ_i²,   k* = min{k : r_k ≥ b n₂}

Theorem 6 bounds the excess risk after both phases by a sum, up to universal constants (here all 1), with probability
1 − δ. σ² is the noise in a label, ε² the excess risk of the best model in the span of the sources:

    head      λ₁/λ_d · r₀/n₂ · σ²/n₁ · (q + log 1/δ)
    misfit    λ₁/λ_d · r₀/n₂ · ε²
    noise     σ² log(1/δ) · (k*/n₂ + n₂/R_k*)
    sources   λ₁/λ_d · r₀/n₂ · σ² · (log(1/δ)/(r n_s m) + (k d log(κ n_s) + k)/(r n_s))

Singh, *Towards Efficient Federated Learning*, 5.4.2 and C.2; r_k and R_k are those of P. Bartlett et al., *Benign
overfitting in linear regression*, 2020. The theorem prints r for the constant c of its second term; (5.8) has c. It
also replaces the deviation of the sample covariance (C.10), λ₁ max{√(r₀/n₂), r₀/n₂, …}, by λ₁ r₀/n₂, which is smaller
where r₀ < n₂; `deviation` keeps the maximum, so that a reader sees how much hangs on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.transfer.given import Numbers, numbers


def excess_risk(theta: Numbers, truth: Numbers, covariance: Numbers) -> Tensor:
    """EER(θ): a number, or one per output. covariance: Σ [d, d], or its diagonal [d] where it is diagonal."""
    gap = numbers(theta, "theta") - numbers(truth, "truth")
    S = numbers(covariance, "covariance")
    if S.shape not in ((len(gap),), (len(gap), len(gap))):
        raise BadInput(
            f"The covariance has the shape {tuple(S.shape)}; for models of {len(gap)} inputs it is [d] or [d, d]."
        )
    moved = S @ gap if S.dim() == 2 else S.view(-1, *(1,) * (gap.dim() - 1)) * gap
    return (gap * moved).sum(0)


@dataclass(frozen=True)
class EffectiveRanks:
    """eigenvalues descending; r and R, [d], at k = 0 … d − 1; k_star None where no r_k reaches b·n."""

    eigenvalues: Tensor
    r: Tensor
    R: Tensor
    k_star: int | None

    @property
    def R_at_k_star(self) -> float:  # noqa: N802 (the paper's letter)
        return math.nan if self.k_star is None else float(self.R[self.k_star])


def effective_ranks(covariance: Numbers, n: int, b: float = 1.0) -> EffectiveRanks:
    """Of Σ [d, d], or of its eigenvalues [d], for n samples of phase 2. b ≥ 1 is a universal constant that the theory
    leaves open; 1 is the kindest choice."""
    S = numbers(covariance, "covariance")
    if S.dim() == 2 and S.shape[0] == S.shape[1] and torch.allclose(S, S.T, rtol=1e-9, atol=1e-12):
        values = torch.linalg.eigvalsh(S)
        rounding = len(values) * torch.finfo(torch.float64).eps * float(values.abs().max())
        values = torch.where(values.abs() <= rounding, 0.0, values)
    elif S.dim() == 1 and len(S):
        values = S
    else:
        raise BadInput(
            f"The covariance has the shape {tuple(S.shape)}; give a symmetric [d, d], or its eigenvalues [d]."
        )
    if float(values.min()) < 0 or float(values.max()) == 0:
        raise BadInput(
            f"The covariance has eigenvalues from {float(values.min()):.3g} to {float(values.max()):.3g}; none may be "
            "negative, and not all zero."
        )
    if n < 1 or b < 1:
        raise BadInput(f"n={n} and b={b}: there must be at least one sample, and b is at least 1.")
    values = values.sort(descending=True).values
    tail = values.flip(0).cumsum(0).flip(0)  # Σ_{i>k} λ_i, summed from the smallest
    squares = values.square().flip(0).cumsum(0).flip(0)
    r = torch.where(values > 0, tail / values, 0.0)
    R = torch.where(squares > 0, tail.square() / squares, 0.0)
    reached = (r >= b * n).nonzero()[:, 0]
    return EffectiveRanks(values, r, R, int(reached[0]) if len(reached) else None)


@dataclass(frozen=True)
class Offer:
    """How the sources were learned: m of them, of k columns, from n_s samples each; Σ_i ⪰ rΣ; κ: the condition over all
    of their covariances."""

    m: int
    k: int
    n_s: int
    r: float = 1.0
    kappa: float = 1.0


@dataclass(frozen=True)
class Theorem6:
    """The terms of the bound, constants left out; inf where the theorem does not apply (λ_d = 0, or no k*).

    room      the right side of (5.9): sources pay if q is much smaller than this
    scratch   σ² d/(n₁ + n₂), what learning from scratch is compared with (5.8)
    deviation the maximum in (C.10) without its confidence terms, beside `simplified` = r₀/n₂, which the theorem uses
    """

    ranks: EffectiveRanks
    head: float
    misfit: float
    noise: float
    sources: float
    room: float
    scratch: float
    deviation: float
    simplified: float

    @property
    def total(self) -> float:
        return self.head + self.misfit + self.noise + self.sources


def theorem6(covariance: Numbers, *, n1: int, n2: int, q: int, noise: float, misfit: float = 0.0, delta: float = 0.05,
             b: float = 1.0, offer: Offer | None = None) -> Theorem6:  # fmt: skip
    """The terms for a target with n₁ and n₂ samples, q directions, labels of variance `noise` (σ²) and `misfit` (ε²).
    Without an `offer` the sources count as known exactly."""
    if min(n1, n2, q) < 1 or noise < 0 or misfit < 0 or not 0 < delta < 1:
        raise BadInput(
            f"n1={n1}, n2={n2}, q={q}, noise={noise}, misfit={misfit}, delta={delta}: the counts must be 1 or more, "
            "noise and misfit not negative, and delta between 0 and 1."
        )
    ranks = effective_ranks(covariance, n2, b)
    values, d = ranks.eigenvalues, len(ranks.eigenvalues)
    low, high, doubt = float(values[-1]), float(values[0]), math.log(1 / delta)
    ratio = float(ranks.r[0]) / n2
    factor = math.inf if low == 0 else high / low * ratio
    sources = 0.0
    if offer is not None:
        rich = offer.r * offer.n_s
        own = (offer.k * d * math.log(offer.kappa * offer.n_s) + offer.k) / rich
        sources = factor * noise * (doubt / (rich * offer.m) + own)
    k = ranks.k_star
    return Theorem6(
        ranks=ranks,
        head=factor * noise / n1 * (q + doubt),
        misfit=factor * misfit if misfit else 0.0,
        noise=math.inf if k is None else noise * doubt * (k / n2 + n2 / ranks.R_at_k_star),
        sources=sources,
        room=d * low * n1 * n2 / (float(values.sum()) * (n1 + n2)),
        scratch=noise * d / (n1 + n2),
        deviation=max(math.sqrt(ratio), ratio),
        simplified=ratio,
    )
