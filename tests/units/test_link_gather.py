"""`link.gather`: what each neighbour said, in slots; and what a row knows of its neighbours before anybody speaks.

Row i of W hears j where W[i, j] ≠ 0. Peer 0 hears nobody else, 1 hears 0, 2 hears all, 3 hears 0.
"""

from __future__ import annotations

import torch

from covey.graphs import from_matrix, random_directed
from covey.link import InProcessLink

W = [[0.25, 0, 0, 0], [0.25, 0.5, 0, 0], [0.25, 0.5, 1, 0.5], [0.25, 0, 0, 0.5]]  # columns sum to one
SAID = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]], dtype=torch.float64)


def test_neighbours_lie_ascending_without_oneself_and_empty_slots_are_zero() -> None:
    link = InProcessLink(from_matrix(W))
    got = link.gather(SAID)
    assert got.peers.tolist() == [[-1, -1, -1], [0, -1, -1], [0, 1, 3], [0, -1, -1]]
    assert got.weights.tolist() == [[0, 0, 0], [0.25, 0, 0], [0.25, 0.5, 0.5], [0.25, 0, 0]]
    first = [[0, 0, 0], [1, 0, 0], [1, 2, 4], [1, 0, 0]]
    assert got.rows.tolist() == [[[x, 10 * x] for x in row] for row in first]
    assert got.columns(slice(0, 1)).tolist() == [[[x] for x in row] for row in first]
    assert torch.equal(link.neighbours(), got.peers) and torch.equal(link.weights(), got.weights)


def test_an_empty_slot_holds_nothing_of_anybody() -> None:
    """Not even NaN times zero: who is not heard is not there."""
    said = SAID.clone()
    said[0] = torch.nan
    rows = InProcessLink(from_matrix(W)).gather(said).rows
    assert not bool(rows[0].isnan().any()) and not bool(rows[2, 1:].isnan().any())
    assert bool(rows[1, 0].isnan().all()) and not bool(rows[1, 1:].isnan().any())


def test_the_weight_that_a_row_hears_has_its_own_in_it() -> None:
    """Rows of W: .25, .75, 2.25 and .75."""
    assert InProcessLink(from_matrix(W)).weight_heard().tolist() == [0.25, 0.75, 2.25, 0.75]


def test_slots_are_those_of_the_round() -> None:
    """What was gathered, weighed and added to one's own is the mixture, in every round of a graph that changes."""
    graph = random_directed(6, 2, seed=1)
    link = InProcessLink(graph)
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for t in range(3):
        link.begin(t)
        dense = graph.round(t).weights.dense()
        got = link.gather(x)
        mixed = (got.weights[..., None] * got.rows).sum(1) + dense.diagonal()[:, None] * x
        torch.testing.assert_close(mixed, dense @ x, rtol=0, atol=1e-15)
