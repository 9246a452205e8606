"""Figure 3.4 of the dissertation: softmax regression on MNIST, 60 peers on a ring, test error against bits.

    python recipes/dissertation_figure_3_4.py [--steps 10000] [--gamma auto] [--only NAME] [--out runs/figure_3_4]

Data sorted by label and cut into 60 equal blocks, no bias (7840 weights), η_t = 1/(t + 100) at the t-th gradient step,
batch 5, H = 5 for SPARQ and SQuARM, k = 10. The error is that of the mean model on all test data. γ is "auto" for all:
the dissertation gives none. Bits until the error first is at most 0.12, and stays so at the next look.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from torch import nn

import covey
from covey import SGD, Task, compress, graphs, trigger
from covey import algorithms as a

PEERS, TARGET = 60, 0.12


def rate(t: int) -> float:
    return 1.0 / (t + 100)


def task() -> Task:
    """Label-sorted blocks; the test set is cut alike, and only its union is looked at."""
    data = covey.data.load("mnist", peers=1, partition="iid", seed=0)
    (x, y), (test_x, test_y) = data.train.of(0), data.test.of(0)
    order, test_order = torch.argsort(y, stable=True), torch.argsort(test_y, stable=True)
    blocks = zip(order.chunk(PEERS), test_order.tensor_split(PEERS), strict=True)
    peers = [(x[own], y[own], test_x[test], test_y[test]) for own, test in blocks]
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(784, 10, bias=False))
    return Task.from_module(module, covey.data.from_peers(peers, transform=None))


def methods(gamma: covey.exchange.gamma.Gamma = "auto") -> dict[str, tuple[a.Algorithm, int]]:
    """Each method, and its gradient steps per round."""
    one, five = SGD(rate, batch=5), SGD(rate, steps=5, batch=5)
    known = {"known": True}
    speak = trigger.norm(5000.0, cap=False)
    quiet = trigger.norm(trigger.piecewise(5000.0, 5000.0, 1000), cap=False)
    top = compress.SignTopK(10)

    def by(step: SGD, how: compress.Compressor, when: trigger.Trigger = trigger.always) -> covey.exchange.Exchange:
        return covey.exchange.Compressed(how, gamma, when, **known)

    return {
        "vanilla (H = 1)": (a.DFedAvg(one), 1),
        "CHOCO, Sign (H = 1)": (a.DFedAvg(one, by=by(one, compress.Sign())), 1),
        "CHOCO, TopK (H = 1)": (a.DFedAvg(one, by=by(one, compress.TopK(10))), 1),
        "SPARQ, SignTopK": (a.SPARQ(five, top, gamma, speak), 5),
        "SQuARM, SignTopK, no trigger": (a.SQuARM(five, top, gamma), 5),
        "SQuARM, SignTopK": (a.SQuARM(five, top, gamma, speak), 5),
        "SQuARM, SignTopK, rising threshold": (a.SQuARM(five, top, gamma, quiet), 5),
    }


def first_below(history: list[dict], target: float) -> dict | None:
    """The first look at or below the target that is followed by another one (or by the end)."""
    good = [1.0 - entry["average"]["accuracy"] <= target for entry in history]
    for place, entry in enumerate(history):
        if good[place] and all(good[place : place + 2]):
            return entry
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--gamma", default="auto")
    parser.add_argument("--out", type=Path, default=Path("runs/figure_3_4"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    problem = task()
    gamma = given.gamma if given.gamma in ("auto", "usual", "theory") else float(given.gamma)
    for name, (method, steps) in methods(gamma).items():
        if given.only not in name:
            continue
        rounds = given.steps // steps
        run = covey.simulate(method, problem, graphs.ring(PEERS), rounds=rounds, evaluate_every=max(1, 20 // steps))
        found = first_below(run.history, TARGET)
        last = 1.0 - run.history[-1]["average"]["accuracy"]
        best = min(1.0 - e["average"]["accuracy"] for e in run.history)
        bits = None if found is None else found["bits"]
        print(f"{name:36s} last {last:.4f} best {best:.4f}", "-" if found is None else
              f"round {found['round']} links {bits['formula']['links']:.3g} / {bits['encoded']['links']:.3g}",
              run.summary()["seconds"], flush=True)  # fmt: skip
        kept = [{"round": e["round"], "error": 1.0 - e["average"]["accuracy"], "bits": e["bits"],
                 "gamma": None} for e in run.history]  # fmt: skip
        found_gamma = run.peers.state.get("gamma")
        last_gamma = None if found_gamma is None else float(found_gamma[0])
        file = name.replace(" ", "_").replace("(", "").replace(")", "") + ".json"
        (given.out / file).write_text(json.dumps({"name": name, "steps": steps, "gamma": last_gamma, "curve": kept}))


if __name__ == "__main__":
    main()
