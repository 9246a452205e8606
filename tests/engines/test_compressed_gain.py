"""What cooperation gains over training alone survives compression: at least 80 % of it at 50 times fewer bits.

Digits, 20 peers with 8 classes and 10 training samples each. Signs in every second round are 64 times fewer bits, less
the scales. γ is "auto": nothing here was tuned on these seeds.
"""

from __future__ import annotations

import pytest
import torch

import covey
from covey import SGD, Task, compress, graphs, models, trigger
from covey import algorithms as a
from covey.exchange import Compressed, CompressedPush

PEERS, SEEDS = 20, (3, 4, 5)
WORK = SGD(lr=0.1, epochs=2, batch=10, momentum=0.9)
EVERY_SECOND = {"compressor": compress.Sign(), "trigger": trigger.every(2), "known": True}


def last(method: a.Algorithm, graph: graphs.Graph, seed: int) -> tuple[float, float, float]:
    """Mean accuracy of the peers' own models, and the bits over all links by both counts."""
    data = covey.data.load("digits", peers=PEERS, partition="pathological:8", samples=10, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        task = Task.from_module(models.mlp(64, 100, 10), data, personal="head")
    run = covey.simulate(method, task, graph, rounds=20, seed=seed, evaluate_every=20, chunk=PEERS)
    bits = run.history[-1]["bits"]
    return run.history[-1]["mixed"]["accuracy"], bits["formula"]["links"], bits["encoded"]["links"]


@pytest.mark.parametrize("name", ["DFedAlt", "DFedPGP"])
def test_most_of_the_gain_is_left_at_fifty_times_fewer_bits(name: str) -> None:
    if name == "DFedAlt":
        graph = graphs.fixed(graphs.random_undirected(PEERS, 4))
        plain, short = a.DFedAlt(WORK, WORK), a.DFedAlt(WORK, WORK, by=Compressed(**EVERY_SECOND))
    else:
        graph = graphs.fixed(graphs.random_directed(PEERS, 4))
        plain, short = a.DFedPGP(WORK, WORK), a.DFedPGP(WORK, WORK, by=CompressedPush(**EVERY_SECOND))
    alone = a.Local(SGD(lr=0.1, epochs=4, batch=10, momentum=0.9))
    local, whole, few = (
        torch.tensor([last(m, graph, seed) for seed in SEEDS], dtype=torch.float64).mean(0)
        for m in (alone, plain, short)
    )
    assert whole[0] - local[0] >= 0.03, "there is no gain to keep"
    assert few[0] - local[0] >= 0.8 * (whole[0] - local[0])
    assert (whole[1:] >= 50 * few[1:]).all()
