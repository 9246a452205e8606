"""Tuning what cannot be differentiated: each site has a simulator, and only its output is seen.

    python examples/blackbox_tuning.py

Six sites tune two knobs of a process that is plain Python (no torch, no gradient). Neighbouring sites have similar
machines, so their settings may differ by `bound` at most. Every round asks each simulator twice, at x ± ζu.
"""

import math
from typing import Any

import torch

import covey
from covey.algorithms import SaddlePoint
from covey.compress import Sign
from covey.constraints import box, proximity

SITES = 6


def simulator(knobs: dict[str, Any], site: Any) -> float:
    """What a run of the process costs; arrays come in as numpy arrays, a number goes out."""
    heat, speed = knobs["knobs"]
    best_heat, best_speed = site
    return (heat - best_heat) ** 2 + 2 * (speed - best_speed) ** 2 + 0.1 * (1 - math.cos(3 * (heat - best_heat)))


def main(bound: float = 0.05, rounds: int = 1500) -> torch.Tensor:
    """The knobs of each site, [sites, 2]."""
    torch.manual_seed(2)
    machines = 0.3 * torch.randn(SITES, 2, dtype=torch.float64)
    task = covey.Task.from_blackbox(simulator, {"knobs": torch.zeros(2, dtype=torch.float64)}, machines)
    method = SaddlePoint(lr=0.02, delta=1.0, radius=box(-1.0, 1.0), compressor=Sign(), constraint=proximity(bound),
                         feedback="bandit", zeta=1e-3, output="last")  # fmt: skip
    run = covey.simulate(method, task, covey.graphs.ring(SITES), rounds=rounds, evaluate_every=rounds)
    print("knobs:", run.params["knobs"].round(decimals=3).tolist())
    print("cost per site:", run.summary()["loss"]["mixed"]["last"], run.summary()["constraints"])
    return run.params["knobs"]


if __name__ == "__main__":
    main()
