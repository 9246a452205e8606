"""What a row says, as bytes, and back: the same numbers to the bit, and nothing that no sender wrote."""

from __future__ import annotations

import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covey import compress
from covey.compress import Compressor, Message
from covey.compress.payload import Damaged
from covey.network.codec import decode_row, encode_row

WIDTH = 40
TENSORS = [slice(0, 24), slice(24, 40)]
X = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
KEYS = torch.tensor([5])
COMPRESSORS = (
    compress.Identity(), compress.Sign(), compress.QSGD(15), compress.TopK(0.2), compress.RandK(0.2),
    compress.SignTopK(0.2), compress.QTopK(0.2),
)  # fmt: skip


def said(compressor: Compressor, x: torch.Tensor, *send: bool) -> Message:
    return compressor(x, KEYS, tensors=TENSORS, send=torch.tensor([send or (True, True)]))


def blob(*messages: Message) -> bytes:
    return b"".join(encode_row(messages))


def test_raw_numbers_are_these_bytes() -> None:
    message = Message.of(torch.tensor([[1.0, -2.0]]))
    assert blob(message) == bytes.fromhex("01 0800000000000000 0000803f 000000c0")
    assert blob(said(compress.TopK(0.2), X, False, False)) == bytes(9)  # silence


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("send", [(True, True), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_receivers_add_the_numbers_that_the_sender_adds(
    compressor: Compressor, send: tuple[bool, bool], dtype: torch.dtype
) -> None:
    message, like = said(compressor, X.to(dtype), *send), said(compressor, Y.to(dtype))
    raw = Message.of(X[:, :3].to(dtype))
    found = decode_row(blob(message, raw), [like, Message.of(Y[:, :3].to(dtype))])
    assert found[0] is not None and found[1] is not None
    assert torch.equal(found[0].dense, message.dense) and found[0].dense.dtype is dtype
    assert torch.equal(found[1].dense, raw.dense)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=lambda one: type(one).__name__)
def test_a_silent_receiver_understands_and_silence_is_understood(compressor: Compressor) -> None:
    silent, speaking = said(compressor, X, False, False), said(compressor, Y)
    found = decode_row(blob(speaking), [silent])[0]
    assert found is not None and torch.equal(found.dense, speaking.dense)
    assert decode_row(blob(silent), [speaking]) == [None]


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=lambda one: type(one).__name__)
def test_the_bytes_are_those_that_are_counted(compressor: Compressor) -> None:
    for send in ((True, True), (True, False), (False, False)):
        message = said(compressor, X, *send).told(2)
        flags = 1 if send == (True, True) else 0  # the ledger counts a byte of flags; all at once needs none
        assert len(blob(message)) == int(message.encoded[0]) // 8 - flags + 9


def test_what_no_sender_wrote_is_refused() -> None:
    like = said(compress.TopK(0.2), Y)
    good = blob(said(compress.TopK(0.2), X, True, False))
    raw = Message.of(Y)
    nan = struct.pack("<BQ", 1, 8 * WIDTH) + struct.pack("<d", float("nan")) * WIDTH
    for wrong, template in (
        (good[:-1], like), (good + b"\0", like), (b"\3" + good[1:], like), (b"", like),
        (good[:9] + b"\0" + good[10:], like),  # flags: nothing is said
        (good[:9] + b"\3" + good[10:], like),  # flags: all is said
        (good[:9] + b"\5" + good[10:], like),  # flags: of a tensor that does not exist
        (bytes(9), raw),  # a raw thing is never silent
        (nan, raw), (blob(Message.of(Y[:, :-1])), raw), (blob(Message.of(Y.float())), raw),
        (struct.pack("<BQ", 1, 1 << 60), raw),  # more than there is
    ):  # fmt: skip
        with pytest.raises(Damaged):
            decode_row(wrong, [template])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(COMPRESSORS), st.data())
def test_a_damaged_body_is_refused_or_finite(compressor: Compressor, data: st.DataObject) -> None:
    body = bytearray(blob(said(compressor, X, True, data.draw(st.booleans()))))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_row(bytes(body), [said(compressor, Y)])[0]
    except Damaged:
        return
    assert found is None or (found.dense.shape == (1, WIDTH) and bool(found.dense.isfinite().all()))
