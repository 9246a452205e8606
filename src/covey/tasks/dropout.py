"""Dropout that depends on the peer's key, not on the order of execution.

PyTorch's dropout reads a global generator, so stacking 3 or 30 peers in one call would give other masks. Inside this
mode every dropout of a forward pass draws from (key of the peer and step, number of the dropout in the pass).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from covey.randomness import key, uniform

_ELEMENTWISE: dict[Any, int] = {F.dropout: 0, torch.dropout: 0}
_CHANNELWISE: dict[Any, int] = {F.dropout1d: 1, F.dropout2d: 2, F.dropout3d: 3}


class KeyedDropout(TorchFunctionMode):
    """While active, dropout masks come from `key` (one key, or a batched one under vmap)."""

    def __init__(self, own_key: Tensor) -> None:
        super().__init__()
        self._key, self._calls = own_key, 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func not in _ELEMENTWISE and func not in _CHANNELWISE:
            return func(*args, **kwargs)
        named = dict(zip(("input", "p", "training", "inplace"), args, strict=False)) | kwargs
        x: Tensor = named["input"]
        p, training = float(named.get("p", 0.5)), bool(named.get("training", True))
        if "train" in named:  # the spelling of torch.dropout
            training = bool(named["train"])
        if not training or p == 0.0:
            return x
        spatial = _CHANNELWISE.get(func, 0)
        shape = x.shape[: x.dim() - spatial] + (1,) * spatial
        self._calls += 1
        keep = uniform(key(self._key, self._calls), int(torch.Size(shape).numel())).reshape(shape) >= p
        return x * keep / (1.0 - p)
