"""A sensor network that estimates a field: least squares at every sensor, neighbours within a bound of each other.

    python examples/sensor_network.py

Twelve sensors on a circle each measure their own field x_i ∈ R³ through a matrix of their own, with noise, too few
times to do well alone. The true fields of neighbours differ little. Edit `bound` and see who gains.
"""

import torch

import covey
from covey.algorithms import SaddlePoint
from covey.compress import SignTopK
from covey.constraints import proximity

SENSORS, D, MEASURED = 12, 3, 4


def main(bound: float = 0.2, rounds: int = 1500) -> tuple[float, float]:
    """The mean squared error of the sensors alone, and together."""
    torch.manual_seed(0)
    angle = torch.arange(SENSORS).double() * 2 * torch.pi / SENSORS
    truth = torch.stack([angle.cos(), angle.sin(), torch.ones_like(angle)], 1)  # ‖x_i − x_j‖² = 0.27 next to each other
    H = torch.randn(SENSORS, MEASURED, D, dtype=torch.float64)
    y = (H @ truth[..., None])[..., 0] + 0.5 * torch.randn(SENSORS, MEASURED, dtype=torch.float64)

    def cost(params: dict[str, torch.Tensor], own: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        matrix, measured = own  # of one sensor: a row of the data
        return (matrix @ params["x"] - measured).square().mean()

    task = covey.Task.from_function(cost, {"x": torch.zeros(D, dtype=torch.float64)}, (H, y))
    alone = torch.linalg.lstsq(H, y[..., None]).solution[..., 0]
    method = SaddlePoint(lr=0.05, delta=0.5, radius=10.0, compressor=SignTopK(1), constraint=proximity(bound),
                         output="last")  # fmt: skip
    run = covey.simulate(method, task, covey.graphs.ring(SENSORS), rounds=rounds, evaluate_every=rounds)
    apart, together = (float((x - truth).square().sum(1).mean()) for x in (alone, run.params["x"]))
    print(f"mean squared error: alone {apart:.3f}, within {bound} of neighbours {together:.3f}")
    print(run.summary()["constraints"], f"{run.summary()['bits']['formula']['broadcast']:.0f} bits in all")
    return apart, together


if __name__ == "__main__":
    main()
