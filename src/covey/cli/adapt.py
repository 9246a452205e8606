"""`covey adapt RUN`: what a run's representation is worth to peers that had no part in it."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from rich.console import Console
from tyro.conf import Positional, arg

from covey import data, engine, models
from covey.cli.jobs import personal_of
from covey.cli.settings import Compare, Run, from_kept
from covey.errors import BadInput
from covey.report import Record, table, write_page
from covey.report.record import Group
from covey.tasks import Task
from covey.training import SGD


@dataclass(frozen=True, kw_only=True)
class Adapt:
    """Train heads of new peers on the representation that a run has learned, and compare."""

    run: Annotated[Positional[Path], arg(metavar="RUN")]  # the folder of a run
    peers: int = 64  # how many new peers; 0: every user that the run left out
    # how what the run did not train on is divided, by default as in the run; natural: users that were no peers of it
    partition: Annotated[str | None, arg(metavar="NAME[:ARG]")] = None
    samples: int | None = None  # at most so many training samples per new peer
    of: Annotated[str, arg(metavar="mean|PEER")] = "mean"  # whose representation: the mean of all peers, or a peer's
    rounds: int = 10  # looks at the new peers; between two of them they train
    epochs: int = 1  # passes over a peer's own data in a round
    lr: float | None = None  # by default the run's rate of heads
    batch: int | None = None  # samples in a mini-batch, 0: all; by default the run's
    seed: int | None = None  # of the new peers' data and mini-batches; by default the run's
    device: str = "cpu"  # or cuda
    out: Annotated[Path | None, arg(metavar="DIR")] = None  # a new folder for what this writes
    quiet: bool = False  # no table

    def whose(self) -> int | Literal["mean"]:
        if self.of == "mean":
            return "mean"
        if not self.of.isdigit():
            raise BadInput(f"--of {self.of} is neither 'mean' nor the number of a peer.")
        return int(self.of)


def adapt(settings: Adapt, console: Console) -> None:
    s, whose = settings, settings.whose()
    engine.representation(s.run, whose)  # refused before data are read
    earlier = _command_of(s.run)
    seed = earlier.seed if s.seed is None else s.seed
    known = data.load(earlier.data, peers=earlier.peers or None, partition=earlier.partition, seed=earlier.seed,
                      samples=earlier.samples)  # fmt: skip
    new = data.unseen(known, s.peers or None, s.partition, seed, s.samples)
    module = models.build(earlier.model, known, earlier.seed)
    task = Task.from_module(module, new, personal=personal_of(module, earlier))
    if earlier.threads is not None:
        torch.set_num_threads(earlier.threads)
    command = {name: str(v) if isinstance(v, Path) else v for name, v in asdict(s).items() if name != "out"}
    found = engine.adapt(s.run, task, _heads(s, earlier), s.rounds, of=whose, out=s.out, seed=seed, device=s.device,
                         command={"name": "adapt"} | command)  # fmt: skip
    labels = {"adapted": f"heads on {earlier.algorithm}'s body", "untrained": "heads on an untrained body",
              "scratch": "all, from scratch"}  # fmt: skip
    groups = [Group(label, [Record.of(getattr(found, name))]) for name, label in labels.items()]
    if s.out is not None:
        write_page(groups, s.out / "report.html")
    if not s.quiet:
        console.print(table(groups))
        if s.out is not None:
            inside = "config.toml, metrics.jsonl, summary.json, report.html; untrained and scratch"
            console.print(f"\n{s.out}: {inside}", markup=False, highlight=False, soft_wrap=True)


def _command_of(folder: Path) -> Run:
    """What the run was asked for: its data, its model, its rates."""
    path = folder / "config.toml"
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise BadInput(f"{path} cannot be read ({problem}).") from problem
    earlier = from_kept(content.get("command", {}), path)
    if isinstance(earlier, Compare):
        raise BadInput(f"{folder} holds several runs; name one of them, such as {folder}/{earlier.algorithms[0]}.")
    return earlier


def _heads(s: Adapt, earlier: Run) -> SGD:
    lr = next(rate for rate in (s.lr, earlier.head_lr, earlier.lr) if rate is not None)
    batch = earlier.batch if s.batch is None else s.batch
    momentum = 0.9 if earlier.momentum is None else earlier.momentum
    return SGD(lr, epochs=s.epochs, batch=batch or None, momentum=momentum, nesterov=earlier.nesterov,
               weight_decay=earlier.weight_decay, clip=earlier.clip)  # fmt: skip
