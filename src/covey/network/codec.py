"""What one row says in one exchange, as bytes: each thing a mode, a length, and its payload.

    mode 0  silence; no payload
    mode 1  everything: the numbers as they are, little-endian; of a compressed message its forms, one after another
    mode 2  some tensors: a bit for each, filled up to bytes, 1 for said; then the forms of those

The forms' bytes are those of `covey.compress.payload`. A receiver knows beforehand what is said (the kinds, shapes and
types of its own message of the same call), so the body says none of it, and whatever does not fit is refused before
memory is taken. Sender and receivers add identical numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from covey.compress import Message, Sparse
from covey.compress.compressor import content_of
from covey.compress.payload import Damaged, decode_all, encode

_THING = struct.Struct("<BQ")
_SILENT, _ALL, _SOME = 0, 1, 2


def encode_row(messages: Sequence[Message]) -> list[bytes | memoryview]:
    """The parts of a body: what the only row of these messages says. Numbers that are said as they are are not
    copied."""
    parts: list[bytes | memoryview] = []
    for message in messages:
        mode, payload = _payload(message)
        parts += [_THING.pack(mode, sum(len(part) for part in payload)), *payload]
    return parts


def _payload(message: Message) -> tuple[int, list[bytes | memoryview]]:
    if message.forms is None:
        return _ALL, [_raw(message.dense[0])]
    said = [True] * len(message.forms) if message.said is None else message.said[0].tolist()
    if not any(said):
        return _SILENT, []
    forms = [encode(form, 0) for form, speaks in zip(message.forms, said, strict=True) if speaks]
    if all(said):
        return _ALL, list(forms)
    return _SOME, [np.packbits(said, bitorder="little").tobytes(), *forms]


def decode_row(body: bytes | memoryview, like: Sequence[Message]) -> list[Message | None]:
    """What the body says, None for silence; `like` are one's own messages of the same call. Damaged where nobody has
    written it."""
    view, at, out = memoryview(body), 0, list[Message | None]()
    for template in like:
        if len(view) - at < _THING.size:
            raise Damaged("a thing without its mode and length")
        mode, length = _THING.unpack_from(view, at)
        at += _THING.size
        if length > len(view) - at:
            raise Damaged(f"{length - (len(view) - at)} bytes missing")
        out.append(_thing(mode, view[at : at + length], template))
        at += length
    if at != len(view):
        raise Damaged(f"{len(view) - at} bytes after the last thing")
    return out


def _thing(mode: int, payload: memoryview, like: Message) -> Message | None:
    if mode == _SILENT and like.forms is not None:
        if len(payload):
            raise Damaged("a silence that says something")
        return None
    if mode == _ALL and like.forms is None:
        return Message.of(_numbers(payload, like.dense))
    if mode not in (_ALL, _SOME) or like.forms is None:
        raise Damaged(f"an unknown mode {mode}")
    said = [True] * len(like.forms)
    if mode == _SOME:
        flags = (len(said) + 7) // 8
        bits = np.unpackbits(np.frombuffer(payload[:flags], dtype=np.uint8), bitorder="little")
        told = int(bits[: len(said)].sum())
        if len(payload) < flags or bits[len(said) :].any() or not 0 < told < len(said):
            raise Damaged("flags that no sender writes")
        said, payload = bits[: len(said)].astype(bool).tolist(), payload[flags:]
    chosen = [i for i, speaks in enumerate(said) if speaks]
    forms = tuple(decode_all(bytes(payload), [like.forms[i] for i in chosen]))
    tensors = [like.tensors[i] for i in chosen]
    one, true = torch.zeros(1, dtype=torch.int64), torch.ones(1, len(chosen), dtype=torch.bool)
    content = content_of(forms, tensors, one, true, _shape_of(like))
    if not isinstance(content, Sparse) and len(chosen) < len(said):
        whole = content.new_zeros(1, like.width)
        for part, value in zip(tensors, content.split([t.stop - t.start for t in tensors], 1), strict=True):
            whole[:, part] = value
        content = whole
    bits = torch.zeros(1, dtype=torch.float64)
    return Message(content, bits, bits)


def _shape_of(like: Message) -> Tensor:
    """A tensor of the width and type of a message, without its memory."""
    content = like.content
    kind = content.value if isinstance(content, Sparse) else content
    return kind.new_zeros(1, 1).expand(1, like.width)


def _raw(row: Tensor) -> memoryview:
    numbers = row.detach().cpu().contiguous()
    return numbers.reshape(-1).view(torch.uint8).numpy().data


def _numbers(payload: memoryview, like: Tensor) -> Tensor:
    if len(payload) != like[0].numel() * like.element_size():
        raise Damaged(f"{len(payload)} bytes where {like[0].numel() * like.element_size()} are due")
    values = torch.from_numpy(np.frombuffer(payload, dtype=np.uint8).copy()).view(like.dtype)
    if not bool(values.isfinite().all()):
        raise Damaged("a number that is not finite")
    return values.view(like.shape).to(like.device)
