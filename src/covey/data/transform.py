"""What turns stored samples into the numbers that a model takes, a batch at a time and where the batch lies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Images:
    """Stored pixels 0 … `top` -> (pixel / top - mean) / std, float32 [..., C, H, W].

    `layout` is how one stored image lies: "hw" (grey), "hwc" or "chw". mean and std hold a number per channel, or one.
    """

    layout: Literal["hw", "hwc", "chw"]
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    top: float = 255.0

    def __call__(self, x: Tensor) -> Tensor:
        if self.layout == "hw":
            x = x.unsqueeze(-3)
        elif self.layout == "hwc":
            x = x.movedim(-1, -3)
        x = x.to(torch.float32, memory_format=torch.contiguous_format)
        scale = tuple(1.0 / (self.top * s) for s in self.std)
        shift = tuple(m / s for m, s in zip(self.mean, self.std, strict=True))
        if len(scale) == 1:
            return x.mul_(scale[0]).sub_(shift[0])
        return x.mul_(_per_channel(scale, x.device)).sub_(_per_channel(shift, x.device))


@dataclass(frozen=True)
class Tokens:
    """Stored characters or words, as small integers -> the int64 that an embedding takes."""

    def __call__(self, x: Tensor) -> Tensor:
        return x.long()


@lru_cache(maxsize=64)
def _per_channel(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Kept on the device: a copy from the host for each batch would stop a CUDA graph."""
    return torch.tensor(values, dtype=torch.float32, device=device)[:, None, None]


def guess_transform(x: Tensor) -> Images | None:
    """For pictures of bytes, [N, H, W], [N, H, W, C] or [N, C, H, W]: pixel / 255. For all else: nothing."""
    if x.dtype != torch.uint8 or x.ndim not in (3, 4):
        return None
    if x.ndim == 3:
        return Images("hw")
    return Images("hwc" if x.shape[-1] in (1, 3, 4) else "chw")
