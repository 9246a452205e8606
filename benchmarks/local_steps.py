"""Local steps of many peers, against the loop that one would write by hand. Ratios, both sides in one run.

The loop is kept as good as it gets: data in memory, mini-batches by index, one module and one optimiser per peer,
nothing rebuilt. Both sides take the same number of steps of plain SGD; the two alternate, and the median of the ratios
counts, so that a noisy machine hurts both.
"""

from __future__ import annotations

import copy
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import covey
from covey.peers import Peers


@dataclass(frozen=True)
class Setting:
    name: str
    module: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int
    peers: int
    batch: int
    steps: int
    momentum: float
    wanted: float


def softmax() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))


def dnn() -> nn.Module:
    widths = (900, 512, 256, 128, 64, 5)
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 49, 160), nn.ReLU(), nn.Linear(160, 10),
    )  # fmt: skip


SETTINGS = (
    Setting("softmax regression, 1000 peers", softmax, (784,), 10, 1000, 10, 5, 0.0, 5.0),
    Setting("MLP 784-100-10, 200 peers", mlp, (784,), 10, 200, 10, 10, 0.0, 1.7),
    Setting("HARBox DNN, 128 peers", dnn, (900,), 5, 128, 16, 10, 0.0, 0.95),
    Setting("HARBox DNN, 128 peers, momentum", dnn, (900,), 5, 128, 16, 10, 0.9, 0.95),
    Setting("CNN, 20 peers", cnn, (1, 28, 28), 10, 20, 32, 10, 0.0, 0.95),
)


class Loop:
    """The plain loop."""

    def __init__(self, setting: Setting, module: nn.Module, x: Tensor, y: Tensor) -> None:
        self.setting, self.x, self.y = setting, x, y
        self.modules = [copy.deepcopy(module) for _ in range(setting.peers)]
        self.optimisers = [torch.optim.SGD(m.parameters(), 0.01, momentum=setting.momentum) for m in self.modules]

    def __call__(self) -> None:
        for peer, (model, optimiser) in enumerate(zip(self.modules, self.optimisers, strict=True)):
            x, y = self.x[peer], self.y[peer]
            order = torch.randperm(len(y))
            for k in range(self.setting.steps):
                at = order[k * self.setting.batch : (k + 1) * self.setting.batch]
                optimiser.zero_grad()
                F.cross_entropy(model(x[at]), y[at]).backward()
                optimiser.step()


class Ours:
    """`Peers.train`."""

    def __init__(self, setting: Setting, module: nn.Module, x: Tensor, y: Tensor) -> None:
        data = covey.data.from_peers([(a, b, a[:1], b[:1]) for a, b in zip(x, y, strict=True)])
        task = covey.Task.from_module(module, data)
        self.local = covey.SGD(0.01, steps=setting.steps, batch=setting.batch, momentum=setting.momentum)
        self.peers = Peers(task, torch.arange(setting.peers), setting.peers)

    def __call__(self) -> None:
        self.peers.train(self.local)


def measure(setting: Setting, turns: int = 5) -> tuple[float, float, float]:
    """Milliseconds per peer and step, of the loop and of covey, and the median ratio."""
    torch.manual_seed(0)
    samples = setting.batch * setting.steps
    x = torch.randn(setting.peers, samples, *setting.shape)
    y = torch.randint(setting.classes, (setting.peers, samples))
    module = setting.module()
    sides = Loop(setting, module, x, y), Ours(setting, module, x, y)
    for side in sides:
        side()
    times: list[list[float]] = [[], []]
    for _ in range(turns):
        for own, side in zip(times, sides, strict=True):
            begin = time.perf_counter()
            side()
            own.append(time.perf_counter() - begin)
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    unit = 1e3 / (setting.peers * setting.steps)
    return statistics.median(times[0]) * unit, statistics.median(times[1]) * unit, ratio


def main() -> None:
    print(f"{'':36s} {'loop ms':>9} {'covey ms':>9} {'ratio':>7} {'wanted':>7}    ({torch.get_num_threads()} threads)")
    for setting in SETTINGS:
        loop, ours, ratio = measure(setting)
        print(f"{setting.name:36s} {loop:9.4f} {ours:9.4f} {ratio:7.2f} {setting.wanted:7.2f}", flush=True)


if __name__ == "__main__":
    main()
