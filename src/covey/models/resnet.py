"""Residual networks: ResNet-18 and ResNet-50, and the ResNet-20 for CIFAR.

    block(x) = relu(F(x) + shortcut(x))        F: 3×3, 3×3 convolutions, or 1×1, 3×3, 1×1 (a bottleneck)

He et al., *Deep residual learning for image recognition*, 2016. Every norm, those of the shortcuts too, is a GroupNorm
(as the personalised federated papers have it, after Hsieh et al., 2020) or a BatchNorm (as DePRL's code has it, and He
et al.); both have as many parameters, but BatchNorm also keeps statistics, which travel with the body. The norms
are part of the body; only the last linear layer is the head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from covey.errors import BadInput

Norm = Literal["group", "batch"]
_MakeNorm = Callable[[int], nn.Module]


class ResNet(nn.Module):
    """stem, blocks in stages (each after the first halves the picture), the mean over the picture, head."""

    def __init__(self, stem: nn.Module, stages: Sequence[Sequence[nn.Module]], features: int, classes: int) -> None:
        super().__init__()
        self.stem = stem
        self.blocks = nn.Sequential(*(block for stage in stages for block in stage))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


class ResNet18(ResNet):
    """See `resnet18`."""


class ResNet20(ResNet):
    """See `resnet20`."""


class ResNet50(ResNet):
    """See `resnet50`."""


def resnet18(
    in_shape: int | Sequence[int] = 3,
    classes: int = 10,
    widths: Sequence[int] = (64, 128, 256, 512),
    groups: int = 32,
    norm: Norm = "group",
) -> ResNet18:
    """ResNet-18 for small pictures: 3×3 stem of stride 1, no max-pooling.

    11 173 962 parameters for colour pictures in ten classes; smaller `widths` give a small one of the same depth.
    """
    norms = _norms(norm, groups)
    stem = _small_stem(_colours(in_shape), widths[0], norms)
    stages = _stages(widths[0], widths, (2,) * len(widths), lambda b, w, s: _Block(b, w, s, norms))
    return ResNet18(stem, stages, widths[-1], classes)


def resnet20(
    in_shape: int | Sequence[int] = 3,
    classes: int = 10,
    widths: Sequence[int] = (16, 32, 64),
    groups: int = 2,
    norm: Norm = "batch",
    shortcut: Literal["pad", "project"] = "pad",
) -> ResNet20:
    """ResNet-20 for CIFAR: three stages, shortcuts without parameters.

    269 722 parameters for colour pictures in ten classes. shortcut="project" puts 1×1 convolutions with a norm where
    the shape changes, as the code of CHOCO-SGD does: 272 474.
    """
    norms = _norms(norm, groups)
    stem = _small_stem(_colours(in_shape), widths[0], norms)
    stages = _stages(widths[0], widths, (3,) * len(widths), lambda b, w, s: _Block(b, w, s, norms, shortcut == "pad"))
    return ResNet20(stem, stages, widths[-1], classes)


def resnet50(
    in_shape: Sequence[int] = (3, 224, 224),
    classes: int = 1000,
    widths: Sequence[int] = (64, 128, 256, 512),
    groups: int = 32,
    norm: Norm = "batch",
) -> ResNet50:
    """ResNet-50: ImageNet's stem from 128×128 on, for smaller pictures that of `resnet18`.

    25 557 032 parameters for 224×224 in 1000 classes, 23 520 842 for 32×32 in ten. The stride lies in the 3×3
    convolution of a block.
    """
    norms = _norms(norm, groups)
    make = _large_stem if min(in_shape[1:]) >= 128 else _small_stem
    times = _Bottleneck.expansion
    stages = _stages(widths[0], widths, (3, 4, 6, 3), lambda b, w, s: _Bottleneck(b, w, s, norms), times)
    return ResNet50(make(in_shape[0], widths[0], norms), stages, times * widths[-1], classes)


class _Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    def __init__(self, before: int, width: int, stride: int, norm: _MakeNorm, padded: bool = False) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(before, width, 3, stride), norm(width)
        self.conv2, self.norm2 = _conv(width, width, 3), norm(width)
        self.relu = nn.ReLU()
        self.shortcut = _shortcut(before, width, stride, norm, padded)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class _Bottleneck(nn.Module):
    """A 3×3 convolution between two of 1×1, beside a shortcut; its output is four times as wide."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int, norm: _MakeNorm) -> None:
        super().__init__()
        after = width * self.expansion
        self.conv1, self.norm1 = _conv(before, width, 1), norm(width)
        self.conv2, self.norm2 = _conv(width, width, 3, stride), norm(width)
        self.conv3, self.norm3 = _conv(width, after, 1), norm(after)
        self.relu = nn.ReLU()
        self.shortcut = _shortcut(before, after, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        return self.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


class _Padded(nn.Module):
    """Every other pixel, and zeros in the channels that are new: a shortcut without parameters."""

    def __init__(self, stride: int, new: int) -> None:
        super().__init__()
        self.stride, self.new = stride, new

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new))


def _shortcut(before: int, after: int, stride: int, norm: _MakeNorm, padded: bool = False) -> nn.Module:
    """The input itself; a 1×1 convolution, or padding, where the shape changes."""
    if stride == 1 and before == after:
        return nn.Identity()
    return _Padded(stride, after - before) if padded else nn.Sequential(_conv(before, after, 1, stride), norm(after))


def _stages(
    before: int, widths: Sequence[int], depths: Sequence[int], block: Callable[[int, int, int], nn.Module],
    expansion: int = 1,
) -> list[list[nn.Module]]:  # fmt: skip
    stages: list[list[nn.Module]] = []
    for place, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        after = width * expansion
        first = block(before, width, 1 if place == 0 else 2)
        stages.append([first, *(block(after, width, 1) for _ in range(depth - 1))])
        before = after
    return stages


def _small_stem(colours: int, width: int, norm: _MakeNorm) -> nn.Module:
    return nn.Sequential(_conv(colours, width, 3), norm(width), nn.ReLU())


def _large_stem(colours: int, width: int, norm: _MakeNorm) -> nn.Module:
    return nn.Sequential(_conv(colours, width, 7, 2), norm(width), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))


def _conv(before: int, width: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, width, kernel, stride=stride, padding=kernel // 2, bias=False)


def _norms(norm: Norm, groups: int) -> _MakeNorm:
    """What makes a norm for a width: over the batch, or in `groups` groups (the most that divide a narrower layer)."""
    if norm not in ("group", "batch"):
        raise BadInput(f"norm='{norm}' is no norm of a ResNet; use 'group' or 'batch'.")
    return nn.BatchNorm2d if norm == "batch" else lambda width: nn.GroupNorm(math.gcd(groups, width), width)


def _colours(in_shape: int | Sequence[int]) -> int:
    return in_shape if isinstance(in_shape, int) else in_shape[0]
