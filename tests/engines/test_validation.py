"""Validation: what is set aside leaves the training samples and is judged apart from the test samples.

Each peer's labels are powers of two, so that the sum of some of them says which they are. A model of one weight, one
step at η = 1 on ½(w − y)² from 0, ends at the mean of the labels that it saw.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import covey
from covey import SGD, Task
from covey.algorithms import Local
from covey.graphs import isolated

SIZES = (10, 7, 2, 1)


def data() -> covey.data.Federated:
    def labelled(y: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ones(len(y), 1, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)[:, None]

    tested = labelled([-(2.0**20), -(2.0**21)])
    return covey.data.from_peers([(*labelled([2.0**k for k in range(n)]), *tested) for n in SIZES])


def seen(mean: float, count: int) -> set[int]:
    """Which powers of two have this mean."""
    total = round(mean * count)
    assert total == pytest.approx(mean * count, abs=1e-9)
    assert total.bit_count() == count
    return {k for k in range(total.bit_length()) if total >> k & 1}


@pytest.mark.parametrize("chunk", [1, 4])
def test_what_is_held_out_is_never_trained_on_and_validation_is_judged_on_it_alone(chunk: int) -> None:
    """.3 of 10, 7, 2 and 1 samples: 3, 2, and at least one of the 2, while a peer's only sample is kept."""
    module = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(module.weight)
    task = Task.from_module(module, data(), loss=lambda p, y: 0.5 * (p - y).square().mean())
    run = covey.simulate(Local(SGD(1.0)), task, isolated(4), rounds=1, validation=0.3, chunk=chunk)
    losses, tests = [], []
    for n, w, held in zip(SIZES, run.rows.flatten().tolist(), (3, 2, 1, 0), strict=True):
        kept = seen(w, n - held)
        out = set(range(n)) - kept
        assert len(out) == held
        losses += [sum(0.5 * (w - 2.0**k) ** 2 for k in out) / held] if held else []
        tests.append((0.5 * (w + 2.0**20) ** 2 + 0.5 * (w + 2.0**21) ** 2) / 2)
    entry = run.history[0]
    assert entry["validation"]["loss"] == pytest.approx(sum(losses) / 3, rel=1e-12)
    assert entry["mixed"]["loss"] == pytest.approx(sum(tests) / 4, rel=1e-12)
    assert run.summary()["loss"]["validation"]["last"] == entry["validation"]["loss"]


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 0.99])
def test_a_split_is_a_partition_of_each_peer(fraction: float) -> None:
    kept, held = data().train.split(fraction, seed=2)
    for peer, n in enumerate(SIZES):
        (_, y), (_, out) = kept.of(peer), held.of(peer)
        wanted = 0 if fraction == 0 else min(n - 1, max(1, round(fraction * n)))
        assert (len(y), len(out)) == (n - wanted, wanted)
        assert sorted(y.flatten().tolist() + out.flatten().tolist()) == [2.0**k for k in range(n)]


def test_what_is_held_out_goes_by_seed_and_is_no_block_of_the_stored_order() -> None:
    def held(seed: int) -> list[float]:
        return data().train.split(0.5, seed)[1].of(0)[1].flatten().tolist()

    assert held(1) == held(1)
    assert len({str(sorted(held(seed))) for seed in range(8)}) > 4


def test_the_seed_decides_what_is_held_out() -> None:
    """3 of 10 samples: two draws agree with probability 1/120, five with the first not before one run in 10^10."""
    module = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(module.weight)
    task = Task.from_module(module, data(), loss=lambda p, y: 0.5 * (p - y).square().mean())
    runs = [
        covey.simulate(Local(SGD(1.0)), task, isolated(4), 1, seed, validation=0.3) for seed in (0, 0, 1, 2, 3, 4, 5)
    ]
    first, again, *others = (seen(float(run.rows[0]), 7) for run in runs)
    assert first == again and any(other != first for other in others)
