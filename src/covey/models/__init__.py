"""The networks of the papers. The personal head of each has the prefix "head": Task.from_module(…, personal="head")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from covey.errors import BadInput, UnknownName
from covey.models.cnn import CNN, cnn
from covey.models.linear import MLP, Softmax, harbox_dnn, mlp, softmax
from covey.models.resnet import ResNet18, resnet18

if TYPE_CHECKING:
    from covey.data import Federated

NAMES = ("cnn", "dnn", "mlp", "resnet18", "softmax")


def build(name: str, data: Federated, seed: int = 0) -> nn.Module:
    """The named network, in the size that the inputs and the classes of the data ask for, initialised from `seed`."""
    if name not in NAMES:
        raise UnknownName("model", name, NAMES)
    if data.classes is None:
        raise BadInput(f"The model '{name}' classifies, but the labels of these data are no classes; bring a module.")
    x = data.train.pooled(data.train.index[:1])[0]
    shape = tuple(x.shape[1:])
    if not x.is_floating_point():
        raise BadInput(
            f"The model '{name}' takes numbers, but these data hold {x.dtype} of shape {shape}; bring a module, for "
            "tokens one with an embedding, or give the data a transform."
        )
    if name in ("cnn", "resnet18") and len(shape) != 3:
        raise BadInput(f"The model '{name}' takes pictures [channels, height, width], but these data have {shape}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        match name:
            case "softmax":
                return softmax(shape, data.classes)
            case "mlp":
                return mlp(shape, 100, data.classes)
            case "dnn":
                return harbox_dnn(shape, data.classes)
            case "cnn":
                return cnn(shape, data.classes)
            case _:
                return resnet18(shape, data.classes)


__all__ = [
    "CNN",
    "MLP",
    "NAMES",
    "ResNet18",
    "Softmax",
    "build",
    "cnn",
    "harbox_dnn",
    "mlp",
    "resnet18",
    "softmax",
]
