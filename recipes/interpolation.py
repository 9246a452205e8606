"""Decentralised FedAvg in the interpolation regime: models, topologies, local steps, the optimum, DSGDm.

    python recipes/interpolation.py                               writes docs/results/interpolation.md (CPU sizes)
    python recipes/interpolation.py --full --device cuda --out …  the paper's networks, 60 peers, all three data sets

*Linear Convergence of Decentralized FedAvg for PL Objectives: The Interpolation Regime*, figures 1, 2 and 4 to 8. It
gives N = 60, T = 10 and η in [.001, .01]; batch, rounds, loss and partition it does not: here iid, 10 samples per peer
where a linear model is to interpolate (600 samples, 784 inputs) and 100 where it is not to (6000), batch 5 or 32.
*Least squares* is ‖Wx − onehot(y)‖², for which the optimum is known exactly; the *three-layer* linear network and the
CNNs take cross-entropy, which has no finite minimiser where it interpolates. Φ is the objective at the mean model.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import covey
from covey import SGD, Task, graphs
from covey.algorithms import DFedAvg, DSGDm
from covey.graphs import Graph
from covey.measure.interpolation import best_steps, linear_rate, pl_ratios
from covey.models import cnn_over, cnn_under, linear_net, softmax

PEERS, T, LOOKS = 60, 10, 24


def squares(prediction: Tensor, target: Tensor) -> Tensor:
    """‖prediction − onehot(target)‖², the mean over samples."""
    wanted = torch.eye(prediction.shape[1], dtype=prediction.dtype, device=prediction.device)[target]
    return (prediction - wanted).square().sum(1).mean()


@dataclass(frozen=True)
class Model:
    make: Callable[[tuple[int, ...]], nn.Module]
    samples: int  # per peer of 60
    batch: int
    lr: float
    loss: Callable[[Tensor, Tensor], Tensor] | None = None


MODELS = {
    "least squares, over": Model(lambda s: softmax(s, 10), 10, 5, 2e-3, squares),
    "least squares, under": Model(lambda s: softmax(s, 10), 100, 5, 2e-3, squares),
    "three-layer linear": Model(lambda s: linear_net(s, hidden=(64, 32)), 10, 5, 1e-2),
    "three-layer linear, 231 490": Model(lambda s: linear_net(s), 100, 32, 1e-2),
    "small CNN": Model(lambda s: cnn_under(s, hidden=(32,)), 20, 10, 1e-2),
    "CNN, over": Model(lambda s: cnn_over(s), 100, 32, 1e-2),
    "CNN, under": Model(lambda s: cnn_under(s), 100, 32, 1e-2),
}
HEAD = ("λ₂", "T", "Φ at start", "Φ at half", "Φ at end", "ρ per round, late half", "μ least", "T_th", "test accuracy")


READING = (
    "The paper's figure 5 has the server first, then the ring, the random matrix (of 5 peers), and the torus last, of",
    "which it says that it is not symmetric and doubly stochastic. The torus of weights 1/5 is both (a row-normalised",
    "grid with edges is not), its λ₂ lies far below that of a ring of as many, and it should be faster; the λ₂ of 0.33",
    "that the paper gives its ring of 60 belongs to a ring of 4 (D-31, D-32, D-33).",
    "",
)


class Bench:
    """Runs one thing and makes a line of a table of it."""

    def __init__(self, device: str, rounds: int, seed: int) -> None:
        self.device, self.rounds, self.seed = device, rounds, seed

    def task(self, name: str, data: str, peers: int = PEERS) -> Task:
        model = MODELS[name]
        parts = covey.data.load(data, peers=peers, partition="iid", samples=model.samples * PEERS // peers,
                                seed=self.seed)  # fmt: skip
        shape = tuple(parts.train.pooled(parts.train.index[:1])[0].shape[1:])
        torch.manual_seed(self.seed)
        metrics = {"accuracy": lambda p, y: (p.argmax(1) == y).double()}
        return Task.from_module(model.make(shape), parts, loss=model.loss, metrics=metrics if model.loss else None)

    def run(self, name: str, data: str, graph: Graph, steps: int = T, momentum: float | None = None, rounds: int = 0,
            ) -> covey.Run:  # fmt: skip
        model = MODELS[name]
        local = SGD(model.lr if momentum is None else model.lr * (1 - momentum), steps=steps, batch=model.batch,
                    momentum=momentum or 0.0)  # fmt: skip
        rounds = rounds or self.rounds
        begin = time.perf_counter()
        method = DFedAvg(local) if momentum is None else DSGDm(local)
        run = covey.simulate(method, self.task(name, data, graph.n), graph, rounds=rounds, seed=self.seed,
                             device=self.device, theory=True, allow_unsound=True,
                             evaluate_every=max(1, rounds // LOOKS))  # fmt: skip
        end = run.history[-1]["theory"]["objective"]
        print(f"{data} {name} {graph.name} T={steps}: Φ {end:.3g}, {time.perf_counter() - begin:.0f} s", flush=True)
        return run

    def cells(self, run: covey.Run, name: str, steps: int = T, least: float = 0.0) -> str:
        looks = run.history
        phi = [e["theory"]["objective"] - least for e in looks]
        late = len(looks) // 2
        rate = linear_rate([e["round"] for e in looks[late:]], phi[late:])
        mu = pl_ratios([e["theory"]["gradient"] for e in looks], phi)
        accuracy = looks[-1]["average"]["accuracy"]
        fit = "–" if rate is None else f"{rate.factor:.5f} [{rate.low:.5f}, {rate.high:.5f}]"
        small = f"{min(mu):.2g} | {best_steps(min(mu), MODELS[name].lr):.2g}" if mu else "– | –"
        second = run.settings["run"]["lambda2"]
        return (f"{second:.4f} | {steps} | {phi[0]:.3g} | {phi[late]:.3g} | {phi[-1]:.3g} | {fit} | {small} | "
                f"{100 * accuracy:.1f} %")  # fmt: skip


def table(first: str, rows: dict[str, str]) -> list[str]:
    return [f"| {first} | {' | '.join(HEAD)} |", "|---|" + "---|" * len(HEAD),
            *(f"| {name} | {cells} |" for name, cells in rows.items()), ""]  # fmt: skip


def optimum(task: Task) -> float:
    """Φ* of least squares."""
    data = task.data
    assert data is not None
    x, y = data.train.pooled(data.train.index)
    X = x.flatten(1).double()
    Y = F.one_hot(y, 10).double()
    W = torch.linalg.lstsq(X, Y, driver="gelsd").solution
    return float((X @ W - Y).square().sum(1).mean())


def topologies(n: int = PEERS) -> dict[str, Graph]:
    return {"server": graphs.server(n), "random doubly stochastic": graphs.random_doubly_stochastic(n),
            "torus 6×10": graphs.torus(6, 10), "grid 6×10, row-normalised": graphs.grid(6, 10, weights="row"),
            "ring": graphs.ring(n)}  # fmt: skip


def page(bench: Bench, full: bool) -> Iterator[list[str]]:
    """The sections."""
    sets = ("mnist", "fashion_mnist", "cifar10") if full else ("mnist", "fashion_mnist")
    names = list(MODELS) if full else ["least squares, over", "least squares, under", "three-layer linear"]
    main = "CNN, over" if full else "least squares, over"
    linear = "least squares, over"
    out = [f"## Topologies (figures 5 and 6): MNIST, {main}, T = 10, the same samples", ""]
    rows = {name: bench.cells(bench.run(main, "mnist", graph), main) for name, graph in topologies().items()}
    for name, graph in (
        ("ring of 4", graphs.ring(4)),
        ("random doubly stochastic of 5", graphs.random_doubly_stochastic(5)),
    ):
        rows[name] = bench.cells(bench.run(main, "mnist", graph), main)
    yield [*out, *table("graph", rows), *READING]
    out = ["## Over- and under-parameterised (figures 1 and 2): ring of 60, T = 10", ""]
    rows = {}
    for data in sets:
        for name in names if full or data == "mnist" else names[:2]:
            rows[f"{data}, {name}"] = bench.cells(bench.run(name, data, graphs.ring(PEERS)), name)
    if not full:
        rows["mnist, small CNN"] = bench.cells(
            bench.run("small CNN", "mnist", graphs.ring(PEERS), rounds=36), "small CNN"
        )
    yield out + table("data, model", rows)
    out = ["## Local steps (figure 4): MNIST, ring of 60", ""]
    rows = {}
    for name in (linear, "CNN, over") if full else (linear,):
        for steps in (1, 5, 10, 25):
            rows[f"{name}, T = {steps}"] = bench.cells(bench.run(name, "mnist", graphs.ring(PEERS), steps), name, steps)
    yield out + table("model", rows)
    out = ["## Optimality gap (figure 7): MNIST, least squares, under-parameterised, ring of 60", "",
            "Φ − Φ* with Φ* by a direct solver: where peers do not share a minimiser, T > 1 with a constant rate stops "
            "at a distance.", ""]  # fmt: skip
    rows, name = {}, "least squares, under"
    least = optimum(bench.task(name, "mnist"))
    for label, graph in (("ring", graphs.ring(PEERS)), ("server", graphs.server(PEERS))):
        for steps in (1, 10):
            rows[f"{label}, T = {steps}"] = bench.cells(bench.run(name, "mnist", graph, steps), name, steps, least)
    yield [*out, f"Φ* = {least:.4f}.", "", *table("graph", rows)]
    out = ["## DSGDm (figure 8): MNIST, ring of 60", "",
            "Momentum 0.9, rate η (1 − β), one step or ten steps per round. Ten times the rounds of one step are as "
            "many gradients.", ""]  # fmt: skip
    rows = {f"FedAvg, T = 10, {bench.rounds} rounds": bench.cells(bench.run(main, "mnist", graphs.ring(PEERS)), main)}
    for steps, rounds in ((1, bench.rounds), (10, bench.rounds), (1, 10 * bench.rounds)):
        run = bench.run(main, "mnist", graphs.ring(PEERS), steps, 0.9, rounds)
        rows[f"DSGDm, T = {steps}, {rounds} rounds"] = bench.cells(run, main, steps)
    yield out + table("method", rows)


def main() -> None:
    asked = argparse.ArgumentParser(description="The interpolation regime")
    asked.add_argument("--rounds", type=int, default=240)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--device", default="cpu")
    asked.add_argument("--full", action="store_true", help="the paper's networks and CIFAR-10 as well: for a GPU")
    asked.add_argument("--out", type=Path, default=Path("docs/results/interpolation.md"))
    given = asked.parse_args()
    if given.device == "cpu":
        torch.set_num_threads(1)
    begin = time.perf_counter()
    lines: list[str] = []
    command = f"python recipes/interpolation.py --rounds {given.rounds} --seed {given.seed}"
    command += f" --full --device {given.device}" if given.full else ""
    for section in page(Bench(given.device, given.rounds, given.seed), given.full):
        lines += section
        top = ["# Decentralised FedAvg in the interpolation regime", "",
               f"`{command}`: torch {torch.__version__}, {given.device}, {time.perf_counter() - begin:.0f} s. "
               "What is run is in the recipe's docstring. ρ is fitted to log Φ over the later half of the looks, with "
               "its 95 % interval; μ is the least ‖∇Φ‖²/Φ along the path, and T_th = μ/(η(μ² + 8)) of it; λ₂ is that "
               "of the very matrix that was run.", ""]  # fmt: skip
        given.out.write_text("\n".join([*top, *lines]), encoding="utf-8")


if __name__ == "__main__":
    main()
