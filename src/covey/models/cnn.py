"""The convolutional network of McMahan et al. (2017): two convolutions, two linear layers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from covey.errors import BadInput


class CNN(nn.Sequential):
    """See `cnn`."""


def cnn(
    in_shape: Sequence[int] = (1, 28, 28),
    classes: int = 10,
    channels: tuple[int, int] = (32, 64),
    hidden: int = 512,
    padding: int = 2,
) -> CNN:
    """5×5 convolutions, each with ReLU and 2×2 max-pooling; `body` and `head`.

    1 663 370 parameters for 28×28 grey, 2 156 490 for 32×32 in colour; 582 026 for 28×28 grey with padding=0, as many
    write it.
    """
    colours, height, width = in_shape
    for _ in channels:
        height, width = (height + 2 * padding - 4) // 2, (width + 2 * padding - 4) // 2
    if height < 1 or width < 1:
        raise BadInput(f"Pictures of {in_shape[1]}×{in_shape[2]} are too small for the cnn with padding={padding}.")
    body = nn.Sequential(
        nn.Conv2d(colours, channels[0], 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels[0], channels[1], 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(channels[1] * height * width, hidden),
        nn.ReLU(),
    )
    return CNN(OrderedDict[str, nn.Module](body=body, head=nn.Linear(hidden, classes)))
