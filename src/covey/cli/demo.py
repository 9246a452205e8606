"""`covey demo`: a comparison on real data in which sharing pays, with how to read it."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from covey.cli.commands import train
from covey.cli.settings import Compare

PRESET = Compare(
    algorithms=("local", "fedavg", "fedrep", "dfedavgm", "dfedalt", "dfedsalt", "deprl", "dfedpgp"),
    data="digits", peers=20, partition="pathological:5", samples=20, model="mlp", rounds=40,
    graph="random_undirected:4", directed="random_directed:4", epochs=2, batch=10, lr=0.05, evaluate_every=2,
    target=0.85,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Compare eight methods on handwritten digits: 20 peers with 20 samples each (about half a minute)."""

    seed: int = 0  # of everything that is drawn


def demo(settings: Demo, console: Console) -> None:
    train(PRESET, console)
