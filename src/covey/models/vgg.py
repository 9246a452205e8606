"""VGG-11 without norms, for small pictures.

K. Simonyan, A. Zisserman, *Very deep convolutional networks for large-scale image recognition*, 2015, in the shapes of
the code of Xiong et al., DePRL, AAAI 2024 (the table of their text has one convolution more, two others fewer, and
flattens to 4096 numbers what five poolings leave as 512). Their code keeps the whole classifier block personal, their
text the last layer: personal=("classifier", "head"), or "head".
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from covey.models.pictures import enlarge

_POOLED = (0, 1, 3, 5, 7)  # the convolutions that are followed by 2×2 max-pooling


class VGG11(nn.Sequential):
    """See `vgg11`."""


class _HeConv2d(nn.Conv2d):
    """Starts with Var w = 2 / (9 · channels out) and no bias, as in their code: without norms, torch's own start lets
    the signal fade from layer to layer."""

    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)


def vgg11(
    in_shape: Sequence[int] = (3, 32, 32),
    classes: int = 10,
    widths: Sequence[int] = (64, 128, 256, 256, 512, 512, 512, 512),
    hidden: int = 512,
    dropout: float = 0.05,
) -> VGG11:
    """VGG-11: eight 3×3 convolutions and three linear layers; `body`, `classifier` and `head`.

    9 750 922 parameters for 32×32 in colour and ten classes; smaller pictures are enlarged to 32×32 first. Smaller
    `widths` give a small one of the same depth.
    """
    colours, height, width = in_shape
    body: list[nn.Module] = enlarge(in_shape, 32)
    for place, (before, after) in enumerate(itertools.pairwise([colours, *widths])):
        body += [_HeConv2d(before, after, 3, padding=1), nn.ReLU()]
        if place in _POOLED:
            body.append(nn.MaxPool2d(2))
    pixels = (max(32, height) >> len(_POOLED)) * (max(32, width) >> len(_POOLED))
    classifier = nn.Sequential(
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(widths[-1] * pixels, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
    )
    parts = OrderedDict[str, nn.Module](body=nn.Sequential(*body), classifier=classifier)
    return VGG11(parts | {"head": nn.Linear(hidden, classes)})
