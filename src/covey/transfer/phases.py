"""The two phases by which a target with few samples learns from a dictionary V of representations.

    phase 1   ŵ  = argmin_w ‖y₁ − X₁Vw‖²/n₁,            θ₁ = Vŵ                              (5.5)
    phase 2   θ₂ = argmin ‖θ − θ₁‖  s.t.  ‖y₂ − X₂θ‖ = min_b ‖y₂ − X₂b‖                      (5.7)
                 = θ₁ + X₂⁺(y₂ − X₂θ₁)                     the limit of gradient descent on (5.6) from θ₁

Singh, *Towards Efficient Federated Learning*, 5.3. The two phases are to have different samples. Learning from scratch
is phase 2 from θ = 0. With n₂ ≥ d and full rank phase 2 is ordinary least squares and forgets θ₁.

Gradient descent moves θ only along rows of X₂ (Lemma 9) and converges linearly there, at 1 − (s_min/s_max)², because
X₂X₂ᵀ is invertible. The dissertation's reason, strong convexity of (5.6) (Assumption 15), does not hold for n₂ < d.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.transfer.given import Numbers, columns, numbers, relative, require_inputs, samples
from covey.transfer.leastsquares import least_squares


@dataclass(frozen=True)
class Head:
    """What phase 1 found.

    w       [q] or [q, outputs]: the head on the dictionary
    theta   [d] or [d, outputs]: θ₁ = Vw
    rank    how many of the q directions of the dictionary the samples determine
    unique  rank = q. Where not (n₁ < q, say), many heads fit equally well, and w is the one of smallest norm
    """

    w: Tensor
    theta: Tensor
    rank: int
    unique: bool


def fit_head(X: Numbers, y: Numbers, V: Numbers, *, tolerance: float | None = None) -> Head:
    """Phase 1 with all that is known of the head. V need not be orthonormal, but where the head is not unique its norm,
    and so the choice among the heads that fit, depends on the basis."""
    x, y = samples(X, y)
    basis = columns(V, "V")
    require_inputs(len(basis), x, "V")
    if not bool(basis.any()):
        raise BadInput("The dictionary V has rank zero, so there is nothing to put a head on; give it a source.")
    fit = least_squares(x @ basis, y, relative(tolerance, max(x.shape), X, V))
    return Head(fit.solution, basis @ fit.solution, fit.rank, fit.rank == basis.shape[1])


def phase1(X: Numbers, y: Numbers, V: Numbers, *, tolerance: float | None = None) -> Tensor:
    """θ₁ = Vŵ, the head fitted to few samples. Where they do not determine it (n₁ < q), the head of smallest norm that
    fits, with a warning. `fit_head` also gives the head and the rank."""
    head = fit_head(X, y, V, tolerance=tolerance)
    if not head.unique:
        warnings.warn(
            f"Phase 1: {len(X)} samples determine {head.rank} of the {len(head.w)} directions of the dictionary, so "
            "many heads fit; the one of smallest norm is returned. Give more samples, or fewer sources.",
            stacklevel=2,
        )
    return head.theta


def phase2(X: Numbers, y: Numbers, theta: Numbers, *, tolerance: float | None = None) -> Tensor:
    """θ₂: of all models that fit the samples best, the one closest to `theta`. With noise in y it is worst at n₂ = d,
    the interpolation peak: that is the estimator, and no failure of the arithmetic."""
    x, y, theta = _start(X, y, theta)
    return theta + least_squares(x, y - x @ theta, relative(tolerance, max(x.shape), X)).solution


@dataclass(frozen=True)
class Descent:
    """Where gradient descent came to: the model, the steps taken, ‖∇f‖ as a part of the terms it is the difference of,
    and whether that is below the tolerance. If not, this is an early stop on the way to phase 2."""

    theta: Tensor
    steps: int
    gradient: float
    converged: bool


def descend(X: Numbers, y: Numbers, theta: Numbers, *, steps: int = 100_000, lr: float | None = None,
            tolerance: float = 1e-12) -> Descent:  # fmt: skip
    """Phase 2 as the dissertation runs it: θ ← θ − η∇f(θ), f(θ) = ‖y − Xθ‖²/n, from `theta`. lr defaults to 1/L."""
    x, y, theta = _start(X, y, theta)
    smoothness = 2.0 * float(torch.linalg.matrix_norm(x, 2)) ** 2 / len(x)
    if smoothness == 0.0:
        return Descent(theta, 0, 0.0, True)
    lr = 1.0 / smoothness if lr is None else lr
    if not 0 < lr < 2.0 / smoothness:
        raise BadInput(
            f"lr={lr} lets gradient descent diverge here; it must be in (0, 2/L) = (0, {2 / smoothness:.3g})."
        )
    scale = smoothness * float(theta.norm()) + 2.0 / len(x) * float((x.T @ y).norm())
    t = 0
    while True:
        gradient = 2.0 / len(x) * x.T @ (x @ theta - y)
        size = float(gradient.norm())
        if size <= tolerance * scale or t >= steps:
            return Descent(theta, t, size / scale if scale else 0.0, size <= tolerance * scale)
        theta = theta - lr * gradient
        t += 1


def _start(X: Numbers, y: Numbers, theta: Numbers) -> tuple[Tensor, Tensor, Tensor]:
    x, y = samples(X, y)
    theta = numbers(theta, "theta")
    if theta.shape != (x.shape[1], *y.shape[1:]):
        raise BadInput(
            f"theta has the shape {tuple(theta.shape)}; for these samples it is {(x.shape[1], *y.shape[1:])}."
        )
    return x, y, theta
