"""The over- and the under-parameterised convolutional network of *Linear convergence of decentralized FedAvg for PL
objectives: the interpolation regime*.

The paper gives filters, the number of linear layers (one more in colour), and totals: 1 642 849 parameters for
CIFAR-10 and 1 046 426 for MNIST when over-parameterised. Kernels, poolings and the widths of linear layers are not
given, and no natural choice meets the totals: here every convolution is 3×3 and followed by ReLU and 2×2 max-pooling,
and the widths come near them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from covey.models.pictures import halved


class OverCNN(nn.Sequential):
    """See `cnn_over`."""


class UnderCNN(nn.Sequential):
    """See `cnn_under`."""


def cnn_over(in_shape: Sequence[int] = (3, 32, 32), classes: int = 10, hidden: Sequence[int] | None = None) -> OverCNN:
    """Over-parameterised CNN: 256, 128, 64 filters, then three linear layers in colour, two in grey.

    1 690 570 parameters for 32×32 in colour, 972 490 for 28×28 in grey; `hidden` are the widths between.
    """
    widths = ((1024, 256) if in_shape[0] > 1 else (1024,)) if hidden is None else hidden
    return OverCNN(_parts(in_shape, (256, 128, 64), widths, classes, "the over-parameterised CNN"))


def cnn_under(
    in_shape: Sequence[int] = (3, 32, 32), classes: int = 10, hidden: Sequence[int] | None = None
) -> UnderCNN:
    """Under-parameterised CNN: 25 and 52 filters, then two linear layers in colour, one in grey.

    226 158 parameters for 32×32 in colour, 37 492 for 28×28 in grey; `hidden` are the widths between.
    """
    widths = ((64,) if in_shape[0] > 1 else ()) if hidden is None else hidden
    return UnderCNN(_parts(in_shape, (25, 52), widths, classes, "the under-parameterised CNN"))


def _parts(
    in_shape: Sequence[int], filters: Sequence[int], hidden: Sequence[int], classes: int, name: str
) -> OrderedDict[str, nn.Module]:
    height, width = halved(in_shape, len(filters), name)
    before = in_shape[0]
    body: list[nn.Module] = []
    for each in filters:
        body += [nn.Conv2d(before, each, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        before = each
    body.append(nn.Flatten())
    before *= height * width
    for each in hidden:
        body += [nn.Linear(before, each), nn.ReLU()]
        before = each
    return OrderedDict[str, nn.Module](body=nn.Sequential(*body), head=nn.Linear(before, classes))
