"""Figures 3.2 and 3.3 of the dissertation: ResNet-20 on CIFAR-10, 8 peers on a ring, test accuracy against bits.

    python recipes/dissertation_figure_3_2.py --epochs 60 --device cuda [--only SQuARM] [--out runs/figure_3_2]

Data divided iid and equally, random crops and flips, batch 256, Nesterov's momentum 0.9, rate 0.1 with 5 epochs of
warm-up and divided by 5 at one half and three quarters of the run (the dissertation: 200 and 300 of 400 epochs), 1 % of
each tensor, H = 5 for SQuARM, a threshold that begins at 2.5 and rises by 1.5 every twentieth of the run. γ is "auto":
the dissertation gives none. BatchNorm's statistics stay with their peer. One JSON file per method.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

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
            x = x.permute(0, 3, 1, 2)
        return self.body(x)


def rate(t: int, per_epoch: int, epochs: int) -> float:
    epoch = t / per_epoch
    warm = min(1.0, (epoch + 1.0 / per_epoch) / 5.0)
    return 0.1 * warm * (1.0 if epoch < epochs / 2 else 0.2 if epoch < 0.75 * epochs else 0.04)


def methods(per_epoch: int, epochs: int) -> dict[str, a.Algorithm]:
    lr = partial(rate, per_epoch=per_epoch, epochs=epochs)
    one = SGD(lr, batch=BATCH, momentum=0.9, nesterov=True, weight_decay=1e-4)
    five = SGD(lr, steps=H, batch=BATCH, weight_decay=1e-4)
    rising = trigger.norm(trigger.piecewise(2.5, 1.5, max(1, per_epoch * epochs // 20), 350.0), cap=True)
    top = compress.SignTopK(0.01)
    return {
        "vanilla": a.DSGDm(one),
        "CHOCO-Sign": a.DSGDm(one, by=Compressed(compress.Sign(), "auto", known=True)),
        "CHOCO-TopK": a.DSGDm(one, by=Compressed(compress.TopK(0.01), "auto", known=True)),
        "SQuARM-no-trigger": a.SQuARM(five, top, "auto"),
        "SQuARM": a.SQuARM(five, top, "auto", rising),
        "SQuARM-4bit-TopK-10%": a.SQuARM(five, compress.QTopK(0.1, levels=15), "auto"),
    }


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
    data = covey.data.load("cifar10", peers=PEERS, partition="iid", samples=given.samples, seed=0)
    torch.manual_seed(0)
    module = Augmented(models.build("resnet20", data, 0))
    task = Task.from_module(module, data, statistics="personal")
    per_epoch = int(data.train.counts.min()) // BATCH
    for name, method in methods(per_epoch, given.epochs).items():
        if given.only and name not in given.only.split(","):
            continue
        steps = method.local.steps or 1
        rounds = per_epoch * given.epochs // steps
        every = max(1, per_epoch // steps)

        def say(t: int, entry: dict | None, name: str = name, every: int = every) -> None:
            if entry is not None and t % (5 * every) < every:
                print(name, t, round(entry["average"]["accuracy"], 4), f"{entry['bits']['formula']['links']:.3g}",
                      entry["seconds"], flush=True)  # fmt: skip

        run = covey.simulate(method, task, graphs.ring(PEERS), rounds=rounds, device=given.device, chunk=1,
                             evaluate_every=every, on_round=say)  # fmt: skip
        gamma = run.peers.state.get("gamma")
        curve = [{"round": e["round"], "accuracy": e["average"]["accuracy"], "loss": e["train_loss"], "bits": e["bits"]}
                 for e in run.history]  # fmt: skip
        kept = {"name": name, "steps": steps, "per_epoch": per_epoch, "epochs": given.epochs,
                "gamma": None if gamma is None else float(gamma[0]), "curve": curve}  # fmt: skip
        (given.out / f"{name}.json").write_text(json.dumps(kept))


if __name__ == "__main__":
    main()
