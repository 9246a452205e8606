"""Mixing of sparse messages against the product with W, on weights of which no two are alike."""

from __future__ import annotations

import pytest
import torch

from covey import compress, graphs
from covey.compress import Message, Sparse
from covey.graphs import Graph, from_matrix
from covey.link import InProcessLink
from covey.randomness import key
from covey.sparse_mixing import mix_sparse

N, D = 7, 40
ODD = torch.rand(N, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ODD = (ODD * (ODD > 0.4)).fill_diagonal_(0.9)
ODD[3] = torch.eye(N, dtype=torch.float64)[3]  # hears nobody
GRAPHS: dict[str, Graph] = {
    "odd weights": from_matrix(ODD / ODD.sum(0)), "erdos_renyi": graphs.erdos_renyi(N, 0.4, seed=3),
    "full": graphs.full(N), "ring": graphs.ring(N),
}  # fmt: skip


def message(silent: tuple[int, ...] = ()) -> Message:
    x = torch.randn(N, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    send = torch.tensor([row not in silent for row in range(N)])
    return compress.TopK(0.2)(x, key("mix", torch.arange(N)), send=send)


@pytest.mark.parametrize("silent", [(), (0, 4), tuple(range(N))], ids=["all speak", "two are silent", "nobody speaks"])
@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_the_product(name: str, silent: tuple[int, ...]) -> None:
    graph, said = GRAPHS[name], message(silent)
    assert isinstance(said.content, Sparse) and len(said.content.who) == N - len(silent)
    W = graph.round(0).weights.dense()
    expected = torch.stack(
        [sum((W[i, j] * said.dense[j] for j in range(N)), torch.zeros(D).double()) for i in range(N)]
    )
    before = torch.randn(N, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    total = before.clone()
    assert mix_sparse(graph.round(0).weights, said.content, total) is total  # in place
    torch.testing.assert_close(total, before + expected, rtol=0, atol=1e-14)
    assert float(expected.abs().max()) > 0.1 or len(silent) == N

    link = InProcessLink(graph)
    mixed = link.mix(said)
    torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-14)
    first, second = link.mix(said, torch.ones(N, 1, dtype=torch.float64), onto=total)
    assert first is total
    torch.testing.assert_close(total, before + 2 * expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(second[:, 0], W.sum(1), rtol=0, atol=1e-14)


def test_a_peer_by_itself_adds_the_same_bits() -> None:
    """Senders ascending, product and sum rounded apart: what a peer on a network does with what it hears."""
    graph, said = GRAPHS["odd weights"], message((2,))
    assert isinstance(said.content, Sparse)
    weights = graph.round(0).weights
    together = mix_sparse(weights, said.content, torch.zeros(N, D, dtype=torch.float64))
    W = weights.dense()
    for i in range(N):
        own = torch.zeros(D, dtype=torch.float64)
        for j in range(N):
            if W[i, j] != 0:
                own += W[i, j] * said.dense[j]
        assert torch.equal(own, together[i])


def test_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    said, weights = message(), GRAPHS["odd weights"].round(0).weights
    assert isinstance(said.content, Sparse)
    whole = mix_sparse(weights, said.content, torch.zeros(N, D, dtype=torch.float64))
    monkeypatch.setattr("covey.sparse_mixing._PAIRS", 20)
    assert torch.equal(mix_sparse(weights, said.content, torch.zeros(N, D, dtype=torch.float64)), whole)
