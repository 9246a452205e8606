"""Small problems. All in float64, so that what theory calls equal differs by rounding alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from covey import Task


def column(*values: float) -> Tensor:
    """A number per peer, [peers, 1]."""
    return torch.tensor(values, dtype=torch.float64)[:, None]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def quadratic(b: Tensor, start: Tensor | None = None) -> Task:
    """F_i(x) = ½‖x − b_i‖², b: [peers, width]."""
    return Task.from_function(
        lambda p, own: 0.5 * (p["x"] - own).square().sum(),
        {"x": torch.zeros(b.shape[1:], dtype=torch.float64)},
        b,
        start=None if start is None else {"x": start},
    )


def bowl(a: Sequence[float]) -> Task:
    """F_i(w) = ½ a_i ‖w‖²: all peers have one minimiser (interpolation). Each starts at its own unit vector, so that
    after a round the rows are the matrix of that round's linear map."""
    n = len(a)
    return Task.from_function(
        lambda p, own: 0.5 * own * p["w"].square().sum(),
        {"w": torch.zeros(n, dtype=torch.float64)},
        torch.tensor(a, dtype=torch.float64),
        start={"w": torch.eye(n, dtype=torch.float64)},
    )


def spread_samples(peers: int, samples: int, width: int, seed: int = 0) -> Tensor:
    """Samples of which each peer's have mean exactly 0 and variance exactly 1 in every coordinate."""
    b = random(peers, samples, width, seed=seed)
    b -= b.mean(1, keepdim=True)
    return b / b.square().mean(1, keepdim=True).sqrt()


def noisy_quadratic(b: Tensor) -> Task:
    """F_i(x) = mean over samples s of ½‖x − b_is‖², b: [peers, samples, width]."""
    return Task.from_function(
        lambda p, own: 0.5 * (p["x"] - own).square().sum(1).mean(),
        {"x": torch.zeros(b.shape[2], dtype=torch.float64)},
        b,
    )


PEERS, SAMPLES, INPUTS, HIDDEN, CLASSES = 6, 22, 5, 3, 4


def classifier(personal: str | tuple[str, ...] = "head", heads: bool = True) -> Task:
    """A two-layer softmax classifier on unlike peers: `body` [5, 3], `head` [3, 4] and `bias` [4]. 22 samples, so that
    a batch of 5 leaves a rest. heads: every peer starts with its own head."""
    x = random(PEERS, SAMPLES, INPUTS, seed=1) + random(PEERS, 1, INPUTS, seed=2)
    y = (x @ random(INPUTS, CLASSES, seed=3) + random(PEERS, 1, CLASSES, seed=4)).argmax(-1)

    def loss(p: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs, labels = batch
        return F.cross_entropy(torch.tanh(inputs @ p["body"]) @ p["head"] + p["bias"], labels)

    params = {
        "body": random(INPUTS, HIDDEN, seed=5),
        "head": random(HIDDEN, CLASSES, seed=6),
        "bias": torch.zeros(CLASSES, dtype=torch.float64),
    }
    start = {"head": random(PEERS, HIDDEN, CLASSES, seed=7)} if heads else None
    if personal == "head":
        personal = ("head", "bias")
    return Task.from_function(loss, params, (x, y), personal=personal, start=start)
