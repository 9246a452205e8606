"""Methods against loops over peers, steps and neighbours in plain numpy, written from the boxes of the papers.

F_i(x) = ½ xᵀA_i x − b_iᵀx with full A_i, so that body (3 numbers) and head (2) meet in every gradient; everyone starts
elsewhere. What is asked of src is only the weights of a round, which tests of graphs check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from covey import SGD, Task, exchange
from covey.algorithms import (
    DPSGD,
    OSGP,
    SGP,
    Algorithm,
    DFedAlt,
    DFedAvg,
    DFedAvgM,
    DFedAvgMP,
    DFedPGP,
    DFedSalt,
    FedAvg,
    FedAvgM,
    FedRep,
)  # fmt: skip
from covey.graphs import Graph, random_directed, random_undirected, ring, server
from theory.problems import random
from theory.rounds import trajectory

N, BODY, WIDTH, ROUNDS = 5, 3, 5, 5
ALL, SHARED, HEAD = range(WIDTH), range(BODY), range(BODY, WIDTH)

_root = random(N, WIDTH, WIDTH)
A = _root @ _root.mT / WIDTH + torch.eye(WIDTH, dtype=torch.float64)
B = random(N, WIDTH, seed=1)
START = random(N, WIDTH, seed=2)


def task(personal: str) -> Task:
    def loss(p: dict[str, torch.Tensor], own: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x = torch.cat([p["body"], p["head"]])
        return 0.5 * x @ own[0] @ x - own[1] @ x

    first = {"body": torch.zeros(BODY, dtype=torch.float64), "head": torch.zeros(WIDTH - BODY, dtype=torch.float64)}
    start = {"body": START[:, :BODY], "head": START[:, BODY:]}
    return Task.from_function(loss, first, (A, B), personal, start)


@dataclass
class Phase:
    """Local steps of one peer: the same numbers as covey.SGD takes, in a loop of its own."""

    lr: float
    steps: int
    momentum: float = 0.0
    nesterov: bool = False
    wd: float = 0.0
    rho: float = 0.0
    decay: float = 1.0

    def sgd(self) -> SGD:
        return SGD(self.lr, steps=self.steps, momentum=self.momentum, nesterov=self.nesterov, weight_decay=self.wd,
                   sam=self.rho, decay=self.decay)  # fmt: skip

    def run(self, i: int, x: list[float], columns: range, t: int, mass: float = 1.0, pushed: int = 0) -> list[float]:
        """The steps of peer i on some columns; the first `pushed` of all columns are divided by the mass."""

        def gradient(point: list[float]) -> dict[int, float]:
            z = [value / mass if c < pushed else value for c, value in enumerate(point)]
            return {r: sum(float(A[i, r, c]) * z[c] for c in range(WIDTH)) - float(B[i, r]) for r in columns}

        x, velocity = list(x), dict.fromkeys(columns, 0.0)
        for _ in range(self.steps):
            g = gradient(x)
            if self.rho:
                norm = sum(value * value for value in g.values()) ** 0.5
                g = gradient([x[c] + self.rho * g[c] / norm if c in columns else x[c] for c in range(WIDTH)])
            for c in columns:
                step = g[c] + self.wd * x[c]
                velocity[c] = self.momentum * velocity[c] + step
                direction = step + self.momentum * velocity[c] if self.nesterov else velocity[c]
                x[c] -= self.lr * self.decay**t * direction
        return x


Rows = list[list[float]]


def mixed(W: np.ndarray, x: Rows, columns: range) -> Rows:
    return [[sum(W[i, j] * x[j][c] for j in range(len(x))) if c in columns else x[i][c] for c in range(len(x[i]))]
            for i in range(len(x))]  # fmt: skip


def gossip(graph: Graph, phases: list[tuple[Phase, range]], columns: range, cta: bool = False) -> np.ndarray:
    x, out = START.tolist(), []
    for t in range(ROUNDS):
        W, active = graph.round(t).weights.dense().numpy(), graph.round(t).active.tolist()
        before = x
        for phase, group in phases:
            x = [phase.run(i, x[i], group, t) if active[i] else x[i] for i in range(N)]
        if cta:
            held = mixed(W, before, columns)
            x = [[held[i][c] + x[i][c] - before[i][c] for c in range(WIDTH)] for i in range(N)]
        else:
            x = mixed(W, x, columns)
        out.append(x)
    return np.array(out)


def pushed(graph: Graph, phases: list[tuple[Phase, range]], columns: range, overlap: bool = False) -> np.ndarray:
    x, mass, late, out = START.tolist(), [1.0] * N, None, []
    for t in range(ROUNDS):
        W = graph.round(t).weights.dense().numpy()
        for phase, group in phases:
            x = [phase.run(i, x[i], group, t, mass[i], len(columns)) for i in range(N)]
        now, sent = [], []
        for i in range(N):
            own, heard = [*x[i], mass[i]], [0.0] * (WIDTH + 1)
            for c in (*columns, WIDTH):
                own[c] *= W[i, i]
                heard[c] = sum(W[i, j] * (x[j][c] if c < WIDTH else mass[j]) for j in range(N) if j != i)
            now.append(own)
            sent.append(heard)
        arrived = late if overlap else sent
        late = sent
        if arrived is not None:
            now = [[a + b for a, b in zip(now[i], arrived[i], strict=True)] for i in range(N)]
        x, mass = [row[:WIDTH] for row in now], [row[WIDTH] for row in now]
        out.append([[x[i][c] / mass[i] if c in columns else x[i][c] for c in range(WIDTH)] for i in range(N)])
    return np.array(out)


def server_momentum(graph: Graph, phase: Phase, beta: float, rate: float) -> np.ndarray:
    w, s, out = [0.0] * WIDTH, [0.0] * WIDTH, []
    for t in range(ROUNDS):
        asked = [i for i in range(N) if graph.round(t).active[i]]
        trained = [phase.run(i, w, ALL, t) for i in asked]
        for c in range(WIDTH):
            s[c] = beta * s[c] + w[c] - sum(x[c] for x in trained) / len(asked)
        w = [w[c] - rate * s[c] for c in range(WIDTH)]
        out.append([list(w)] * N)
    return np.array(out)


P = Phase(0.05, 3, momentum=0.9, wd=0.01, decay=0.9)
Q = Phase(0.1, 2, momentum=0.5, nesterov=True, decay=0.8)
SHARP = Phase(0.05, 3, momentum=0.9, wd=0.01, rho=0.3)
DIRECTED = random_directed(N, 2, seed=5)
UNDIRECTED = random_undirected(N, 2, seed=5)
HALF = server(N, 0.5, seed=1)
IN_TURN = [(Q, HEAD), (P, SHARED)]

CASES: dict[str, tuple[Algorithm, Graph, str, Callable[[], np.ndarray]]] = {
    "D-PSGD cta": (DPSGD(Phase(0.1, 1).sgd(), order="cta"), ring(N), "",
                   lambda: gossip(ring(N), [(Phase(0.1, 1), ALL)], ALL, cta=True)),
    "DFedAvgM": (DFedAvgM(P.sgd()), UNDIRECTED, "", lambda: gossip(UNDIRECTED, [(P, ALL)], ALL)),
    "DFedAvg, Nesterov": (DFedAvg(Q.sgd()), ring(N), "", lambda: gossip(ring(N), [(Q, ALL)], ALL)),
    "DFedSAM": (DFedAvg(SHARP.sgd()), ring(N), "", lambda: gossip(ring(N), [(SHARP, ALL)], ALL)),
    "DFedAvgM-P": (DFedAvgMP(P.sgd()), ring(N), "head", lambda: gossip(ring(N), [(P, ALL)], SHARED)),
    "DFedAlt": (DFedAlt(Q.sgd(), P.sgd()), UNDIRECTED, "head", lambda: gossip(UNDIRECTED, IN_TURN, SHARED)),
    "DFedSalt": (DFedSalt(Q.sgd(), SHARP.sgd()), ring(N), "head",
                 lambda: gossip(ring(N), [(Q, HEAD), (SHARP, SHARED)], SHARED)),
    "DFedSalt-V": (DFedSalt(SHARP.sgd(), P.sgd(), on="personal"), ring(N), "head",
                   lambda: gossip(ring(N), [(SHARP, HEAD), (P, SHARED)], SHARED)),
    "FedAvg": (FedAvg(P.sgd()), HALF, "common", lambda: server_momentum(HALF, P, 0.0, 1.0)),
    "FedAvgM": (FedAvgM(P.sgd(), beta=0.7, server_lr=0.8), HALF, "common", lambda: server_momentum(HALF, P, 0.7, 0.8)),
    "FedRep": (FedRep(Q.sgd(), P.sgd()), HALF, "head", lambda: gossip(HALF, IN_TURN, SHARED)),
    "SGP": (SGP(P.sgd()), DIRECTED, "", lambda: pushed(DIRECTED, [(P, ALL)], ALL)),
    "OSGP, overlap": (OSGP(P.sgd(), by=exchange.PushSum(overlap=True)), DIRECTED, "",
                      lambda: pushed(DIRECTED, [(P, ALL)], ALL, overlap=True)),
    "DFedPGP": (DFedPGP(Q.sgd(), P.sgd()), DIRECTED, "head", lambda: pushed(DIRECTED, IN_TURN, SHARED)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_loop(name: str) -> None:
    method, graph, personal, expected = CASES[name]
    if personal == "common":  # a server has one model, which everyone starts from
        params = {"x": torch.zeros(WIDTH, dtype=torch.float64)}
        problem = Task.from_function(lambda p, own: 0.5 * p["x"] @ own[0] @ p["x"] - own[1] @ p["x"], params, (A, B))
    else:
        problem = task(personal or ())
    found = trajectory(method, problem, graph, ROUNDS).numpy()
    np.testing.assert_allclose(found, expected(), rtol=0, atol=1e-12)
    assert np.abs(found[-1] - found[0]).max() > 1e-2
