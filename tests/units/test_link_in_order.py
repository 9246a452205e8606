"""`exact`: messages are added in the order of their senders, so that a peer on a network gets the same bits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from covey.graphs import Graph, full, random_directed, ring
from covey.link import InProcessLink

N, WIDTH = 12, 40


def said(t: int) -> Tensor:
    """Numbers of very unlike size, so that another order of the same sum has other bits."""
    generator = torch.Generator().manual_seed(t)
    return torch.randn(N, WIDTH, generator=generator) * 10 ** torch.randint(-3, 4, (N, WIDTH), generator=generator)


def heard(graph: Graph, t: int, i: int, own: bool) -> Tensor:
    """What arrives at peer i in round t, one sender after the other; a product and a sum are rounded apart."""
    W, x = graph.round(t).weights.dense(), said(t)
    total = torch.zeros(WIDTH)
    for j in range(N):
        if float(W[i, j]) != 0 and (own or j != i):
            total = total + W[i, j].float() * x[j]
    return total


GRAPHS = {"ring": ring(N), "full": full(N), "directed": random_directed(N, 5, seed=3)}
every = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


@every
def test_an_exact_mix_adds_in_the_order_of_the_senders(graph: Graph) -> None:
    link = InProcessLink(graph, exact=True)
    for t in range(2):
        link.begin(t)
        found = link.mix(said(t))
        for i in range(N):
            assert torch.equal(found[i], heard(graph, t, i, own=True))


@every
def test_an_exact_mix_that_overlaps_adds_late_messages_in_the_order_of_the_senders(graph: Graph) -> None:
    """Own share now; what the others say arrives one round later, already added up, and is added to it."""
    link = InProcessLink(graph, exact=True)
    for t in range(4):
        link.begin(t)
        found = link.mix(said(t), carry=True, wait=t == 3)
        own = graph.round(t).weights.dense().diagonal().float()
        for i in range(N):
            expected = heard(graph, t, i, own=True) if t == 3 else own[i] * said(t)[i]
            assert torch.equal(found[i], expected + heard(graph, t - 1, i, own=False) if t else expected)
    assert not link.in_flight
