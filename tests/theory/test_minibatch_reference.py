"""Methods on real pictures against one loop per peer with `nn.Module` and `torch.optim.SGD`, written from the boxes
of the papers: FedRep, DFedAvgM, DFedAlt and DFedPGP (docs/papers.md, 1).

Peers are unequal, an epoch ends with a smaller batch, and momentum, weight decay, clipping and the decay of the rate
are all at work. The loop asks src for one thing: which samples each batch holds (`theory.recorded`).
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor, nn

import covey
from covey import SGD, Task
from covey.algorithms import Algorithm, DFedAlt, DFedAvgM, DFedPGP, FedRep
from covey.graphs import Graph, from_matrix, ring, server
from theory.recorded import recorded
from theory.rounds import Rounds

SIZES, BATCH, ROUNDS = (23, 17, 30, 9, 17), 8, 3  # the last batches have 7, 1, 6, 1 and 1 samples
N = len(SIZES)
THIRD = 1 / 3
RING = [[THIRD, THIRD, 0, 0, THIRD], [THIRD, THIRD, THIRD, 0, 0], [0, THIRD, THIRD, THIRD, 0],
        [0, 0, THIRD, THIRD, THIRD], [THIRD, 0, 0, THIRD, THIRD]]  # fmt: skip
PUSH = [[0.5, 0, 0.25, 0, 0.2], [0.5, 0.4, 0, 0, 0], [0, 0.6, 0.25, 0, 0.3],
        [0, 0, 0.5, 0.7, 0], [0, 0, 0, 0.3, 0.5]]  # columns sum to one, rows do not  # fmt: skip


@dataclass(frozen=True)
class Phase:
    """Local work in the words of this file; `group` is the beginning of the names of what is trained."""

    group: str
    epochs: int | None
    steps: int | None
    lr: float
    momentum: float
    weight_decay: float
    clip: float
    decay: float
    nesterov: bool = False

    def sgd(self) -> SGD:
        return SGD(self.lr, self.steps, self.epochs, BATCH, momentum=self.momentum, nesterov=self.nesterov,
                   weight_decay=self.weight_decay, clip=self.clip, decay=self.decay)  # fmt: skip

    def count(self, samples: int) -> int:
        return self.steps if self.epochs is None else self.epochs * -(-samples // BATCH)  # type: ignore[return-value]


WHOLE = Phase("", 2, None, 0.1, 0.9, 0.01, 0.8, 0.9)
BODY = Phase("body", 2, None, 0.1, 0.9, 0.01, 0.8, 0.9)
HEAD = Phase("head", None, 3, 0.05, 0.5, 0.02, 0.5, 0.7, nesterov=True)


@cache
def pictures() -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...]:
    """Every so many of a peer's digits, so that each peer has several of its classes; flat, in float64."""
    data, parts = covey.data.load("digits", peers=N, partition="dirichlet:0.5", seed=1), []
    for peer, size in enumerate(SIZES):
        (x, y), (x_test, y_test) = data.train.of(peer), data.test.of(peer)
        every = len(y) // size
        x, y = x[::every][:size], y[::every][:size]
        parts.append((x.flatten(1).double(), y, x_test.flatten(1).double(), y_test))
    return tuple(parts)


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parts = OrderedDict(body=nn.Linear(64, 12), bend=nn.Tanh(), head=nn.Linear(12, 10))
        return nn.Sequential(parts).double()


def descend(model: nn.Module, peer: int, phase: Phase, t: int, batches: list[list[int]], mass: float) -> float:
    """One phase of one peer, in place; the body is divided by the mass where the gradient is taken. Returns the mean
    loss of its steps."""
    own = [p for name, p in model.named_parameters() if name.startswith(phase.group)]
    optimiser = torch.optim.SGD(own, phase.lr * phase.decay**t, phase.momentum, weight_decay=phase.weight_decay,
                                nesterov=phase.nesterov)  # fmt: skip
    x, y = pictures()[peer][:2]
    steps, total = phase.count(len(y)), 0.0
    for _ in range(steps):
        batch = batches.pop(0)
        at = copy.deepcopy(model)
        with torch.no_grad():
            for p in at.body.parameters():  # type: ignore[union-attr]
                p /= mass
        loss = nn.functional.cross_entropy(at(x[batch]), y[batch])
        loss.backward()
        total += float(loss.detach())
        for name, p in at.named_parameters():
            model.get_parameter(name).grad = p.grad
        torch.nn.utils.clip_grad_norm_(own, phase.clip)
        optimiser.step()
    return total / steps


def mix(models: list[nn.Module], group: str, W: list[list[float]]) -> None:
    said = [{name: p.detach().clone() for name, p in model.named_parameters()} for model in models]
    for i, model in enumerate(models):
        for name, p in model.named_parameters():
            if name.startswith(group):
                p.data = sum(W[i][j] * said[j][name] for j in range(N))  # type: ignore[assignment]


CASES: dict[str, tuple[Algorithm, Graph, list[Phase], str, str]] = {
    "DFedAvgM": (DFedAvgM(WHOLE.sgd()), ring(N), [WHOLE], "", "gossip"),
    "DFedAlt": (DFedAlt(HEAD.sgd(), BODY.sgd()), ring(N), [HEAD, BODY], "body", "gossip"),
    "DFedPGP": (DFedPGP(HEAD.sgd(), BODY.sgd()), from_matrix(PUSH), [HEAD, BODY], "body", "push"),
    "FedRep": (FedRep(HEAD.sgd(), BODY.sgd()), server(N, 3, "size"), [HEAD, BODY], "body", "server"),
}


@pytest.mark.parametrize("chunk", [1, 2, N])
@pytest.mark.parametrize("name", CASES)
def test_a_method_equals_a_loop_over_peers_with_torch_optim(name: str, chunk: int) -> None:
    method, graph, phases, shared, meeting = CASES[name]
    task = Task.from_module(network(), recorded(pictures()), personal="head")
    run = Rounds(method, task, graph, seed=4, chunk=chunk)
    run.peers.grad()  # the pace is settled on batches, too
    run.peers.task.train.take()  # type: ignore[attr-defined]
    models, mass = [network() for _ in range(N)], [1.0] * N
    for t in range(ROUNDS):
        run.go()
        batches = run.peers.task.train.take()  # type: ignore[attr-defined]
        here = [i for i in range(N) if batches[i]]  # who took part
        losses = {i: [descend(models[i], i, phase, t, batches[i], mass[i]) for phase in phases] for i in here}
        assert not any(batches)
        W = RING
        if meeting == "push":
            W = PUSH
            mass = [sum(W[i][j] * mass[j] for j in range(N)) for i in range(N)]
        if meeting == "server":
            assert len(here) == 3
            W = [[SIZES[j] / sum(SIZES[k] for k in here) if j in here else 0.0 for j in range(N)]] * N
        else:
            assert len(here) == N
        mix(models, shared, W)
        found = run.peers.task.layout.unpack(run.models)
        for i, model in enumerate(models):
            for key, p in model.named_parameters():
                scale = mass[i] if key.startswith(shared) else 1.0
                torch.testing.assert_close(found[key][i], p.detach() / scale, rtol=0, atol=1e-13)
        for place, seen in enumerate(run.peers.losses.values()):
            for i in here:
                assert float(seen[i]) == pytest.approx(losses[i][place], abs=1e-13)
    first = dict(network().named_parameters())
    assert all(float((found[key] - first[key].detach()).abs().max()) > 1e-2 for key in first)
