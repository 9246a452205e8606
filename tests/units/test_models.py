"""The networks: sizes derived by hand, shapes, heads, what they accept, and that each can be trained."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence

import pytest
import torch
from torch import nn

import covey
from covey import SGD, Task, algorithms, graphs
from covey.data import Tokens, federate, load
from covey.errors import BadInput, UnknownName
from covey.models import (
    NAMES,
    NETWORKS,
    alexnet,
    build,
    char_lstm,
    cnn,
    cnn_over,
    cnn_under,
    harbox_dnn,
    linear_net,
    mlp,
    resnet18,
    resnet20,
    resnet50,
    softmax,
    vgg11,
)


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def linear(*widths: int, bias: bool = True) -> int:
    return sum(a * b + bias * b for a, b in itertools.pairwise(widths))


def convs(*shapes: tuple[int, int, int], bias: bool = True) -> int:
    """(channels in, channels out, kernel) each."""
    return sum(a * b * k * k + bias * b for a, b, k in shapes)


def chain(kernel: int, *widths: int) -> int:
    return convs(*((a, b, kernel) for a, b in itertools.pairwise(widths)))


def basic(widths: Sequence[int], depth: int, colours: int, classes: int, project: bool) -> int:
    """A residual network of two-convolution blocks: convolutions without bias, 2 numbers per channel in a norm."""
    total, before = 9 * colours * widths[0] + 2 * widths[0], widths[0]
    for width in widths:
        total += 9 * before * width + (2 * depth - 1) * 9 * width * width + 2 * depth * 2 * width
        if project and before != width:
            total += before * width + 2 * width
        before = width
    return total + linear(before, classes)


def bottleneck(stem: int, classes: int) -> int:
    total, before = stem + 2 * 64, 64
    for width, depth in zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True):
        for _ in range(depth):
            total += before * width + 9 * width * width + width * 4 * width + 2 * (width + width + 4 * width)
            total += 0 if before == 4 * width else before * 4 * width + 2 * 4 * width
            before = 4 * width
    return total + linear(2048, classes)


PARAMETERS = {  # name -> parameters for the input that `covey list models` states
    "alexnet": convs((1, 64, 11), (64, 192, 5)) + chain(3, 192, 384, 256, 256) + linear(256, 128, 128, 10),
    "char_lstm": 96 * 8 + 4 * 128 * (8 + 128 + 2) + 4 * 128 * (128 + 128 + 2) + linear(128, 96),
    "cnn": convs((1, 32, 5), (32, 64, 5)) + linear(7 * 7 * 64, 512, 10),
    "cnn_over": chain(3, 3, 256, 128, 64) + linear(4 * 4 * 64, 1024, 256, 10),
    "cnn_under": chain(3, 3, 25, 52) + linear(8 * 8 * 52, 64, 10),
    "dnn": linear(900, 512, 256, 128, 64, 5),
    "linear_net": linear(784, 253, 126, 10, bias=False),
    "mlp": linear(784, 100, 10),
    "resnet18": basic((64, 128, 256, 512), 2, 3, 10, project=True),
    "resnet18_bn": basic((64, 128, 256, 512), 2, 3, 10, project=True),
    "resnet20": basic((16, 32, 64), 3, 3, 10, project=False),
    "resnet20_gn": basic((16, 32, 64), 3, 3, 10, project=False),
    "resnet50": bottleneck(49 * 3 * 64, 1000),
    "softmax": 7840,
    "vgg11": chain(3, 3, 64, 128, 256, 256, 512, 512, 512, 512) + linear(512, 512, 512, 10),
}


@pytest.mark.parametrize("name", NAMES)
def test_sizes_of_named_networks(name: str) -> None:
    assert NETWORKS[name].parameters == PARAMETERS[name]


def test_sizes_that_the_literature_states() -> None:
    assert PARAMETERS["cnn"] == 1_663_370  # McMahan et al.
    assert PARAMETERS["linear_net"] == 231_490  # Decentralized FedAvg for PL objectives
    assert PARAMETERS["resnet18"] == 11_173_962  # the CIFAR form; a GroupNorm has as many parameters as a BatchNorm
    assert PARAMETERS["resnet20"] == 269_722  # He et al.: 0.27 million
    assert PARAMETERS["resnet50"] == 25_557_032  # torchvision's


def test_sizes_for_other_inputs() -> None:
    assert size(softmax((28, 28), 10, bias=True)) == 7850
    assert size(cnn(padding=0)) == convs((1, 32, 5), (32, 64, 5)) + linear(4 * 4 * 64, 512, 10) == 582_026
    assert size(cnn((3, 32, 32))) == convs((3, 32, 5), (32, 64, 5)) + linear(8 * 8 * 64, 512, 10) == 2_156_490
    assert size(cnn_over((1, 28, 28))) == chain(3, 1, 256, 128, 64) + linear(3 * 3 * 64, 1024, 10) == 972_490
    assert size(cnn_under((1, 28, 28))) == chain(3, 1, 25, 52) + linear(7 * 7 * 52, 10) == 37_492
    assert size(resnet20(shortcut="project")) == basic((16, 32, 64), 3, 3, 10, project=True) == 272_474
    assert size(resnet50((3, 32, 32), 10)) == bottleneck(9 * 3 * 64, 10) == 23_520_842
    assert size(harbox_dnn()) == PARAMETERS["dnn"] and size(mlp()) == PARAMETERS["mlp"] and size(alexnet()) == 2_504_906
    assert size(vgg11(classes=100)) == PARAMETERS["vgg11"] + 513 * 90
    assert size(vgg11((3, 64, 64))) == PARAMETERS["vgg11"] + 3 * 512 * 512  # 2×2 pixels are left
    lstm = 4 * 256 * (8 + 256 + 2) + 4 * 256 * (256 + 256 + 2)
    assert size(char_lstm(80, 90, hidden=256)) == 90 * 8 + lstm + linear(256, 90)


torch.manual_seed(0)  # whatever was drawn before: a network whose units are all dead would not train
SMALL = {
    "softmax": softmax(64, 7, bias=True),
    "mlp": mlp(64, (9, 8), 7),
    "linear_net": linear_net((1, 8, 8), 7, (5, 6), bias=True),
    "cnn": cnn((1, 8, 8), 7, (2, 3), 5),
    "cnn_over": cnn_over((1, 8, 8), 7, (6, 5)),
    "cnn_under": cnn_under((1, 8, 8), 7),
    "vgg11": vgg11((1, 8, 8), 7, (2, 3, 4, 4, 5, 5, 6, 6), hidden=6),
    "alexnet": alexnet((1, 8, 8), 7, hidden=6),
    "resnet18": resnet18((1, 8, 8), 7, (4, 4, 8, 8), groups=1),
    "resnet20": resnet20((1, 8, 8), 7, (4, 6, 8)),  # this one and the next with BatchNorm
    "resnet50": resnet50((1, 8, 8), 7, (2, 4, 4, 8)),
}


@pytest.mark.parametrize("name", SMALL)
def test_outputs_and_heads(name: str) -> None:
    model = SMALL[name]
    assert model(torch.zeros(3, 1, 8, 8)).shape == (3, 7)
    assert [name for name, _ in model.named_parameters() if name.startswith("head")] == ["head.weight", "head.bias"]
    assert model.get_submodule("head") is list(model.children())[-1]


@pytest.mark.parametrize("model", [SMALL["vgg11"], SMALL["alexnet"]])
def test_the_classifier_block_can_be_personal_instead_of_the_head(model: nn.Module) -> None:
    data = load("digits", peers=4)
    wide = Task.from_module(_classes(model), data, personal=("classifier", "head")).layout.personal
    narrow = Task.from_module(_classes(model), data, personal="head").layout.personal
    assert wide.stop - wide.start == size(model.get_submodule("classifier")) + size(_classes(model).head)  # type: ignore[arg-type]
    assert narrow.stop - narrow.start == 6 * 10 + 10


def _classes(model: nn.Module) -> nn.Module:
    if type(model).__name__ == "AlexNet":
        return alexnet((1, 8, 8), 10, hidden=6)
    return vgg11((1, 8, 8), 10, (2, 3, 4, 4, 5, 5, 6, 6), hidden=6)


def test_vgg_and_alexnet_are_their_layers_in_order() -> None:
    """An independent count of poolings and strides: 32×32 leaves one pixel, which the classifier takes."""
    kinds = [type(layer).__name__ for layer in vgg11().body]  # type: ignore[union-attr]
    pooled = "".join("M" if kind == "MaxPool2d" else "c" if "Conv2d" in kind else "" for kind in kinds)
    assert pooled == "cMcMccMccMccM"
    assert vgg11().body(torch.zeros(1, 3, 32, 32)).shape == (1, 512, 1, 1)  # type: ignore[operator]
    assert alexnet().body(torch.zeros(1, 1, 28, 28)).shape == (1, 256, 1, 1)  # type: ignore[operator]
    assert [m.p for m in vgg11().modules() if isinstance(m, nn.Dropout)] == [0.05, 0.05]
    first = vgg11().body[0]  # type: ignore[index]
    assert (
        float(first.weight.detach().std()) == pytest.approx(math.sqrt(2 / (9 * 64)), rel=0.1) and not first.bias.any()
    )
    first.reset_parameters()  # what init="all" calls keeps the start of the paper's code
    assert float(first.weight.detach().std()) == pytest.approx(math.sqrt(2 / (9 * 64)), rel=0.1)


def test_resnet_norms_stems_and_depths() -> None:
    model = resnet18(3, 100, widths=(8, 16, 24, 48))
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 100) and model(torch.zeros(2, 3, 64, 64)).shape == (2, 100)
    norms = [m for m in resnet18().modules() if isinstance(m, nn.GroupNorm)]
    assert len(norms) == 20 and all(m.num_groups == 32 for m in norms)
    for norm, kind in (("group", nn.GroupNorm), ("batch", nn.BatchNorm2d)):
        for model, convolutions, shortcuts in ((resnet18(norm=norm), 20, 3), (resnet20(norm=norm), 19, 0)):
            found = [m for m in model.modules() if isinstance(m, nn.GroupNorm | nn.BatchNorm2d)]
            assert all(isinstance(m, kind) for m in found)
            assert sum(isinstance(m, nn.Conv2d) for m in model.modules()) == convolutions == len(found)
            assert sum(isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1) for m in model.modules()) == shortcuts
    assert resnet18().stem[0].stride == (1, 1)  # type: ignore[index]
    small, large = resnet50((1, 32, 32), 3, (1, 1, 1, 1)), resnet50((1, 128, 128), 3, (1, 1, 1, 1))
    assert small.stem(torch.zeros(1, 1, 32, 32)).shape[-1] == 32
    assert large.stem.eval()(torch.zeros(1, 1, 128, 128)).shape[-1] == 32  # stride 2, then pooled
    with pytest.raises(BadInput, match="use 'group' or 'batch'"):
        resnet18(norm="layer")  # type: ignore[arg-type]


def test_the_padded_shortcut_is_every_other_pixel_and_zeros() -> None:
    shortcut = resnet20(1, 2, (2, 5, 5)).blocks[3].shortcut  # type: ignore[union-attr]
    x = torch.arange(2 * 4 * 4.0).reshape(1, 2, 4, 4)
    y = shortcut(x)  # type: ignore[operator]
    assert y.shape == (1, 5, 2, 2) and torch.equal(y[0, :2], x[0, :, ::2, ::2]) and not y[0, 2:].any()


def test_the_linear_net_is_linear() -> None:
    model = linear_net(5, 3, (7, 4)).double()
    x, y = torch.randn(2, 6, 5, dtype=torch.float64)
    torch.testing.assert_close(model(2 * x - 3 * y), 2 * model(x) - 3 * model(y))


def test_the_lstm_reads_the_window_in_order() -> None:
    """The equations of the cell, written out, for one layer."""
    model = char_lstm(5, 6, embedding=2, hidden=3, layers=1).double()
    x = torch.tensor([[1, 5, 0, 2, 2]])
    w = {name.removeprefix("lstm."): p.detach() for name, p in model.named_parameters()}
    h = c = torch.zeros(3, dtype=torch.float64)
    for symbol in x[0]:
        gates = w["weight_ih_l0"] @ w["embedding.weight"][symbol] + w["bias_ih_l0"] + w["weight_hh_l0"] @ h
        i, f, g, o = (gates + w["bias_hh_l0"]).split(3)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    torch.testing.assert_close(model(x)[0], w["head.weight"] @ h + w["head.bias"])


def characters(peers: int = 2) -> covey.data.Federated:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(0, 9, (60, 6), generator=generator).to(torch.uint8), torch.arange(60) % 9
    return federate(x, y, x[:20], y[:20], peers=peers, transform=Tokens())


TRAINED = {name: model for name, model in SMALL.items() if name != "softmax"} | {"char_lstm": char_lstm(6, 9, 2, 3, 1)}


@pytest.mark.parametrize("name", TRAINED)
def test_trains_a_round_stacked_and_one_at_a_time_alike(name: str) -> None:
    if name == "char_lstm":
        data = characters()
    else:
        x, y = torch.randn(28, 1, 8, 8, generator=torch.Generator().manual_seed(0)).double(), torch.arange(28) % 7
        data = federate(x, y, x[:14], y[:14], peers=2, transform=None)
    method = algorithms.DFedAlt(SGD(0.1, steps=1, batch=4), SGD(0.01, steps=2, batch=4))
    task = Task.from_module(TRAINED[name].double(), data, personal="head")
    before = task.start(torch.arange(2), 0, "common")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs = [covey.simulate(method, task, graphs.full(2), 1, chunk=chunk, init="heads") for chunk in (1, 2)]
    for run in runs:
        moved = (run.rows - before).abs()
        assert run.rows.isfinite().all() and moved[:, : task.layout.shared.stop].any() and moved.any(1).all()
    torch.testing.assert_close(runs[0].rows, runs[1].rows, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("char_lstm", "resnet50")])
def test_build_fits_the_data_and_keeps_to_its_seed(name: str) -> None:
    data = load("digits", peers=4)
    state = torch.get_rng_state()
    model, again, other = build(name, data, seed=1), build(name, data, seed=1), build(name, data, seed=2)
    assert torch.equal(state, torch.get_rng_state())
    assert model(data.test.of(0)[0][:2]).shape == (2, 10)
    rows = [torch.cat([p.flatten() for p in m.parameters()]) for m in (model, again, other)]
    assert torch.equal(rows[0], rows[1]) and not torch.equal(rows[0], rows[2])


def test_build_for_characters() -> None:
    data = characters()
    assert build("char_lstm", data)(data.test.of(0)[0]).shape == (len(data.test.of(0)[1]), 9)
    for peers in (load("digits", peers=2), federate(torch.zeros(8, 2, 3).long(), torch.arange(8) % 2, peers=2)):
        with pytest.raises(BadInput, match="takes windows of characters"):
            build("char_lstm", peers)
    x, y = torch.full((8, 3), 5, dtype=torch.uint8), torch.arange(8) % 2
    with pytest.raises(BadInput, match=r"one of 2 characters, but these data hold characters from 5 to 5"):
        build("char_lstm", federate(x, y, x, y, peers=2, transform=Tokens()))


def test_build_refuses_what_does_not_fit() -> None:
    x, y = torch.zeros(8, 5), torch.arange(8) % 2
    data = federate(x, y, x, y, peers=2)
    assert build("mlp", data)(x).shape == (8, 2)
    with pytest.raises(UnknownName, match="did you mean 'resnet18'"):
        build("restnet18", data)
    with pytest.raises(BadInput, match="takes pictures"):
        build("cnn", data)
    with pytest.raises(BadInput, match="no classes"):
        build("mlp", federate(x, torch.rand(8), x, torch.rand(8), peers=2))
    words = torch.zeros(8, 5, dtype=torch.uint8)
    with pytest.raises(BadInput, match="embedding"):
        build("mlp", federate(words, y, words, y, peers=2, transform=Tokens()))
    with pytest.raises(BadInput, match="too small"):
        cnn((1, 3, 3))
    with pytest.raises(BadInput, match="too small for the over-parameterised CNN"):
        cnn_over((1, 7, 7))
