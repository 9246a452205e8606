"""Figure 3.4 of the dissertation: softmax regression on MNIST, 60 peers on a ring, test error against rounds and bits.

    python recipes/dissertation_figure_3_4.py tune      γ of each method, on 10000 held-out training samples
    python recipes/dissertation_figure_3_4.py run       three seeds with that γ, and with γ = "auto", on test data
    python recipes/dissertation_figure_3_4_page.py      docs/results/dissertation_figure_3_4.md from what was run

As there: no bias (7840 weights), η_t = 1/(t + 100) at the t-th gradient step, batch 5, H = 5, k = 10. The dissertation
leaves open how the data are divided ("heterogeneous"), the first model, the momentum, γ, and how the threshold rises.
Here: `sorted`, by label and cut into 60 equal blocks, which lie around the ring in a random order; and `dirichlet`,
each peer with its own mix of classes from Dir(0.3). The first model is zero. Momentum is 0.9 in every method that does
not say otherwise, and 5000 is added to the threshold every 1000 steps. The error is that of the mean model on all test
data; `own` is that of the peers' own models. What has been run is not run again: delete its file under --out to do so.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import covey
from covey import SGD, Task, compress, graphs, trigger
from covey import algorithms as a
from covey.exchange.gamma import Gamma

PEERS, H, K, LOOK, TARGET, OWN = 60, 5, 10, 10, 0.12, 0.3
HELD_OUT, MODEL = 10_000, 7840
GRID = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0)
LIMIT = {"dirichlet": {1: 400, H: 200}, "sorted": {1: 800, H: 300}}  # rounds after which a run ends, by local steps


def rate(t: int) -> float:
    return 1.0 / (t + 100)


def pixels(part: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training samples, and those that are judged: the test set, or what is held out of the training set."""
    data = covey.data.load("mnist", peers=1, partition="iid", seed=0)
    (x, y), (test_x, test_y) = data.train.of(0), data.test.of(0)
    if part == "test":
        return x, y, test_x, test_y
    return x[:-HELD_OUT], y[:-HELD_OUT], x[-HELD_OUT:], y[-HELD_OUT:]


@lru_cache(maxsize=1)
def task(split: str, part: str, seed: int) -> Task:
    """Every peer judges its own model on a random 60th of the samples, so that the mean over peers is a fair one."""
    x, y, test_x, test_y = pixels(part)
    if split == "sorted":
        blocks = torch.argsort(y, stable=True).tensor_split(PEERS)
        place = torch.randperm(PEERS, generator=torch.Generator().manual_seed(seed))
        own = [(x[blocks[k]], y[blocks[k]]) for k in place.tolist()]
    else:
        mixed = covey.data.federate(x, y, test_x, test_y, peers=PEERS, partition="dirichlet:0.3", seed=seed)
        own = [mixed.train.of(i) for i in range(PEERS)]
    judged = torch.randperm(len(test_y), generator=torch.Generator().manual_seed(seed)).tensor_split(PEERS)
    peers = [(*train, test_x[j], test_y[j]) for train, j in zip(own, judged, strict=True)]
    module = nn.Sequential(nn.Flatten(), nn.Linear(784, 10, bias=False))
    nn.init.zeros_(module[1].weight)
    return Task.from_module(module, covey.data.from_peers(peers, transform=None, classes=10))


@dataclass(frozen=True)
class Rival:
    """A method, its local steps in a round, and what a message costs by the formula."""

    method: a.Algorithm
    steps: int
    message: float


def work(steps: int, momentum: float) -> SGD:
    return SGD(rate, steps=steps, batch=5, momentum=momentum, nesterov=momentum > 0, rescale=True)


def rivals(gamma: Gamma) -> dict[str, Rival]:
    one, five = work(1, 0.9), SGD(rate, steps=H, batch=5)
    sign, top, both = compress.Sign(), compress.TopK(K), compress.SignTopK(K)
    steady = trigger.norm(5000.0)
    rising = trigger.norm(trigger.piecewise(5000.0, 5000.0, 1000))

    def rival(method: a.Algorithm, steps: int, compressor: compress.Compressor) -> Rival:
        return Rival(method, steps, compressor.formula(MODEL))

    return {
        "vanilla": rival(a.DSGDm(one), 1, compress.Identity()),
        "CHOCO Sign": rival(a.CHOCO(one, sign, gamma), 1, sign),
        "CHOCO TopK": rival(a.CHOCO(one, top, gamma), 1, top),
        "SQuARM always": rival(a.SQuARM(five, both, gamma), H, both),
        "SQuARM": rival(a.SQuARM(five, both, gamma, steady), H, both),
        "SQuARM rising": rival(a.SQuARM(five, both, gamma, rising), H, both),
        "vanilla, β=0": rival(a.DSGDm(work(1, 0.0)), 1, compress.Identity()),
        "SPARQ, β=0": rival(a.SPARQ(five, both, gamma, steady), H, both),
        "silent": rival(a.DSGDm(work(H, 0.9), by=covey.exchange.Compressed(both, 0.1, trigger.never)), H, both),
    }


