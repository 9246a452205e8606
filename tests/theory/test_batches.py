"""Which samples a step uses: what a pass, a round, a phase and a peer have to do with it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from covey import SGD, Task
from covey.peers import Peers
from covey.training.pace import Pace
from theory.recorded import recorded

SIZES = (22, 9, 22, 30, 4)
Batches = list[list[list[int]]]


def task() -> Task:
    parts = [(torch.ones(n, 1), torch.zeros(n, dtype=torch.int64)) * 2 for n in SIZES]
    network = nn.Sequential()
    network.add_module("body", nn.Linear(1, 2))
    network.add_module("head", nn.Linear(2, 2))
    return Task.from_module(network, recorded(parts), personal="head")


def peers(chunk: int = 1, ids: tuple[int, ...] = (0, 1, 2, 3, 4), seed: int = 0) -> Peers:
    whole = task()
    whole.train.take()  # type: ignore[attr-defined]
    some = whole if len(ids) == len(SIZES) else whole.select(torch.tensor(ids))
    own = Peers(some, torch.tensor(ids), len(SIZES), seed, pace=Pace.fixed(chunk))
    own.grad()  # the pace is settled on batches, too
    own.data.take()  # type: ignore[attr-defined]
    return own


def drawn(own: Peers, local: SGD, t: int = 0, group: str = "all", purpose: str | None = None) -> Batches:
    """Everybody's batches of one phase of round t."""
    own.begin(t, own.active)
    own.train(local, group, purpose=purpose)  # type: ignore[arg-type]
    return own.data.take()  # type: ignore[attr-defined]


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


@pytest.mark.parametrize("chunk", [1, 2, 5])
@pytest.mark.parametrize("batch", [1, 5, 6, 22, 100, None])
def test_every_epoch_covers_each_sample_once_and_ends_with_what_is_left(batch: int | None, chunk: int) -> None:
    found = drawn(peers(chunk), SGD(0.1, epochs=3, batch=batch))
    for n, own in zip(SIZES, found, strict=True):
        size = min(batch or n, n)
        lengths = [size] * (n // size) + [n % size] * (n % size > 0)
        assert [len(b) for b in own] == 3 * lengths
        for epoch in range(3):
            assert sorted(flat(own[epoch * len(lengths) : (epoch + 1) * len(lengths)])) == list(range(n))


def test_every_epoch_has_an_order_of_its_own_and_none_is_the_stored_one() -> None:
    for n, own in zip(SIZES[:4], drawn(peers(5), SGD(0.1, epochs=3, batch=5)), strict=False):
        orders = [tuple(flat(own)[k * n : (k + 1) * n]) for k in range(3)]
        assert len({*orders, tuple(range(n))}) == 4


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_steps_use_full_batches_only_and_no_sample_twice_in_a_pass(chunk: int) -> None:
    """Of 22 samples a pass by batches of 5 uses 20: 9 steps are two passes and one batch more."""
    found = drawn(peers(chunk), SGD(0.1, steps=9, batch=5))
    for n, own in zip(SIZES, found, strict=True):
        size, per_pass = min(5, n), n // min(5, n)
        assert [len(b) for b in own] == [size] * 9
        passes = [flat(own[k : k + per_pass]) for k in range(0, 9, per_pass)]
        assert all(len(set(one)) == len(one) for one in passes)
        assert n == 4 or len({tuple(one) for one in passes}) == len(passes)  # four samples have few orders


def test_the_phases_of_a_round_draw_differently() -> None:
    own, local = peers(), SGD(0.1, epochs=1, batch=5)
    found = [drawn(own, local, group=group, purpose=purpose)
             for group, purpose in (("personal", None), ("shared", None), ("all", "third"))]  # fmt: skip
    assert all(found[a][i] != found[b][i] for a, b in ((0, 1), (0, 2), (1, 2)) for i in range(len(SIZES)))


def test_one_purpose_draws_alike_in_a_round() -> None:
    own, local = peers(), SGD(0.1, epochs=1, batch=5)
    assert drawn(own, local, group="personal", purpose="one") == drawn(own, local, group="shared", purpose="one")


def test_rounds_seeds_and_equally_large_peers_draw_differently() -> None:
    local = SGD(0.1, epochs=1, batch=5)
    first, later, other = drawn(peers(), local), drawn(peers(), local, t=1), drawn(peers(seed=1), local)
    for i in range(len(SIZES)):
        assert len({str(one[i]) for one in (first, later, other)}) == 3
    assert first[0] != first[2]


@pytest.mark.parametrize("local", [SGD(0.1, epochs=2, batch=5), SGD(0.1, steps=7, batch=5)], ids=["epochs", "steps"])
def test_a_peer_draws_alike_whoever_is_beside_it(local: SGD) -> None:
    """Alone, among others in any chunk, in a process that hosts only some, or where others sit the round out."""
    expected = drawn(peers(), local, t=3)
    for chunk in (2, 3, 5):
        assert drawn(peers(chunk), local, t=3) == expected
    for ids in ((3, 1), (2,), (4, 0, 3)):
        for chunk in (1, len(ids)):
            assert drawn(peers(chunk, ids), local, t=3) == [expected[i] for i in ids]
    own = peers(5)
    own.begin(3, torch.tensor([True, False, True, False, True]))
    own.train(local)
    found = own.data.take()  # type: ignore[attr-defined]
    assert found == [own if i % 2 == 0 else [] for i, own in enumerate(expected)]
