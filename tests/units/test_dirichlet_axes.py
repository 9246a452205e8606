"""The two kinds of Dirichlet draws: of classes for each peer, and of peers for each class.

Of q ~ Dir(α, …, α) over k places, E Σ q² = (α + 1) / (k α + 1).
"""

from __future__ import annotations

import pytest
import torch

from covey.data import federate

EACH, ALPHA, SEEDS = 4000, 0.3, 60


def counts(partition: str, peers: int, classes: int, seed: int, reuse: bool = False) -> torch.Tensor:
    """How many samples of each class each peer has, [peers, classes]."""
    y = torch.arange(classes * EACH) % classes
    data = federate(y[:, None], y, y[:40, None], y[:40], peers=peers, partition=partition, seed=seed, reuse=reuse)
    return torch.stack([torch.bincount(data.train.of(i)[1], minlength=classes) for i in range(peers)]).double()


def concentration(shares: list[torch.Tensor]) -> tuple[float, float]:
    """The mean of Σ q² over draws, and its standard error."""
    sums = torch.stack([share.square().sum() for share in shares])
    return float(sums.mean()), float(sums.std() / len(sums) ** 0.5)


def test_dirichlet_classes_divides_each_class_over_the_peers() -> None:
    """Nobody is full when the first class is divided, so its shares are the draw itself: over 4 peers, Σ q² = .591. A
    draw over the 2 classes of each peer would leave .4 of the first class's shares."""
    tables = [counts(f"dirichlet_classes:{ALPHA}", 4, 2, seed) for seed in range(SEEDS)]
    mean, error = concentration([table[:, 0] / EACH for table in tables])
    assert mean == pytest.approx((ALPHA + 1) / (4 * ALPHA + 1), abs=3 * error)
    assert error < 0.04


def test_dirichlet_draws_the_classes_of_each_peer() -> None:
    """With samples issued again each of 2 peers has its own mix of 8 classes: Σ q² = .382. A draw over the 2 peers for
    each class would leave them .23."""
    tables = [counts(f"dirichlet:{ALPHA}", 2, 8, seed, reuse=True) for seed in range(SEEDS)]
    mean, error = concentration([row / row.sum() for table in tables for row in table])
    assert mean == pytest.approx((ALPHA + 1) / (8 * ALPHA + 1), abs=3 * error)
    assert error < 0.02
