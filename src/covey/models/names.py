"""Networks by name, as on the command line: `mlp`, `resnet18`, `char_lstm`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from covey.errors import BadInput, UnknownName
from covey.models.alexnet import alexnet
from covey.models.char_lstm import char_lstm
from covey.models.cnn import cnn
from covey.models.cnn_widths import cnn_over, cnn_under
from covey.models.linear import harbox_dnn, linear_net, mlp, softmax
from covey.models.resnet import resnet18, resnet20, resnet50
from covey.models.vgg import vgg11

if TYPE_CHECKING:
    from covey.data import Federated

Make = Callable[[Sequence[int], int], nn.Module]  # (shape of one sample, classes) -> the network


@dataclass(frozen=True)
class Network:
    """A named network: what makes it, what it takes, and the input and classes for which `list` counts parameters."""

    make: Make
    takes: Literal["numbers", "pictures", "characters"]
    shape: tuple[int, ...]
    classes: int = 10
    note: str = ""  # what the name chooses of the options of the function

    @property
    def parameters(self) -> int:
        with torch.device("meta"):  # counted, not filled
            return sum(p.numel() for p in self.make(self.shape, self.classes).parameters())

    @property
    def summary(self) -> str:
        """The first sentence of what it is."""
        function = self.make.func if isinstance(self.make, partial) else self.make
        return (inspect.getdoc(function) or "").split("\n", 1)[0] + self.note

    @property
    def typical(self) -> str:
        """784 numbers, 3×32×32 pictures, 80 characters."""
        return f"{'×'.join(str(one) for one in self.shape)} {self.takes} in {self.classes} classes"


def _mlp(shape: Sequence[int], classes: int) -> nn.Module:
    """Linear layers with ReLU between, with 100 hidden units; `body` and `head`."""
    return mlp(shape, 100, classes)


_GREY, _COLOUR = (1, 28, 28), (3, 32, 32)
NETWORKS: dict[str, Network] = {
    "alexnet": Network(alexnet, "pictures", _GREY),
    "char_lstm": Network(char_lstm, "characters", (80,), 96),
    "cnn": Network(cnn, "pictures", _GREY),
    "cnn_over": Network(cnn_over, "pictures", _COLOUR),
    "cnn_under": Network(cnn_under, "pictures", _COLOUR),
    "dnn": Network(harbox_dnn, "numbers", (900,), 5),
    "linear_net": Network(linear_net, "numbers", (784,)),
    "mlp": Network(_mlp, "numbers", (784,)),
    "resnet18": Network(resnet18, "pictures", _COLOUR, note=" With GroupNorm."),
    "resnet18_bn": Network(partial(resnet18, norm="batch"), "pictures", _COLOUR, note=" With BatchNorm."),
    "resnet20": Network(resnet20, "pictures", _COLOUR, note=" With BatchNorm."),
    "resnet20_gn": Network(partial(resnet20, norm="group"), "pictures", _COLOUR, note=" With GroupNorm."),
    "resnet50": Network(resnet50, "pictures", (3, 224, 224), 1000, note=" With BatchNorm."),
    "softmax": Network(softmax, "numbers", (784,)),
    "vgg11": Network(vgg11, "pictures", _COLOUR),
}
NAMES = tuple(NETWORKS)


def build(name: str, data: Federated, seed: int = 0) -> nn.Module:
    """The named network, in the size that the inputs and the classes of the data ask for, initialised from `seed`."""
    if name not in NETWORKS:
        raise UnknownName("model", name, NETWORKS)
    if data.classes is None:
        raise BadInput(f"The model '{name}' classifies, but the labels of these data are no classes; bring a module.")
    network = NETWORKS[name]
    x = data.train.pooled(data.train.index[:1])[0]
    shape = tuple(x.shape[1:])
    _require_fit(name, network, x, shape)
    if network.takes == "characters":
        _require_symbols(name, data, data.classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return network.make(shape, data.classes)


def _require_fit(name: str, network: Network, x: torch.Tensor, shape: tuple[int, ...]) -> None:
    if network.takes == "characters":
        if x.is_floating_point() or len(shape) != 1:
            raise BadInput(
                f"The model '{name}' takes windows of characters, as whole numbers [length], but these data hold "
                f"{x.dtype} of shape {shape}."
            )
        return
    if not x.is_floating_point():
        raise BadInput(
            f"The model '{name}' takes numbers, but these data hold {x.dtype} of shape {shape}; bring a module, for "
            "tokens one with an embedding (such as 'char_lstm'), or give the data a transform."
        )
    if network.takes == "pictures" and len(shape) != 3:
        raise BadInput(f"The model '{name}' takes pictures [channels, height, width], but these data have {shape}.")


def _require_symbols(name: str, data: Federated, symbols: int) -> None:
    for samples in (data.train, data.test):
        x = samples.arrays[0]
        if x.numel() and not (int(x.min()) >= 0 and int(x.max()) < symbols):
            raise BadInput(
                f"The model '{name}' predicts one of {symbols} characters, but these data hold characters from "
                f"{int(x.min())} to {int(x.max())}; they must run from 0 to {symbols - 1}, as the labels do."
            )
