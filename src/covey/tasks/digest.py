"""A short name for what a run learns from, so that another run is not mistaken for its continuation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Part = Tensor | str | Callable[..., Any]


def digest(*parts: Part) -> str:
    """A hash of numbers, texts and functions (by name and byte code)."""
    whole = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, Tensor):
            whole.update(f"{part.dtype} {tuple(part.shape)}".encode())
            whole.update(part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(part, str):
            whole.update(part.encode())
        else:
            code = getattr(part, "__code__", None)
            whole.update(getattr(part, "__qualname__", repr(type(part))).encode())
            whole.update(b"" if code is None else code.co_code + repr(code.co_consts).split(" at 0x")[0].encode())
        whole.update(b"\0")
    return whole.hexdigest()
