"""ResNet-18 for small pictures, with GroupNorm in the place of BatchNorm.

He et al., CVPR 2016, as the personalised federated papers use it (DFedAlt, DFedPGP; the norm after Hsieh et al., ICML
2020): a 3×3 stem of stride 1 and no max-pooling, every norm, those of the shortcuts too, in 32 groups. The norms are
part of the body; only the last linear layer is the head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn


class ResNet18(nn.Module):
    """See `resnet18`."""

    def __init__(self, channels: int, classes: int, widths: Sequence[int], groups: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv3(channels, widths[0], 1), _norm(widths[0], groups), nn.ReLU())
        blocks: list[nn.Module] = []
        before = widths[0]
        for stage, width in enumerate(widths):
            blocks += [_Block(before, width, 1 if stage == 0 else 2, groups), _Block(width, width, 1, groups)]
            before = width
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


class _Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut, which has a 1×1 convolution where the shape changes."""

    def __init__(self, before: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv3(before, width, stride), _norm(width, groups)
        self.conv2, self.norm2 = _conv3(width, width, 1), _norm(width, groups)
        self.relu = nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride=stride, bias=False), _norm(width, groups))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def _conv3(before: int, width: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False)


def _norm(width: int, groups: int) -> nn.GroupNorm:
    """In `groups` groups, or the most that divide a narrower layer."""
    return nn.GroupNorm(math.gcd(groups, width), width)


def resnet18(
    in_shape: int | Sequence[int] = 3,
    classes: int = 10,
    widths: Sequence[int] = (64, 128, 256, 512),
    groups: int = 32,
) -> ResNet18:
    """11 173 962 parameters for colour pictures in ten classes; smaller `widths` give a small one of the same depth."""
    return ResNet18(in_shape if isinstance(in_shape, int) else in_shape[0], classes, widths, groups)
