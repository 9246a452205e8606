"""Frames in pieces, against byte literals, and whatever a stranger sends instead."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.network import pieces as module
from covey.network.pieces import PIECE, Assembler, Unfit, pieces


def test_bytes_of_a_small_frame() -> None:
    assert list(pieces([b"co", memoryview(b"vey")])) == [b"\x05\0\0\0\0\0\0\0covey"]
    taken = Assembler(5).take(b"\x05\0\0\0\0\0\0\0covey")
    assert taken is not None and bytes(taken) == b"covey"


def test_bytes_of_a_large_frame() -> None:
    first, second = pieces([bytes(PIECE), b"end"])
    assert first == (PIECE + 3).to_bytes(8, "little") + bytes(PIECE) and second == b"end"


@settings(max_examples=200, deadline=None)
@given(cuts=st.lists(st.binary(max_size=40), min_size=1, max_size=8), unit=st.integers(1, 16))
def test_there_and_back(cuts: list[bytes], unit: int) -> None:
    """Whatever the parts and the size of a piece: no piece is longer than allowed, and the frame comes back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", unit)
        whole = b"".join(cuts)
        said = list(pieces([memoryview(part) for part in cuts]))
        assert b"".join(said) == len(whole).to_bytes(8, "little") + whole
        assert all(len(one) <= unit + 8 for one in said[:1]) and all(len(one) <= unit for one in said[1:])
        if whole:
            gatherer = Assembler(len(whole))
            taken = [gatherer.take(one) for one in said]
            last = taken.pop()
            assert last is not None and bytes(last) == whole and set(taken) <= {None}


@pytest.mark.parametrize("piece", [b"", b"\x05\0\0\0\0\0\0", bytes(8), b"\x05\0\0\0\0\0\0\0cove",
                                   b"\xff" * 8 + b"x", b"\x05\0\0\0\0\0\0\0coveys",
                                   (1001).to_bytes(8, "little") + bytes(1001)])  # fmt: skip
def test_unfit(piece: bytes) -> None:
    with pytest.raises(Unfit):
        Assembler(1000).take(piece)


def test_crumbs_are_unfit() -> None:
    """A sender that says a byte at a time makes work for nothing."""
    gatherer = Assembler(4 * PIECE)
    assert gatherer.take((3 * PIECE).to_bytes(8, "little") + bytes(PIECE)) is None
    with pytest.raises(Unfit):
        gatherer.take(b"x")


def test_memory_grows_with_what_arrives_and_not_with_what_is_announced() -> None:
    gatherer = Assembler(1 << 40)
    assert gatherer.take((1 << 39).to_bytes(8, "little") + bytes(PIECE)) is None
    assert gatherer._frame is not None and len(gatherer._frame) == PIECE
