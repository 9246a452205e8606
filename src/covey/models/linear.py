"""Multinomial logistic regression, and networks of linear layers."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Sequence

from torch import nn


class Softmax(nn.Sequential):
    """See `softmax`."""


class MLP(nn.Sequential):
    """See `mlp`."""


class LinearNet(nn.Sequential):
    """See `linear_net`."""


def softmax(inputs: int | Sequence[int], classes: int, bias: bool = False) -> Softmax:
    """Multinomial logistic regression on flattened inputs; without a bias, 784 → 10 has the 7840 weights of CHOCO-SGD.

    All of it is head: with personal="head" nothing is shared.
    """
    layers = OrderedDict[str, nn.Module](flatten=nn.Flatten(), head=nn.Linear(_size(inputs), classes, bias=bias))
    return Softmax(layers)


def mlp(inputs: int | Sequence[int] = 784, hidden: int | Sequence[int] = 100, classes: int = 10) -> MLP:
    """Linear layers with ReLU between, 784-100-10 unless told otherwise; `body` and `head`."""
    widths = [_size(inputs), *([hidden] if isinstance(hidden, int) else hidden)]
    body: list[nn.Module] = [nn.Flatten()]
    for one, two in itertools.pairwise(widths):
        body += [nn.Linear(one, two), nn.ReLU()]
    return MLP(OrderedDict[str, nn.Module](body=nn.Sequential(*body), head=nn.Linear(widths[-1], classes)))


def harbox_dnn(inputs: int | Sequence[int] = 900, classes: int = 5) -> MLP:
    """900-512-256-128-64-5, the DNN for HARBox in the text of Xiong et al., DePRL, AAAI 2024.

    Their code has other widths (900-1024-512-256-128-128-5, the last two layers personal):
    `mlp(900, (1024, 512, 256, 128, 128), 5)` with personal=("body.9", "head").
    """
    return mlp(inputs, (512, 256, 128, 64), classes)


def linear_net(
    inputs: int | Sequence[int] = 784, classes: int = 10, hidden: Sequence[int] = (253, 126), bias: bool = False
) -> LinearNet:
    """Three linear layers with nothing between, 784-253-126-10: an over-parameterised linear regression.

    Of *Linear convergence of decentralized FedAvg for PL objectives*, which gives no widths but 231 490 parameters:
    these have as many (with biases no widths do). `body` and `head`.
    """
    widths = [_size(inputs), *hidden]
    body = [nn.Linear(one, two, bias=bias) for one, two in itertools.pairwise(widths)]
    head = nn.Linear(widths[-1], classes, bias=bias)
    return LinearNet(OrderedDict[str, nn.Module](body=nn.Sequential(nn.Flatten(), *body), head=head))


def _size(inputs: int | Sequence[int]) -> int:
    return inputs if isinstance(inputs, int) else math.prod(inputs)
