"""Nine methods as one would write them first: a loop over peers, dictionaries of tensors, plain SGD, autograd.

Written from the equations and sharing nothing with the package, not even an import. A model is {name: tensor} of a
network tanh(x A + a) B + b; `body` is A and a, `head` is B and b. What is given from outside: the first weights, each
peer's data, in which order it takes its batches, who takes part in a round, and the weights of a graph as a list.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Model = dict[str, Tensor]
Batches = list[list[int]]  # of one phase of one peer, sample numbers
Matrix = Sequence[Sequence[float]]

BODY = ("body.weight", "body.bias")
HEAD = ("head.weight", "head.bias")
ALL = BODY + HEAD


@dataclass
class Given:
    """One round: phases[i][k] are the batches of peer i in phase k; empty where it did not take part."""

    data: list[tuple[Tensor, Tensor]]
    phases: list[list[Batches]]
    active: list[int]


def loss(p: Model, x: Tensor, y: Tensor) -> Tensor:
    z = torch.tanh(x @ p["body.weight"].T + p["body.bias"])
    return F.cross_entropy(z @ p["head.weight"].T + p["head.bias"], y)


def gradient(p: Model, x: Tensor, y: Tensor) -> Model:
    at = {name: value.detach().clone().requires_grad_() for name, value in p.items()}
    return dict(zip(ALL, torch.autograd.grad(loss(at, x, y), [at[name] for name in ALL]), strict=True))


def step(p: Model, g: Model, lr: float, names: Sequence[str]) -> Model:
    return {name: p[name] - lr * g[name] if name in names else p[name] for name in ALL}


def sgd(p: Model, data: tuple[Tensor, Tensor], batches: Batches, lr: float, names: Sequence[str] = ALL) -> Model:
    x, y = data
    for batch in batches:
        p = step(p, gradient(p, x[batch], y[batch]), lr, names)
    return p


def mean(models: list[Model], names: Sequence[str] = ALL) -> Model:
    return {name: sum(m[name] for m in models) / len(models) for name in names}  # type: ignore[misc]


def gossip(models: list[Model], W: Matrix, names: Sequence[str]) -> list[Model]:
    everyone = range(len(models))
    return [models[i] | {name: sum(W[i][j] * models[j][name] for j in everyone) for name in names}  # type: ignore[misc]
            for i in everyone]  # fmt: skip


def fedavg(peers: list[Model], t: Given, lr: float) -> list[Model]:
    server = peers[0]
    new = mean([sgd(server, t.data[i], t.phases[i][0], lr) for i in t.active])
    return [new for _ in peers]


def fedper(peers: list[Model], t: Given, lr: float) -> list[Model]:
    peers = list(peers)
    for i in t.active:
        peers[i] = sgd(peers[i], t.data[i], t.phases[i][0], lr)
    body = mean([peers[i] for i in t.active], BODY)
    return [own | body for own in peers]


def fedrep(peers: list[Model], t: Given, lr_head: float, lr_body: float) -> list[Model]:
    peers = list(peers)
    for i in t.active:
        peers[i] = sgd(peers[i], t.data[i], t.phases[i][0], lr_head, HEAD)
        peers[i] = sgd(peers[i], t.data[i], t.phases[i][1], lr_body, BODY)
    body = mean([peers[i] for i in t.active], BODY)
    return [own | body for own in peers]


def fedbabu(peers: list[Model], t: Given, lr: float) -> list[Model]:
    body = mean([sgd(peers[i], t.data[i], t.phases[i][0], lr, BODY) for i in t.active], BODY)
    return [own | body for own in peers]


def finetuned(peers: list[Model], data: list[tuple[Tensor, Tensor]], batches: list[Batches], lr: float) -> list[Model]:
    """FedBABU's evaluation: body and head, on everybody."""
    return [sgd(own, data[i], batches[i], lr) for i, own in enumerate(peers)]


