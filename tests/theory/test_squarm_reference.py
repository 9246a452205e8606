"""SQuARM-SGD on real pictures against a numpy loop written from its box (Algorithm 1): softmax regression with
mini-batches, local steps, Nesterov's momentum under a changing rate, SignTopK and a trigger, for the whole model and
tensor by tensor. The loop shares no code with src; it asks it for one thing, which samples each batch holds
(`theory.recorded`)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import covey
from covey import SGD, Task, compress, graphs, trigger
from covey.algorithms import SQuARM
from theory.recorded import recorded
from theory.rounds import Rounds

N, H, BATCH, ROUNDS = 5, 3, 6, 6
BETA, GAMMA = 0.7, 0.35
SHAPES = {"weight": (10, 64), "bias": (10,)}
W = np.array([[1, 1, 0, 0, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1], [1, 0, 0, 1, 1]]) / 3
Array = np.ndarray[Any, Any]
Model = dict[str, Array]


def rate(t: int) -> float:
    """A warm-up, then a fall: η_{t−1} / η_t is below one, then above."""
    return 0.02 * (t + 1) if t < 5 else 0.6 / (t + 1)


@cache
def pictures() -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...]:
    data, parts = covey.data.load("digits", peers=N, partition="dirichlet:0.5", seed=1), []
    for peer in range(N):
        (x, y), (x_test, y_test) = data.train.of(peer), data.test.of(peer)
        parts.append((x.flatten(1).double() / 16, y, x_test.flatten(1).double() / 16, y_test))
    return tuple(parts)


def module() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(64, 10).double()


def gradient(model: Model, peer: int, batch: list[int]) -> Model:
    x, y = pictures()[peer][0].numpy()[batch], pictures()[peer][1].numpy()[batch]
    score = x @ model["weight"].T + model["bias"]
    score = np.exp(score - score.max(1, keepdims=True))
    score /= score.sum(1, keepdims=True)
    score[np.arange(len(y)), y] -= 1
    score /= len(y)
    return {"weight": score.T @ x, "bias": score.sum(0)}


def sign_top_k(x: Array, k: int) -> Array:
    flat = x.reshape(-1)
    chosen = sorted(range(flat.size), key=lambda i: (-abs(flat[i]), i))[:k]
    said = np.zeros_like(flat)
    said[chosen] = np.where(flat[chosen] < 0, -1.0, 1.0) * np.abs(flat[chosen]).sum() / k
    return said.reshape(x.shape)


class Loop:
    """The box, node by node and iteration by iteration; every neighbour's copy is kept."""

    def __init__(self, first: Model, share: float, threshold: float, per_tensor: bool, rescale: bool) -> None:
        zero = {name: np.zeros_like(value) for name, value in first.items()}
        self.x = [{name: value.copy() for name, value in first.items()} for _ in range(N)]
        self.v = [{name: value.copy() for name, value in zero.items()} for _ in range(N)]
        self.copies = [[{name: value.copy() for name, value in zero.items()} for _ in range(N)] for _ in range(N)]
        self.share, self.threshold, self.per_tensor, self.rescale = share, threshold, per_tensor, rescale
        self.t, self.spoke = 0, 0

    def round(self, batches: list[list[list[int]]]) -> None:
        for h in range(H):
            eta = rate(self.t)
            factor = rate(self.t - 1) / eta if self.rescale and self.t else 1.0
            for i in range(N):
                g = gradient(self.x[i], i, batches[i][h])
                for name in SHAPES:
                    self.v[i][name] = BETA * factor * self.v[i][name] + g[name]
                    self.x[i][name] = self.x[i][name] - eta * (BETA * self.v[i][name] + g[name])
            self.t += 1
        said = [self.say(i, self.t == H) for i in range(N)]  # the first synchronisation is forced
        for i in range(N):
            for j in range(N):
                for name in SHAPES:
                    self.copies[i][j][name] = self.copies[i][j][name] + said[j][name]
        for i in range(N):
            for name in SHAPES:
                own = self.copies[i][i][name]
                drawn = sum(W[i, j] * (self.copies[i][j][name] - own) for j in range(N))
                self.x[i][name] = self.x[i][name] + GAMMA * drawn

    def say(self, i: int, forced: bool) -> Model:
        gap = {name: self.x[i][name] - self.copies[i][i][name] for name in SHAPES}
        least = self.threshold * rate(self.t - 1) ** 2
        size = {name: float((value**2).sum()) for name, value in gap.items()}
        if not self.per_tensor:
            size = dict.fromkeys(size, sum(size.values()))
        speaks = {name: forced or size[name] > least for name in SHAPES}
        self.spoke += sum(speaks.values()) if self.per_tensor else speaks["bias"]
        return {
            name: sign_top_k(gap[name], max(1, int(self.share * gap[name].size)))
            if speaks[name]
            else np.zeros_like(gap[name])
            for name in SHAPES
        }


CASES = {  # threshold, per tensor, whether momentum is rescaled
    "no threshold": (0.0, False, True), "a threshold": (1000.0, False, True), "per tensor": (40.0, True, True),
    "as torch has momentum": (1000.0, False, False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_squarm_equals_the_loop(name: str) -> None:
    threshold, per_tensor, rescale = CASES[name]
    when = trigger.norm(threshold, per="tensor" if per_tensor else "model")
    method = SQuARM(SGD(rate, steps=H, batch=BATCH), compress.SignTopK(0.11), GAMMA, when, BETA, rescale)
    task = Task.from_module(module(), recorded(pictures()))
    run = Rounds(method, task, graphs.ring(N), seed=4, chunk=2)
    run.peers.grad()  # the pace is settled on batches, too
    run.peers.task.train.take()  # type: ignore[attr-defined]
    first = {key: value.detach().numpy() for key, value in module().named_parameters()}
    loop = Loop(first, 0.11, threshold, per_tensor, rescale)
    for _ in range(ROUNDS):
        run.go()
        loop.round(run.peers.task.train.take())  # type: ignore[attr-defined]
        found = run.peers.task.layout.unpack(run.models)
        for i in range(N):
            for key in SHAPES:
                np.testing.assert_allclose(found[key][i].numpy(), loop.x[i][key], rtol=0, atol=1e-13)
    said, asked = run.peers.state["spoke"].sum(0).tolist()
    assert said == loop.spoke
    assert (said < asked) == (threshold > 0)
    moved = max(float(np.abs(loop.x[0][key] - first[key]).max()) for key in SHAPES)
    assert moved > 0.05


def test_the_factor_matters() -> None:
    """With the same batches the two forms of momentum part as soon as the rate changes, and not before."""
    task = Task.from_module(module(), recorded(pictures()))
    found = {}
    for rescale in (True, False):
        method = SQuARM(SGD(rate, steps=1, batch=BATCH), compress.Identity(), 1.0, beta=BETA, rescale=rescale)
        run = Rounds(method, task, graphs.ring(N), seed=4)
        found[rescale] = [run.go().models for _ in range(3)]
    torch.testing.assert_close(found[True][0], found[False][0], rtol=0, atol=1e-14)
    assert float((found[True][2] - found[False][2]).abs().max()) > 1e-3
