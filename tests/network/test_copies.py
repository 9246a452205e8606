"""Public copies of a peer that went back to an older disk, or lost it: said again as a whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from covey import SGD, compress, graphs
from covey import algorithms as a
from network.coveys import names, play
from network.test_crashes import POINTS, task

METHOD = a.CHOCO(SGD(0.1, steps=1), compress.TopK(1), 0.4)


@pytest.mark.parametrize("lost", ["an older disk", "no disk"])
def test_copies_agree_again_after_a_peer_went_back(lost: str, tmp_path: Path) -> None:
    graph, victim = graphs.ring(len(POINTS)), names(len(POINTS))[1]
    play(METHOD, task, graph, 4, tmp_path, evaluate_every=4)
    shutil.copytree(tmp_path / victim, tmp_path / "old")
    play(METHOD, task, graph, 8, tmp_path, evaluate_every=8)
    shutil.rmtree(tmp_path / victim)
    if lost == "an older disk":
        shutil.copytree(tmp_path / "old", tmp_path / victim)
    runs = play(METHOD, task, graph, 12, tmp_path, evaluate_every=12, steadfast=0.2)
    hats = torch.cat([run.peers.state["hat"] for run in runs])
    sums = torch.cat([run.peers.state["sum"] for run in runs])
    assert (sums - graph.round(0).weights.dense() @ hats).abs().max() < 1e-12
