"""What compressing and mixing costs: against the passes over memory that it cannot do without, in one run.

    python -m benchmarks.compression [--device cuda]

A hundred peers with a million parameters each on a ring say the 1 % of their gaps that are largest (TopK) and mix what
they hear: one call of `Compressed`. On a processor it is compared with one subtract (x − x̂), one select (torch.topk of
magnitudes) and one add, each measured alone into memory that is there already; on an accelerator with one plain copy of
all parameters. Then: what sparse mixing costs where as many numbers are said of ever wider rows. Sides alternate, and
the median of the ratios counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from covey import Task, graphs
from covey.compress import Sparse, TopK
from covey.exchange import Compressed
from covey.link import InProcessLink
from covey.peers import Peers
from covey.sparse_mixing import mix_sparse

PEERS, WIDTH, SHARE = 100, 1_000_000, 0.01


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - begin


class Exchange:
    """Rows of normal numbers that are compressed and mixed; between two calls they move as training would move them."""

    def __init__(self, device: str) -> None:
        task = Task.from_function(lambda p, own: 0.0 * p["x"].sum(), {"x": torch.zeros(WIDTH)}, torch.zeros(PEERS, 1))
        self.peers = Peers(task.to(device), torch.arange(PEERS), PEERS)
        self.link = InProcessLink(graphs.ring(PEERS))
        self.method = Compressed(TopK(SHARE), gamma=0.05)
        self.move()
        self.method.start(self.peers, self.link)

    def move(self) -> None:
        self.peers.rows += 0.1 * torch.randn(PEERS, WIDTH, device=self.peers.rows.device)

    def __call__(self) -> None:
        self.link.begin(self.peers.round)
        self.method(self.peers, self.link)
        self.peers.round += 1


def against_passes(turns: int = 5) -> tuple[float, dict[str, float]]:
    """The median ratio, and the seconds of the exchange and of each pass."""
    ours = Exchange("cpu")
    x, hat, into = ours.peers.rows, ours.peers.state["hat"], torch.empty(PEERS, WIDTH)
    size, k = x.abs(), round(SHARE * WIDTH)
    chosen = torch.empty(PEERS, k), torch.empty(PEERS, k, dtype=torch.int64)
    passes: dict[str, Callable[[], object]] = {
        "subtract": lambda: torch.sub(x, hat, out=into),
        "select": lambda: torch.topk(size, k, dim=1, out=chosen),
        "add": lambda: torch.add(x, hat, out=into),
    }
    taken: dict[str, list[float]] = {name: [] for name in ("exchange", *passes)}
    for turn in range(turns + 1):
        ours.move()
        now = {"exchange": seconds(ours), **{name: seconds(work) for name, work in passes.items()}}
        if turn:
            for name, value in now.items():
                taken[name].append(value)
    alone = [sum(taken[name][i] for name in passes) for i in range(turns)]
    ratio = statistics.median(own / other for own, other in zip(taken["exchange"], alone, strict=True))
    return ratio, {name: statistics.median(values) for name, values in taken.items()}


def against_a_copy(device: str, turns: int = 20) -> tuple[float, float]:
    """The median ratio, and the seconds of a copy."""
    ours = Exchange(device)
    into = torch.empty_like(ours.peers.rows)
    ratios, copies = [], []
    for turn in range(turns + 3):
        ours.move()
        torch.cuda.synchronize()
        own, copy = seconds(ours), seconds(lambda: into.copy_(ours.peers.rows))
        if turn >= 3:
            ratios.append(own / copy)
            copies.append(copy)
    return statistics.median(ratios), statistics.median(copies)


def sparse_mixing(k: int, width: int, device: str = "cpu", turns: int = 7) -> float:
    """Milliseconds in which each of a hundred peers on a ring adds k numbers of each of its neighbours."""
    generator = torch.Generator().manual_seed(0)
    index = (torch.randperm(width, generator=generator)[:k].sort().values).expand(PEERS, -1).contiguous().to(device)
    said = Sparse(torch.arange(PEERS, device=device), index, torch.ones(PEERS, k, device=device), (PEERS, width))
    total, weights = torch.zeros(PEERS, width, device=device), graphs.ring(PEERS).round(0).weights
    times = [seconds(lambda: mix_sparse(weights, said, total)) for _ in range(turns + 1)]
    return 1e3 * statistics.median(times[1:])


def dense_mixing(width: int, device: str = "cpu", turns: int = 3) -> float:
    x: Tensor = torch.ones(PEERS, width, device=device)
    weights = graphs.ring(PEERS).round(0).weights
    return 1e3 * statistics.median([seconds(lambda: weights.apply(x)) for _ in range(turns + 1)][1:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    if device == "cpu":
        ratio, taken = against_passes()
        told = ", ".join(f"{name} {value:.2f} s" for name, value in taken.items())
        print(f"compress and mix over its passes        {ratio:5.2f}   wanted at most 1.50   ({told})")
    else:
        ratio, copy = against_a_copy(device)
        print(f"compress and mix over a plain copy      {ratio:5.2f}   wanted at most 8.00   (a copy {1e3 * copy:.2f} ms)")
    for width in (10_000, 100_000, 1_000_000):
        print(f"sparse mixing, 1000 numbers of {width:9,d}  {sparse_mixing(1000, width, device):7.2f} ms   "
              f"(dense {dense_mixing(width, device):.1f} ms)")  # fmt: skip


if __name__ == "__main__":
    main()
