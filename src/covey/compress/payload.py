"""The bytes of a form, and the form of the bytes; both ends know the form's kind and shape beforehand.

Chosen     one byte (0 bitmap, 1 fixed width, 2 … Rice with 2 + low bits), the positions, then the inner form
Floats     the numbers, little-endian
Signs      the scale, then a bit per number, 1 for negative
Levels     the norm, then the sign bits, then the levels of a fixed number of bits, the lowest bit first

Rice code of the gaps between positions (the first counted from −1, each less one): all low bits first, then for each
gap its high part in unary (so many zeros, then a one). Bits fill bytes from the lowest bit; each group of bits is
filled up to whole bytes. Whatever is too short, too long, or says what cannot be, is refused before memory is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from covey.compress.forms import Chosen, Floats, Form, Levels, Signs, in_bytes, index_sizes, rice_bits

_RICE = 2


class Damaged(ValueError):
    """Bytes that no sender has written."""


def encode(form: Form, row: int) -> bytes:
    """What one row says."""
    if isinstance(form, Chosen):
        return _encode_index(form.index[row], form.width) + encode(form.inner, row)
    if isinstance(form, Floats):
        return _numbers(form.value[row])
    if isinstance(form, Signs):
        return _numbers(form.scale[row]) + _pack(form.negative[row].cpu().numpy())
    levels = form.level[row].cpu().numpy().astype(np.int64)
    return _numbers(form.norm[row]) + _pack(form.negative[row].cpu().numpy()) + _pack(_low_bits(levels, form.bits))


def decode(blob: bytes, like: Form) -> Form:
    """The form of one row; `like` is a form of the same kind and width (its numbers are not looked at)."""
    return decode_all(blob, [like])[0]


def decode_all(blob: bytes, likes: Sequence[Form]) -> list[Form]:
    """The forms of one row whose bytes lie one after another."""
    reader = _Reader(blob)
    forms = [reader.form(like) for like in likes]
    reader.finish()
    return forms


class _Reader:
    def __init__(self, blob: bytes) -> None:
        self._blob, self._at = blob, 0

    def form(self, like: Form) -> Form:
        if isinstance(like, Chosen):
            k = like.index.shape[1]
            index = self._index(k, like.width)
            inner = self.form(like.inner)
            assert not isinstance(inner, Chosen)
            return Chosen(index[None], inner, like.width)
        if isinstance(like, Floats):
            return Floats(self._numbers(like.value.shape[1], like.value.dtype))
        if isinstance(like, Signs):
            return Signs(self._magnitude(like.scale.dtype), self._bits(like.negative.shape[1])[None])
        norm, d = self._magnitude(like.norm.dtype), like.level.shape[1]
        negative = self._bits(d)[None]
        level = self._bits(d * like.bits).view(d, like.bits).long() @ (1 << torch.arange(like.bits))
        if d and int(level.max()) > like.s:
            raise Damaged(f"a level of {int(level.max())} where {like.s} is the highest")
        return Levels(norm, negative, level.to(like.level.dtype)[None], like.s, like.beta)

    def finish(self) -> None:
        if self._at != len(self._blob):
            raise Damaged(f"{len(self._blob) - self._at} bytes too many")

    def _take(self, count: int) -> bytes:
        if self._at + count > len(self._blob):
            raise Damaged(f"{self._at + count - len(self._blob)} bytes missing")
        part = self._blob[self._at : self._at + count]
        self._at += count
        return part

    def _numbers(self, count: int, dtype: torch.dtype) -> Tensor:
        raw = self._take(count * dtype.itemsize)
        values = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0, dtype=dtype)
        if not bool(values.isfinite().all()):
            raise Damaged("a number that is not finite")
        return values[None]

    def _magnitude(self, dtype: torch.dtype) -> Tensor:
        value = self._numbers(1, dtype)
        if bool(value.signbit().any()):
            raise Damaged(f"a magnitude of {float(value)}")
        return value

    def _bits(self, count: int) -> Tensor:
        bits = np.unpackbits(np.frombuffer(self._take(in_bytes(count)), dtype=np.uint8), bitorder="little")
        if bits[count:].any():
            raise Damaged("bits behind the last one")
        return torch.from_numpy(bits[:count].astype(bool))

    def _index(self, k: int, width: int) -> Tensor:
        code = self._take(1)[0]
        if code == 0:
            index = self._bits(width).nonzero()[:, 0]
        elif code == 1:
            fixed = max(1, math.ceil(math.log2(width)))
            index = self._bits(k * fixed).view(k, fixed).long() @ (1 << torch.arange(fixed))
        else:
            low = code - _RICE
            if low > 32:
                raise Damaged(f"an unknown code {code} of positions")
            lows = self._bits(k * low).view(k, low).long() @ (1 << torch.arange(low)) if low else torch.zeros(k).long()
            index = torch.cumsum(((self._unary(k, width >> low) << low) | lows) + 1, 0) - 1
        ascending = len(index) == k and (k < 2 or bool((index.diff() > 0).all()))
        if not ascending or (k and not (int(index[0]) >= 0 and int(index[-1]) < width)):
            raise Damaged(f"positions that are not {k} ascending ones among {width}")
        return index

    def _unary(self, k: int, most: int) -> Tensor:
        """k numbers, together at most `most`, each as so many zeros and a one."""
        rest = np.frombuffer(self._blob[self._at : self._at + in_bytes(k + most)], dtype=np.uint8)
        ends = np.flatnonzero(np.unpackbits(rest, bitorder="little"))
        if len(ends) < k:
            raise Damaged("positions that do not end")
        used = in_bytes(int(ends[k - 1]) + 1)
        if len(ends) > k and ends[k] < 8 * used:
            raise Damaged("bits behind the last position")
        self._take(used)
        return torch.from_numpy(np.diff(ends[:k], prepend=-1) - 1)


def _encode_index(index: Tensor, width: int) -> bytes:
    sizes = [float(size) for size in index_sizes(index[None], width)]
    best, k = sizes.index(min(sizes)), len(index)
    positions = index.cpu().numpy()
    if best == 0:
        bitmap = np.zeros(width, dtype=bool)
        bitmap[positions] = True
        return b"\0" + _pack(bitmap)
    if best == 1:
        return b"\1" + _pack(_low_bits(positions, max(1, math.ceil(math.log2(width)))))
    low = rice_bits(k, width)[best - 2]
    gaps = np.diff(positions, prepend=-1) - 1
    unary = np.zeros(int((gaps >> low).sum()) + k, dtype=bool)
    unary[np.cumsum((gaps >> low) + 1) - 1] = True
    return bytes([_RICE + low]) + _pack(_low_bits(gaps, low)) + _pack(unary)


def _low_bits(values: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    return ((values[:, None] >> np.arange(count)) & 1).astype(bool).reshape(-1)


def _pack(bits: np.ndarray[Any, Any]) -> bytes:
    return np.packbits(bits, bitorder="little").tobytes()


def _numbers(values: Tensor) -> bytes:
    return values.detach().cpu().contiguous().numpy().tobytes()
