"""Portfolios under coupling constraints: every desk minds its own risk, and pairs of desks share a limit.

    python examples/portfolio.py

Four desks choose weights of five assets: f_i = ½ xᵀ Σ_i x − μ_iᵀ x, each in the box [0, 1]. Two neighbouring desks
together hold at most `limit` of asset 0: a constraint on a pair that is no distance, given as a function of both
vectors and differentiated by autograd. Edit `limit`, or the constraint itself.
"""

import torch

import covey
from covey.algorithms import SaddlePoint
from covey.compress import Identity
from covey.constraints import box, pairwise

DESKS, ASSETS = 4, 5


def main(limit: float = 0.8, rounds: int = 3000) -> torch.Tensor:
    """The weights [desks, assets]."""
    torch.manual_seed(1)
    factors = torch.randn(DESKS, ASSETS, ASSETS, dtype=torch.float64)
    risk = factors @ factors.mT / ASSETS + 0.5 * torch.eye(ASSETS, dtype=torch.float64)
    gain = torch.rand(DESKS, ASSETS, dtype=torch.float64)
    gain[:, 0] += 0.5  # everybody likes asset 0

    def cost(params: dict[str, torch.Tensor], own: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x, (sigma, mu) = params["x"], own
        return x @ sigma @ x / 2 - mu @ x

    def shared_limit(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return x[0] + other[0] - limit  # ≤ 0

    task = covey.Task.from_function(cost, {"x": torch.zeros(ASSETS, dtype=torch.float64)}, (risk, gain))
    method = SaddlePoint(lr=0.02, delta=0.05, radius=box(0.0, 1.0), compressor=Identity(),
                         constraint=pairwise(shared_limit), output="last")  # fmt: skip
    run = covey.simulate(method, task, covey.graphs.ring(DESKS), rounds=rounds, evaluate_every=rounds)
    weights = run.params["x"]
    print("weights of each desk:\n", weights.round(decimals=3).tolist())
    print("asset 0 of neighbours:", (weights[:, 0] + weights[:, 0].roll(1)).round(decimals=3).tolist(), "≤", limit)
    print("prices of the limit, per desk and neighbour:", run.peers.state["dual"].round(decimals=3).tolist())
    return weights


if __name__ == "__main__":
    main()
