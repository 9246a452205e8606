"""What a run costs beside its local steps: looking at it, and peers of unequal size. Ratios, both sides in one run."""

from __future__ import annotations

import statistics
import time

import torch

import covey
from benchmarks.local_steps import cnn, mlp
from covey.peers import Peers


def looking() -> tuple[float, float]:
    """The seconds of a run with all test data (a fifth of the training data) looked at every five rounds, over those
    of its local steps and exchanges alone; and over those of the local steps alone."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 120, 1, 28, 28, generator=generator), torch.randint(10, (20, 120), generator=generator)
    data = covey.data.from_peers([(a[:100], b[:100], a[100:], b[100:]) for a, b in zip(x, y, strict=True)])
    task = covey.Task.from_module(cnn(), data)
    method = covey.algorithms.DFedAvg(covey.SGD(0.01, epochs=1, batch=32))
    begin = time.perf_counter()
    run = covey.simulate(method, task, covey.graphs.ring(20), rounds=10, evaluate_every=5, chunk=1)
    whole = time.perf_counter() - begin
    seconds = run.summary()["seconds"]
    return whole / (seconds["train"] + seconds["exchange"]), whole / seconds["train"]


def unequal(turns: int = 5) -> float:
    """One epoch of 100 peers whose sizes spread from 7 to some 1400 samples, over that of 100 of the mean size."""
    generator = torch.Generator().manual_seed(0)
    sizes = (torch.randn(100, generator=generator) * 1.2 + 4.0).exp().long().clamp(7, 1400)
    mean = int(sizes.double().mean())
    sides = []
    for counts in (sizes.tolist(), [mean] * 100):
        parts = []
        for count in counts:
            x, y = torch.randn(count, 784, generator=generator), torch.randint(10, (count,), generator=generator)
            parts.append((x, y, x[:1], y[:1]))
        task = covey.Task.from_module(mlp(), covey.data.from_peers(parts))
        sides.append(Peers(task, torch.arange(100), 100))
    local = covey.SGD(0.01, epochs=1, batch=10)
    ratios = []
    for turn in range(turns + 1):
        times = []
        for peers in sides:
            begin = time.perf_counter()
            peers.train(local)
            times.append(time.perf_counter() - begin)
        if turn:
            ratios.append(times[0] / times[1] * (mean * 100) / int(sizes.sum()))
    return statistics.median(ratios)


def main() -> None:
    exchange, training = looking()
    print(f"whole run over training and exchange    {exchange:5.2f}   wanted at most 1.25")
    print(f"whole run over training alone           {training:5.2f}   wanted at most 1.25")
    print(f"unequal peers over equal ones           {unequal():5.2f}   wanted at most 1.50")


if __name__ == "__main__":
    main()
