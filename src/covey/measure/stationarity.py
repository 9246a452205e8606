"""How far peers are from where theory wants them: gradients at the mean model, consensus, DePRL's M(k).

g_i = ∇F_i(φ̄, θ_i) over all of i's training samples, φ̄ the mean of the shared rows, θ_i the peer's own head:

    shared        ‖(1/N) Σ_i g_i^φ‖²
    heads         (1/N) Σ_i ‖g_i^θ‖²
    heads_mean    ‖(1/N) Σ_i g_i^θ‖²
    gradient      √(shared + heads): zero exactly where nothing can be gained; with nothing personal, ‖∇F(x̄)‖

    M(k) = shared(φ̄(k), θ(k+1)) + (ατ/β) · heads_mean(φ̄(k), θ(k)) + (1/N) Σ_i ‖φ_i(k) − φ̄(k)‖²

is equation (10) of Xiong et al., DePRL, AAAI 2024, as printed: its second term can vanish although no head is optimal,
where the gradients of heads cancel. M_heads has `heads` in the place of `heads_mean`, and is zero at optima only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Squares:
    """The squared norms above, of gradients that were taken at one point."""

    shared: float
    heads: float
    heads_mean: float

    @staticmethod
    def of(shared: Tensor, heads: Tensor) -> Squares:
        """From g^φ [peers, width] and g^θ [peers, width]; either may have no column."""
        return Squares(_square(shared), float(heads.double().square().sum(1).mean()), _square(heads))

    @property
    def gradient(self) -> float:
        return math.sqrt(self.shared + self.heads)


def _square(gradients: Tensor) -> float:
    return float(gradients.double().mean(0).square().sum())


def consensus_error(shared: Tensor) -> float:
    """(1/N) Σ_i ‖φ_i − φ̄‖²."""
    return float((shared - shared.mean(0)).square().sum(1).mean())


def deprl_m(start: Squares, ahead: Squares, ratio: float, consensus: float) -> dict[str, float]:
    """M(k) and M_heads; start: at (φ̄(k), θ(k)), ahead: at (φ̄(k), θ(k+1)), ratio: ατ/β."""
    rest = ahead.shared + consensus
    return {"M": rest + ratio * start.heads_mean, "M_heads": rest + ratio * start.heads}


def stays_below(values: Sequence[float], threshold: float) -> int | None:
    """The first place from which on every value is below the threshold; None where the last one is not."""
    place = len(values)
    while place > 0 and values[place - 1] < threshold:
        place -= 1
    return place if place < len(values) else None