def ditto(globals_: list[Model], personal: list[Model], t: Given, lr: float, lam: float) -> tuple[
        list[Model], list[Model]]:  # fmt: skip
    received, personal, trained = globals_[0], list(personal), []
    for i in t.active:
        trained.append(sgd(received, t.data[i], t.phases[i][0], lr))
        x, y = t.data[i]
        for batch in t.phases[i][1]:
            g = gradient(personal[i], x[batch], y[batch])
            pulled = {name: g[name] + lam * (personal[i][name] - received[name]) for name in ALL}
            personal[i] = step(personal[i], pulled, lr, ALL)
    return [mean(trained) for _ in globals_], personal


def dfedalt(peers: list[Model], t: Given, W: Matrix, lr_head: float, lr_body: float) -> list[Model]:
    moved = []
    for i, own in enumerate(peers):
        own = sgd(own, t.data[i], t.phases[i][0], lr_head, HEAD)
        moved.append(sgd(own, t.data[i], t.phases[i][1], lr_body, BODY))
    return gossip(moved, W, BODY)


def deprl(peers: list[Model], t: Given, P: Matrix, alpha: float, beta: float) -> list[Model]:
    """τ steps on θ at the old φ, then φ moves once, at the new θ."""
    moved = []
    for i, own in enumerate(peers):
        x, y = t.data[i]
        for batch in t.phases[i][0]:
            own = step(own, gradient(own, x[batch], y[batch]), alpha, HEAD)
        (batch,) = t.phases[i][1]
        moved.append(step(own, gradient(own, x[batch], y[batch]), beta, BODY))
    return gossip(moved, P, BODY)


def dfedpgp(u: list[Model], mass: list[float], t: Given, P: Matrix, lr_head: float, lr_body: float) -> tuple[
        list[Model], list[float]]:  # fmt: skip
    """u holds the biased bodies (and the heads); gradients are taken at z = u / mass."""

    def at_z(own: Model, i: int) -> Model:
        return own | {name: own[name] / mass[i] for name in BODY}

    moved = []
    for i, own in enumerate(u):
        x, y = t.data[i]
        for names, batches, lr in ((HEAD, t.phases[i][0], lr_head), (BODY, t.phases[i][1], lr_body)):
            for batch in batches:
                own = step(own, gradient(at_z(own, i), x[batch], y[batch]), lr, names)
        moved.append(own)
    everyone = range(len(u))
    return gossip(moved, P, BODY), [sum(P[i][j] * mass[j] for j in everyone) for i in everyone]


def dispfl(peers: list[Model], masks: list[Model], t: Given, neighbours: list[list[int]], lr: float, share: float
           ) -> tuple[list[Model], list[Model]]:  # fmt: skip
    """neighbours[i]: whom i hears, itself included. phases[i][1]: the batch whose gradient decides what grows."""
    trained, grown = [], []
    for i, own in enumerate(peers):
        x, y = t.data[i]
        for batch in t.phases[i][0]:
            own = step(own, gradient(own, x[batch], y[batch]), lr, ALL)
            own = {name: own[name] * masks[i][name] for name in ALL}
        (batch,) = t.phases[i][1]
        dense, new = gradient(own, x[batch], y[batch]), {}
        for name in ALL:
            kept = masks[i][name].flatten().tolist()
            weight, slope = own[name].abs().flatten().tolist(), dense[name].abs().flatten().tolist()
            here, gone = [k for k, m in enumerate(kept) if m], [k for k, m in enumerate(kept) if not m]
            moved = min(math.floor(share * len(here)), len(gone))
            for k in sorted(here, key=lambda k: weight[k])[:moved]:
                kept[k] = 0.0
            for k in sorted(gone, key=lambda k: -slope[k])[:moved]:
                kept[k] = 1.0
            new[name] = torch.tensor(kept, dtype=own[name].dtype).view_as(own[name])
        trained.append(own)
        grown.append(new)
    out = []
    for i, heard in enumerate(neighbours):
        one = {}
        for name in ALL:
            total, having = (sum(held[j][name] for j in heard) for held in (trained, masks))
            one[name] = torch.where(having > 0, total / having, 0.0) * grown[i][name]  # type: ignore[operator]
        out.append(one)
    return out, grown
