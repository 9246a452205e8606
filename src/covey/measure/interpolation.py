"""What the interpolation regime is judged by: the rate at which a loss falls, and the Polyak–Łojasiewicz constant.

    Φ(w^r) ≈ c ρ^r        ρ by least squares on log Φ, with a 95 % interval widened for residuals that follow each other
    ‖∇Φ(w)‖² ≥ μ (Φ(w) − Φ*)    the least ratio along the path is what μ can be at most there
    T_th = μ / (η (μ² + 8))      local steps that minimise 1 − ημT/4 + η²T²(μ²/8 + 1)

*Linear Convergence of Decentralized FedAvg for PL Objectives: The Interpolation Regime*; its PL inequality has no ½
(for Φ = ½ a w² it is μ = 2a). A straight line on the log scale is a claim about a range: say which rounds were fitted.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """The factor by which a loss shrinks per round, its 95 % interval, and the share of the variance of log Φ that a
    straight line explains."""

    factor: float
    low: float
    high: float
    r2: float
    first: float  # the rounds that were fitted
    last: float

    def __str__(self) -> str:
        return f"{self.factor:.5f} [{self.low:.5f}, {self.high:.5f}], R² {self.r2:.3f}"


def linear_rate(rounds: Sequence[float], losses: Sequence[float], least: float = 0.0) -> Rate | None:
    """ρ of Φ − Φ* ≈ c ρ^r; None with fewer than four points above Φ*."""
    points = [(r, math.log(v - least)) for r, v in zip(rounds, losses, strict=True) if v > least and math.isfinite(v)]
    if len(points) < 4:
        return None
    x, y = zip(*points, strict=True)
    n, middle = len(x), statistics.fmean(x)
    spread = sum((a - middle) ** 2 for a in x)
    if spread == 0:
        return None
    slope = sum((a - middle) * b for a, b in points) / spread
    start = statistics.fmean(y) - slope * middle
    rest = [b - start - slope * a for a, b in points]
    square = sum(e * e for e in rest)
    total = sum((b - statistics.fmean(y)) ** 2 for b in y)
    follow = sum(a * b for a, b in itertools.pairwise(rest)) / square if square > 0 else 0.0
    follow = min(max(follow, 0.0), 0.99)  # AR(1) residuals: so many fewer points count
    error = math.sqrt(square / (n - 2) / spread * (1 + follow) / (1 - follow))
    wide = 1.96 * error
    explained = 1 - square / total if total > 0 else 1.0
    return Rate(math.exp(slope), math.exp(slope - wide), math.exp(slope + wide), explained, x[0], x[-1])


def pl_ratios(gradients: Sequence[float], losses: Sequence[float], least: float = 0.0) -> list[float]:
    """‖∇Φ‖² / (Φ − Φ*) at each look; `gradients` are norms."""
    return [g * g / (v - least) for g, v in zip(gradients, losses, strict=True) if v > least]


def best_steps(mu: float, eta: float) -> float:
    """T_th, the number of local steps that the bound of the server case likes best."""
    return mu / (eta * (mu * mu + 8.0))
