"""Bits, counted by hand (docs/papers.md, 3.6). A float64 number takes 32 bits by the formula, 64 as it is encoded."""

from __future__ import annotations

import pytest
import torch

from covey.compress import Message
from covey.graphs import Graph, from_matrix, full, ring, server
from covey.link import InProcessLink
from covey.traffic import Traffic

# column j is what j says to whom: 0 → 1, 2, 3; 1 → 2; 2 → 2 only, which is nobody else; 3 → 2
STAR = from_matrix([[0.25, 0, 0, 0], [0.25, 0.5, 0, 0], [0.25, 0.5, 1, 0.5], [0.25, 0, 0, 0.5]])


def rows(width: int, peers: int = 4, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.ones(peers, width, dtype=dtype)


def count(graph: Graph, *things: torch.Tensor | Message, rounds: int = 1) -> Traffic:
    link = InProcessLink(graph)
    for t in range(rounds):
        link.begin(t)
        link.mix(*things)  # type: ignore[call-overload]
    return link.traffic


def test_bits_of_unequal_senders() -> None:
    """5 numbers a message: 160 bits by the formula. Three peers say something; five copies go over links. Peer 0 sends
    three; peer 2 hears three and sends none; 1 and 3 send one and hear one."""
    found = count(STAR, rows(5))
    assert (found.formula.broadcast, found.formula.links) == (3 * 160, 5 * 160)
    assert (found.encoded.broadcast, found.encoded.links) == (3 * 320, 5 * 320)
    assert found.busiest == 3 * 160


def test_the_busiest_is_charged_for_what_it_hears() -> None:
    """Messages of 10, 20, 30 and 70 bits: peer 0 sends 30 bits; 1 sends 20 and hears 10; 2 hears 10 + 20 + 70; 3 sends
    70 and hears 10."""
    own = torch.tensor([10.0, 20, 30, 70], dtype=torch.float64)
    found = count(STAR, Message(rows(5), own, 3 * own))
    assert (found.formula.broadcast, found.formula.links) == (10 + 20 + 70, 3 * 10 + 20 + 70)
    assert (found.encoded.broadcast, found.encoded.links) == (300, 360)
    assert found.busiest == 100


@pytest.mark.parametrize(("graph", "others"), [(ring(4), 2), (full(4), 3)], ids=["ring", "full"])
def test_bits_of_alike_peers(graph: Graph, others: int) -> None:
    """Each says 5 numbers once, to so many others, and hears as many; things mixed together are one message."""
    found = count(graph, rows(4), rows(1), rounds=3)
    assert (found.formula.broadcast, found.formula.links) == (3 * 4 * 160, 3 * 4 * others * 160)
    assert (found.encoded.broadcast, found.encoded.links) == (3 * 4 * 320, 3 * 4 * others * 320)
    assert found.busiest == 2 * others * 160


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float64, 64), (torch.float32, 32), (torch.bfloat16, 16)])
def test_encoded_numbers_take_what_their_type_takes(dtype: torch.dtype, bits: int) -> None:
    found = count(ring(4), rows(5, dtype=dtype))
    assert (found.encoded.broadcast, found.encoded.links) == (4 * 5 * bits, 8 * 5 * bits)
    assert found.formula.broadcast == 4 * 5 * 32


def test_the_exchanges_of_one_round_add_up_and_a_new_round_begins_at_nothing() -> None:
    """On the ring a message of one number costs a peer 2 · 32 bits sent and 2 · 32 heard."""
    link = InProcessLink(ring(4))
    for t, widths in enumerate([(1,), (2, 3), (4,)]):
        link.begin(t)
        for width in widths:
            link.mix(rows(width))
    assert link.traffic.busiest == 5 * 128
    assert link.traffic.formula.links == (1 + 5 + 4) * 4 * 2 * 32


def test_gathering_costs_what_mixing_costs() -> None:
    link = InProcessLink(STAR)
    link.gather(rows(5))
    assert link.traffic.as_dict() == count(STAR, rows(5)).as_dict()


@pytest.mark.parametrize("asked", [1, 3, 4])
def test_a_server_is_charged_for_the_way_up_and_the_way_down(asked: int) -> None:
    """5 float32 numbers: each of those asked sends 160 bits and is answered 160; over the air the answer is one
    message. The server's own load is all of it."""
    found = count(server(4, asked, seed=1), rows(5, dtype=torch.float32))
    for bits in (found.formula, found.encoded):
        assert (bits.broadcast, bits.links) == (asked * 160 + 160, 2 * asked * 160)
    assert found.busiest == 2 * asked * 160


def test_a_server_answers_in_full_however_short_the_messages_are() -> None:
    """7 bits up by the formula, 9 as encoded; 5 numbers of 32 bits down."""
    short = torch.full((4,), 7.0, dtype=torch.float64)
    found = count(server(4, 3, seed=1), Message(rows(5, dtype=torch.float32), short, short + 2))
    assert (found.formula.broadcast, found.formula.links) == (3 * 7 + 160, 3 * 7 + 3 * 160)
    assert (found.encoded.broadcast, found.encoded.links) == (3 * 9 + 160, 3 * 9 + 3 * 160)
    assert found.busiest == 3 * 7 + 3 * 160


def test_a_server_answers_in_the_type_of_the_rows() -> None:
    found = count(server(4, 3, seed=1), rows(5))
    assert (found.encoded.broadcast, found.encoded.links) == (3 * 320 + 320, 6 * 320)