# What `tune` found on `dirichlet`, seed 100: the γ with the fewest rounds to the target on held-out samples, then with
# the least error. `sorted` takes them over.
FOUND: dict[str, float] = {"CHOCO Sign": 1.0, "CHOCO TopK": 0.04, "SPARQ, β=0": 0.02,
         "SQuARM always": 0.04, "SQuARM": 0.04, "SQuARM rising": 0.04}  # fmt: skip
PLAIN = ("vanilla", "vanilla, β=0", "silent")  # they have no γ


class Enough(Exception):
    """There is nothing more to see."""


Targets = tuple[tuple[str, float], ...]


def train(rival: Rival, split: str, part: str, seed: int, targets: Targets, rounds: int,
          every: int = LOOK) -> dict[str, Any]:  # fmt: skip
    """One run, until so many rounds, or a fifth more than those that reached all targets."""
    curve: list[dict[str, Any]] = []

    def look(t: int, entry: dict[str, Any] | None) -> None:
        if entry is None:
            return
        bits = {count: entry["bits"][count] for count in ("formula", "encoded")}
        curve.append({"round": t, "error": 1.0 - entry["average"]["accuracy"],
                      "own": 1.0 - entry["mixed"]["accuracy"], "bits": bits})  # fmt: skip
        found = [reached(curve, target, what) for what, target in targets]
        if all(look is not None and t >= 1.2 * look["round"] for look in found):
            raise Enough

    last: float | None = None
    try:
        run = covey.simulate(rival.method, task(split, part, seed), graphs.ring(PEERS), rounds=rounds,
                             seed=seed, evaluate_every=every, chunk=PEERS, on_round=look)  # fmt: skip
        last = float(run.peers.state["gamma"][0]) if "gamma" in run.peers.state else None
    except Enough:
        pass
    except covey.errors.Diverged as error:
        return {"curve": curve, "diverged": str(error)}
    sent = curve[-1]["bits"]["formula"]["broadcast"] / (PEERS * curve[-1]["round"])
    return {"curve": curve, "steps": rival.steps, "spoke": min(1.0, sent / rival.message), "gamma": last}


def reached(curve: list[dict[str, Any]], target: float, what: str = "error") -> dict[str, Any] | None:
    """The first look at or below the target that is followed by another one (or by the end)."""
    good = [look[what] <= target for look in curve]
    return next((look for k, look in enumerate(curve) if all(good[k : k + 2])), None)


def one(job: tuple[str, str, str, Gamma, int, Path]) -> Path:
    """A run and its file; nothing where the file is there."""
    name, split, part, gamma, seed, file = job
    if file.exists():
        return file
    torch.set_num_threads(1)
    rival = rivals(gamma)[name]
    targets = (("error", TARGET),) if part == "validation" else (("error", TARGET), ("own", OWN))
    found = train(rival, split, part, seed, targets, LIMIT[split][rival.steps])
    about = {"name": name, "split": split, "part": part, "asked": gamma, "seed": seed}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(about | found))
    last, best = found["curve"][-1], reached(found["curve"], TARGET)
    after = "never" if best is None else f"in round {best['round']}, links {best['bits']['formula']['links']:.3g}"
    print(f"{split:9s} {name:15s} γ {gamma} seed {seed}: error {last['error']:.4f} own {last['own']:.3f}, "
          f"target {after}", flush=True)  # fmt: skip
    return file


def jobs(verb: str, out: Path, splits: list[str], only: list[str], kinds: list[str], seeds: list[int]) -> list[Any]:
    names = [name for name in rivals("auto") if not only or name in only]
    found: list[Any] = []
    for split in splits:
        for name in names:
            stem = name.replace(", β=0", "-0").replace(" ", "-")
            if verb == "tune" and name not in PLAIN:
                found += [(name, split, "validation", g, 100, out / "tune" / f"{split}-{stem}-{g}.json") for g in GRID]
            elif verb == "run":
                asked: dict[str, Gamma] = {"chosen": FOUND.get(name, "auto"), "auto": "auto"}
                if name in PLAIN:
                    asked.pop("auto")
                found += [(name, split, "test", gamma, seed, out / kind / f"{split}-{stem}-{seed}.json")
                          for kind, gamma in asked.items() if kind in kinds for seed in seeds]  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Figure 3.4 of the dissertation")
    parser.add_argument("verb", choices=("tune", "run"))
    parser.add_argument("--splits", nargs="+", default=list(LIMIT), choices=list(LIMIT))
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--gammas", nargs="+", default=["chosen", "auto"], choices=("chosen", "auto"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("runs/figure_3_4"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    todo = jobs(given.verb, given.out, given.splits, given.only, given.gammas, given.seeds)
    if given.jobs > 1:
        with ProcessPoolExecutor(given.jobs) as pool:
            list(pool.map(one, todo))
    else:
        for job in todo:
            one(job)


if __name__ == "__main__":
    main()
