"""The networks: sizes derived by hand, heads, and what they accept."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from covey.data import Tokens, federate, load
from covey.errors import BadInput, UnknownName
from covey.models import NAMES, build, cnn, harbox_dnn, mlp, resnet18, softmax


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_sizes() -> None:
    assert size(softmax(784, 10)) == 7840 and size(softmax((28, 28), 10, bias=True)) == 7850
    assert size(mlp()) == 784 * 100 + 100 + 100 * 10 + 10
    widths = (900, 512, 256, 128, 64, 5)
    assert size(harbox_dnn()) == sum(a * b + b for a, b in itertools.pairwise(widths))
    convolutions = 25 * 32 + 32 + 25 * 32 * 64 + 64
    assert size(cnn()) == convolutions + 7 * 7 * 64 * 512 + 512 + 5130 == 1_663_370  # as McMahan et al. state it
    assert size(cnn(padding=0)) == convolutions + 4 * 4 * 64 * 512 + 512 + 5130
    assert size(cnn((3, 32, 32))) == convolutions + 2 * 25 * 32 + 8 * 8 * 64 * 512 + 512 + 5130
    assert size(resnet18()) == 11_173_962  # the CIFAR ResNet-18: a GroupNorm has as many parameters as a BatchNorm


@pytest.mark.parametrize("model", [softmax(64, 7, bias=True), mlp(64, (9, 8), 7), cnn((1, 8, 8), 7, (2, 3), 5)])
def test_outputs_and_heads(model: nn.Module) -> None:
    assert model(torch.zeros(3, 1, 8, 8)).shape == (3, 7)
    assert [name for name, _ in model.named_parameters() if name.startswith("head")] == ["head.weight", "head.bias"]
    assert model.get_submodule("head") is list(model.children())[-1]


def test_resnet_has_group_norms_everywhere_and_takes_small_widths() -> None:
    model = resnet18(3, 100, widths=(8, 16, 24, 48))
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 100) and model(torch.zeros(2, 3, 64, 64)).shape == (2, 100)
    norms = [m for m in resnet18().modules() if isinstance(m, nn.GroupNorm)]
    assert len(norms) == 20 and all(m.num_groups == 32 for m in norms)
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())
    assert sum(isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3) for m in model.modules()) == 17
    assert model.stem[0].stride == (1, 1)


def test_resnet_runs_stacked_over_peers() -> None:
    model = resnet18(1, 3, widths=(4, 4, 8, 8), groups=4)
    rows = {name: torch.stack([p, p + 0.01]).detach() for name, p in model.named_parameters()}
    x = torch.randn(2, 3, 1, 16, 16)
    stacked = torch.vmap(lambda p, x: torch.func.functional_call(model, p, (x,)))(rows, x)
    alone = torch.func.functional_call(model, {name: p[1] for name, p in rows.items()}, (x[1],))
    assert torch.allclose(stacked[1], alone, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_build_fits_the_data_and_keeps_to_its_seed(name: str) -> None:
    data = load("digits", peers=4)
    state = torch.get_rng_state()
    model, again, other = build(name, data, seed=1), build(name, data, seed=1), build(name, data, seed=2)
    assert torch.equal(state, torch.get_rng_state())
    assert model(data.test.of(0)[0]).shape == (len(data.test.of(0)[1]), 10)
    rows = [torch.cat([p.flatten() for p in m.parameters()]) for m in (model, again, other)]
    assert torch.equal(rows[0], rows[1]) and not torch.equal(rows[0], rows[2])


def test_build_refuses_what_does_not_fit() -> None:
    x, y = torch.zeros(8, 5), torch.arange(8) % 2
    data = federate(x, y, x, y, peers=2)
    assert build("mlp", data)(x).shape == (8, 2)
    with pytest.raises(UnknownName, match="did you mean 'resnet18'"):
        build("resnet", data)
    with pytest.raises(BadInput, match="takes pictures"):
        build("cnn", data)
    with pytest.raises(BadInput, match="no classes"):
        build("mlp", federate(x, torch.rand(8), x, torch.rand(8), peers=2))
    words = torch.zeros(8, 5, dtype=torch.uint8)
    with pytest.raises(BadInput, match="embedding"):
        build("mlp", federate(words, y, words, y, peers=2, transform=Tokens()))
    with pytest.raises(BadInput, match="too small"):
        cnn((1, 3, 3))
