"""Figures 3.2 and 3.3 of the dissertation: ResNet-20 on CIFAR-10, 8 peers on a ring, test accuracy against bits.

    python recipes/dissertation_figure_3_2.py --epochs 60 --device cuda [--only SQuARM] [--out runs/figure_3_2]
    python recipes/dissertation_figure_3_2_page.py                the page, from what has been run

Data divided iid and equally, random crops and flips, batch 256, Nesterov's momentum 0.9, rate 0.1 with 5 epochs of
warm-up and divided by 5 at one half and three quarters of the run (the dissertation: 200 and 300 of 400 epochs), 1 % of
each tensor, H = 5 for SQuARM, a threshold that begins at 2.5 and rises by 1.5 every twentieth of the run. γ is "auto":
the dissertation gives none. BatchNorm's statistics stay with their peer. One JSON file per method.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import covey
from covey import SGD, Task, compress, graphs, models, trigger
from covey import algorithms as a
from covey.exchange import Compressed

PEERS, BATCH, H = 8, 256, 5


class Augmented(nn.Module):
    """Random crops of the padded picture and random flips, in training only."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            n, _, h, w = x.shape
            flip = (torch.rand(n) < 0.5).to(x.device)
            x = torch.where(flip[:, None, None, None], x.flip(3), x)
            padded = F.pad(x, (4, 4, 4, 4))
            top, left = torch.randint(0, 9, (2, n)).to(x.device)
            rows = top[:, None] + torch.arange(h, device=x.device)
            columns = left[:, None] + torch.arange(w, device=x.device)
            x = padded[torch.arange(n, device=x.device)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
            x = x.permute(0, 3, 1, 2).contiguous()
        return self.body(x)


def rate(t: int, per_epoch: int, epochs: int) -> float:
    epoch = t / per_epoch
    warm = min(1.0, (epoch + 1.0 / per_epoch) / 5.0)
    return 0.1 * warm * (1.0 if epoch < epochs / 2 else 0.2 if epoch < 0.75 * epochs else 0.04)


def methods(per_epoch: int, epochs: int) -> dict[str, a.Algorithm]:
    lr = partial(rate, per_epoch=per_epoch, epochs=epochs)
    one = SGD(lr, batch=BATCH, momentum=0.9, nesterov=True, weight_decay=1e-4)
    five = replace(one, steps=H, rescale=True)  # with momentum that lives on and a trigger it is SQuARM-SGD
    rising = trigger.norm(trigger.piecewise(2.5, 1.5, max(1, per_epoch * epochs // 20), 350.0), cap=True)
    top = compress.SignTopK(0.01)

    def by(how: compress.Compressor, when: trigger.Trigger = trigger.always) -> Compressed:
        return Compressed(how, "auto", when, known=True)

    return {
        "vanilla": a.DSGDm(one),
        "CHOCO-Sign": a.DSGDm(one, by=by(compress.Sign())),
        "CHOCO-TopK": a.DSGDm(one, by=by(compress.TopK(0.01))),
        "SQuARM-no-trigger": a.DSGDm(five, by=by(top)),
        "SQuARM": a.DSGDm(five, by=by(top, rising)),
        "SQuARM-4-bit-TopK": a.DSGDm(five, by=by(compress.QTopK(0.01, levels=7))),
    }


def task(samples: int | None) -> Task:
    data = covey.data.load("cifar10", peers=PEERS, partition="iid", samples=samples, seed=0)
    torch.manual_seed(0)
    return Task.from_module(Augmented(models.build("resnet20", data, 0)), data, statistics="personal")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--samples", type=int, default=None)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=Path("runs/figure_3_2"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    problem = task(given.samples)
    per_epoch = int(problem.train.counts.min()) // BATCH
    for name, method in methods(per_epoch, given.epochs).items():
        if not given.only or name in given.only.split(","):
            run_one(name, method, problem, per_epoch, given)


def run_one(name: str, method: a.Algorithm, problem: Task, per_epoch: int, given: argparse.Namespace) -> None:
    """Run a method and keep its curve, rewritten at every look: a run that is cut off has shown something."""
    steps = method.local.steps or 1
    curve: list[dict[str, Any]] = []
    kept = {"name": name, "steps": steps, "per_epoch": per_epoch, "epochs": given.epochs, "curve": curve}

    def keep(t: int, entry: dict[str, Any] | None) -> None:
        if entry is None:
            return
        now = {"round": t, "epoch": t * steps / per_epoch, "accuracy": entry["average"]["accuracy"],
               "personal": entry["mixed"]["accuracy"], "train_loss": entry["train_loss"],
               "consensus": entry["consensus"], "bits": entry["bits"]}  # fmt: skip
        curve.append(now)
        (given.out / f"{name}.json").write_text(json.dumps(kept))
        print(f"{name:18s} epoch {now['epoch']:5.1f}  mean model {100 * now['accuracy']:5.2f} %  peers "
              f"{100 * now['personal']:5.2f} %  {now['bits']['formula']['links']:.3g} bits", flush=True)  # fmt: skip

    every = max(1, 2 * per_epoch // steps)
    rounds = per_epoch * given.epochs // steps
    covey.simulate(method, problem, graphs.ring(PEERS), rounds=rounds, device=given.device, chunk=1,
                   evaluate_every=every, on_round=keep)  # fmt: skip


if __name__ == "__main__":
    main()
