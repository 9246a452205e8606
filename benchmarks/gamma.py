"""The consensus step γ: the sweep from which the rule of thumb `usual` comes, and how near to the best "auto" comes.

    python -m benchmarks.gamma            the problems (minutes)
    python -m benchmarks.gamma sweep      every compressor on every graph (an hour)

The sweep: peers hold a vector of normal numbers each and agree on the mean (no gradients), until their mean square
distance from it is a hundredth of the first. γ is tried at multiples of `usual`. The three problems: the same over a
ring; softmax regression where each of ten peers has one digit, until the mean peer's own model knows six; and
push-sum over a directed graph with noisy gradients. Rounds are means over seeds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import covey
from covey import SGD, Task, graphs
from covey.algorithms import SGP, DFedAvg
from covey.compress import QSGD, Compressor, QTopK, RandK, Sign, SignTopK, TopK
from covey.exchange import Compressed, CompressedPush
from covey.graphs import Graph
from covey.link import InProcessLink
from covey.peers import Peers
from covey.training.pace import Pace

Reached = Callable[[Tensor], bool]  # of the models [peers, width]
FACTORS = (0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4)  # of the usual γ


@dataclass(frozen=True)
class Problem:
    """A method whose exchange has a γ, and when it is done: `task(seed)`, and what says so."""

    name: str
    method: covey.algorithms.Cooperative
    graph: Graph
    task: Callable[[int], tuple[Task, Reached]]
    most: int
    seeds: tuple[int, ...] = (0, 1)

    def rounds(self, gamma: Any) -> tuple[float, float, float]:
        """Rounds until it is done (infinite if never), in the mean over seeds; the first and the last γ."""
        method = replace(self.method, by=replace(self.method.by, gamma=gamma))  # type: ignore[call-arg]
        taken, first, last = 0.0, math.nan, math.nan
        for seed in self.seeds:
            task, reached = self.task(seed)
            found, first, last = _rounds_to(method, task, self.graph, reached, self.most, seed)
            taken += found / len(self.seeds)
            if math.isinf(found):
                break
        return taken, first, last


def _rounds_to(method: covey.algorithms.Algorithm, task: Task, graph: Graph, reached: Reached, most: int,
               seed: int) -> tuple[float, float, float]:  # fmt: skip
    task, n = method.prepare(task), len(task.train)
    peers = Peers(task, torch.arange(n), n, seed, pace=Pace.fixed(n))
    link = InProcessLink(graph.bound(seed, task.train.counts))
    method.start(peers, link)
    first = float(peers.state["gamma"][0])
    for t in range(most):
        link.begin(t)
        peers.begin(t, link.round.active)
        method.train(peers)
        method.exchange(peers, link)
        peers.round = t + 1
        models = next(method.models(peers))[1]
        if not bool(models.isfinite().all()):
            break
        if reached(models):
            return t + 1.0, first, float(peers.state["gamma"][0])
    return math.inf, first, float(peers.state["gamma"][0])


def agreement(n: int, d: int, seed: int, share: float = 0.01) -> tuple[Task, Reached]:
    """No gradients: normal vectors, to be averaged."""
    start = torch.randn(n, d, generator=torch.Generator().manual_seed(seed))
    mean = start.mean(0)
    goal = share * float((start - mean).square().mean())
    task = Task.from_function(lambda p, own: 0.0 * p["x"].sum(), {"x": torch.zeros(d)}, torch.zeros(n, 1),
                              start={"x": start})  # fmt: skip
    return task, lambda models: float((models - mean).square().mean()) <= goal


@cache
def _digits() -> tuple[Tensor, Tensor]:
    data = covey.data.load("digits", peers=1, partition="iid", seed=0)
    x, y = data.train.of(0)
    return x.flatten(1).float() / x.max(), y


def one_digit_each(seed: int, goal: float = 0.6) -> tuple[Task, Reached]:
    """Ten peers with a digit each; done when the mean over peers of the accuracy on all digits is the goal."""
    x, y = _digits()
    x, y = x[seed::3], y[seed::3]  # other digits for another seed
    parts = [(x[y == digit][:25], y[y == digit][:25]) for digit in range(10)]
    data = tuple(torch.stack([part[k] for part in parts]) for k in (0, 1))

    def loss(p: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(batch[0] @ p["w"], batch[1])

    def reached(models: Tensor) -> bool:
        guess = torch.einsum("sd,pdc->psc", x[::3], models.view(10, 64, 10)).argmax(2)
        return float((guess == y[::3]).double().mean()) >= goal

    return Task.from_function(loss, {"w": torch.zeros(64, 10)}, data), reached


def noisy_mean(n: int, d: int, seed: int, share: float = 0.05) -> tuple[Task, Reached]:
    """F_i(x) = ½ mean_s ‖x − b_is‖², one sample a step; done near the mean of all b."""
    generator = torch.Generator().manual_seed(seed)
    b = torch.randn(n, 1, d, generator=generator) + 0.5 * torch.randn(n, 40, d, generator=generator)
    best = b.mean((0, 1))
    goal = share * float((b.mean(1) - best).square().mean())
    task = Task.from_function(lambda p, own: 0.5 * (p["x"] - own).square().sum(-1).mean(), {"x": torch.zeros(d)}, b,
                              start={"x": b.mean(1)})  # fmt: skip
    return task, lambda models: float((models - best).square().mean()) <= goal


REST = SGD(0.0, steps=0)
LEARNING = DFedAvg(SGD(0.1, steps=5, batch=5), by=Compressed(SignTopK(0.05)))
PROBLEMS = (
    Problem("agreement, ring(16), TopK 5 %", DFedAvg(REST, by=Compressed(TopK(0.05))), graphs.ring(16),
            lambda seed: agreement(16, 500, seed), 1200),
    Problem("a digit each, erdos_renyi(10, 0.4), SignTopK 5 %", LEARNING, graphs.erdos_renyi(10, 0.4, seed=1),
            one_digit_each, 600),
    Problem("noisy mean, directed(12, 3), TopK 5 %", SGP(SGD(0.01, batch=1), by=CompressedPush(TopK(0.05))),
            graphs.fixed(graphs.random_directed(12, 3, seed=1)), lambda seed: noisy_mean(12, 300, seed), 600),
    Problem("a digit each, ring(10), SignTopK 5 %", LEARNING, graphs.ring(10), one_digit_each, 600),
)  # fmt: skip

COMPRESSORS: dict[str, Compressor] = {
    "TopK 1 %": TopK(0.01), "TopK 5 %": TopK(0.05), "SignTopK 5 %": SignTopK(0.05), "QTopK 5 %, 4 bits": QTopK(0.05),
    "RandK 10 %": RandK(0.1), "Sign": Sign(), "QSGD 4 bits": QSGD(15),
}  # fmt: skip
GRAPHS: dict[str, Graph] = {
    "ring(16)": graphs.ring(16), "torus(4, 4)": graphs.torus(4, 4), "full(16)": graphs.full(16),
    "erdos_renyi(16, 0.3)": graphs.erdos_renyi(16, 0.3, seed=1),
}  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """Rounds at each fixed γ and at "auto", with the γ that auto began and ended at."""

    fixed: dict[float, float]
    most: int
    auto: tuple[float, float, float]

    @property
    def best(self) -> tuple[float, float]:
        """The fewest rounds, and their γ."""
        return min((rounds, gamma) for gamma, rounds in self.fixed.items())

    @property
    def spread(self) -> float:
        """How much the choice of γ matters: the most rounds over the fewest; who never arrives counts with all that it
        was given, so it is at least this."""
        return max(min(rounds, self.most) for rounds in self.fixed.values()) / self.best[0]

    @property
    def off(self) -> float:
        """The rounds of auto over those of the best fixed γ."""
        return self.auto[0] / self.best[0]


def curve(problem: Problem, factors: tuple[float, ...] = FACTORS) -> Curve:
    auto = problem.rounds("auto")
    tried = [min(1.0, factor * auto[1]) for factor in factors]
    return Curve({gamma: problem.rounds(gamma)[0] for gamma in dict.fromkeys(tried)}, problem.most, auto)


def sweep() -> None:
    print(f"{'':24s}{'':22s} usual γ rounds   best γ rounds   usual / best   auto / best")
    for name, compressor in COMPRESSORS.items():
        for where, graph in GRAPHS.items():
            method = DFedAvg(REST, by=Compressed(compressor))
            found = curve(Problem(name, method, graph, lambda seed: agreement(16, 500, seed), 1500, (0,)))
            rounds, gamma = found.best
            usual = found.fixed[min(1.0, found.auto[1])]
            print(f"{name:24s}{where:22s} {found.auto[1]:7.3f} {usual:6.0f}  {gamma:7.3f} {rounds:6.0f}   "
                  f"{usual / rounds:12.2f} {found.off:13.2f}", flush=True)  # fmt: skip


def main() -> None:
    for problem in PROBLEMS:
        found = curve(problem)
        rounds, gamma = found.best
        print(f"{problem.name}: auto {found.auto[0]:.0f} rounds (γ {found.auto[1]:.3f} to {found.auto[2]:.3f}), best "
              f"fixed γ {gamma:.3f} {rounds:.0f} rounds; auto / best {found.off:.2f}, wanted at most 1.10; the choice "
              f"of γ changes rounds at least {found.spread:.1f} times, wanted at least 3.0")  # fmt: skip
        print("   ", "  ".join(f"{gamma:.3f}: {rounds:.0f}" for gamma, rounds in found.fixed.items()), flush=True)


if __name__ == "__main__":
    sweep() if sys.argv[1:] == ["sweep"] else main()
