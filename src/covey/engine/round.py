"""The order of a round, the same wherever it is played: in a simulation, and by a peer on a network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from covey.algorithms.algorithm import Algorithm
from covey.errors import Diverged
from covey.link import Link
from covey.peers import Peers

Point = Literal["begun", "trained", "mixed"]


def play(algorithm: Algorithm, peers: Peers, link: Link, t: int) -> Iterator[Point]:
    """Round t, which stops at each point so that its player may look."""
    link.begin(t)
    peers.begin(t, link.round.active[peers.ids])
    yield "begun"
    algorithm.train(peers)
    _require_finite(peers, t)
    yield "trained"
    algorithm.exchange(peers, link)
    peers.round = t + 1
    yield "mixed"


def _require_finite(peers: Peers, t: int) -> None:
    for phase, losses in peers.losses.items():
        wrong = (~losses.isfinite() & peers.active).nonzero()[:, 0]
        if len(wrong):
            peer = int(peers.ids[wrong[0]])
            raise Diverged(
                f"The training loss of peer {peer} is {float(losses[wrong[0]])} in round {t + 1} (phase "
                f"'{phase}'); lower the learning rate, or clip the gradient (clip=10)."
            )
