"""The most memory that 10,000 peers of softmax regression (7,850 parameters each) need, and the seconds of a round."""

from __future__ import annotations

import resource

import torch
from torch import nn

import covey


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    n, samples = 10_000, 12
    x = torch.randint(256, (n * samples, 28, 28), generator=generator, dtype=torch.uint8)
    y = torch.randint(10, (n * samples,), generator=generator)
    data = covey.data.federate(x, y, x[:n], y[:n], peers=n, partition="iid", seed=0)
    task = covey.Task.from_module(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), data)
    method = covey.algorithms.DFedAvgM(covey.SGD(0.05, steps=2, batch=4, momentum=0.9))
    run = covey.simulate(method, task, covey.graphs.random_undirected(n, 4), rounds=3, evaluate_every=3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = run.summary()["seconds"]
    print(f"10,000 peers of softmax regression      {peak:5.2f} GiB at the peak, wanted under 4; "
          f"a round takes {(seconds['train'] + seconds['exchange']) / 3:.1f} s")  # fmt: skip


if __name__ == "__main__":
    main()
