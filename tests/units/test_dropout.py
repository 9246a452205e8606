"""Dropout keyed by peer and step. A loss of Σ mask · w / (1 − p) has the mask itself as its gradient."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import covey
from covey import SGD, Task
from covey.peers import Peers
from covey.training.pace import Pace

WIDTH, P, N = 64, 0.25, 3
KEPT = 1 / (1 - P)
STEP = SGD(1.0, steps=1)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Parameter(torch.zeros(WIDTH, dtype=torch.float64))
        self.head = nn.Parameter(torch.zeros(WIDTH, dtype=torch.float64))
        self.drop = nn.Dropout(P)

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :1] * self.drop(self.body + self.head)


def peers(chunk: int = 1) -> Peers:
    one = torch.ones(1, 1, dtype=torch.float64)
    data = covey.data.from_peers([(one, one, one, one)] * N)
    task = Task.from_module(Masked(), data, "head", loss=lambda p, y: p.sum())
    return Peers(task, torch.arange(N), N, seed=5, pace=Pace.fixed(chunk))


def masks(own: Peers, local: SGD = STEP, group: str = "shared", t: int = 0) -> Tensor:
    """What was kept, over all steps of a phase from zero: [peers, width]."""
    own.rows = torch.zeros_like(own.rows)
    own.begin(t, own.active)
    own.train(local, group)  # type: ignore[arg-type]
    return -(own.shared if group == "shared" else own.personal) / KEPT


@pytest.mark.parametrize("chunk", [1, N])
def test_every_step_of_a_round_has_a_mask_of_its_own(chunk: int) -> None:
    own = peers(chunk)
    sums = [masks(own, replace(STEP, steps=k)) for k in range(4)]
    for one, two, three in zip(*(after - before for before, after in pairwise(sums)), strict=True):
        assert {*one.tolist(), *two.tolist(), *three.tolist()} == {0.0, 1.0}
        assert not torch.equal(one, two) and not torch.equal(two, three) and not torch.equal(one, three)


def test_masks_differ_between_peers_rounds_and_phases_and_keep_the_right_share() -> None:
    own = peers(N)
    found = [masks(own), masks(own, t=1), masks(own, group="personal")]
    every = torch.cat(found)
    assert len(every.unique(dim=0)) == 3 * N
    assert float(every.mean()) == pytest.approx(1 - P, abs=4 * (P * (1 - P) / every.numel()) ** 0.5)


def test_the_second_look_of_sam_has_the_mask_of_the_first() -> None:
    assert torch.equal(masks(peers(), replace(STEP, sam=0.5)), masks(peers()))


def test_masks_do_not_depend_on_the_chunk() -> None:
    assert torch.equal(masks(peers(1)), masks(peers(N)))
