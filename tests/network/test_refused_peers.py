"""What a real peer refuses before anything of it is on the disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from covey import SGD, BadInput, compress, graphs
from covey import algorithms as a
from covey.exchange import Compressed, CompressedPush
from network.coveys import play
from network.test_crashes import task

HOW, STEP = compress.TopK(1), SGD(0.1, steps=1)
AUTO = {
    "CHOCO": a.CHOCO(STEP, HOW),
    "SQuARM": a.SQuARM(STEP, HOW),
    "DFedAvg": a.DFedAvg(STEP, by=Compressed(HOW)),
    "SGP": a.SGP(STEP, by=CompressedPush(HOW)),
}


@pytest.mark.parametrize("name", AUTO)
def test_a_step_that_all_must_change_in_the_same_round(name: str, tmp_path: Path) -> None:
    """A lost flag would leave peers with unlike γ, and the mean would move."""
    with pytest.raises(BadInput, match=rf"^{name} has gamma='auto', .*; between real peers give a number, such as"):
        play(AUTO[name], task, graphs.ring(4), 1, tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_step_that_is_the_same_everywhere(tmp_path: Path) -> None:
    """Numbers, and rules that see the compressor and the graph alone."""
    for gamma in (0.4, "usual", "theory"):
        [run, *others] = play(replace(AUTO["CHOCO"], gamma=gamma), task, graphs.ring(4), 1, tmp_path / str(gamma))
        assert all(other.peers.state["gamma"] == run.peers.state["gamma"] for other in others)
