"""Linear speed-up as a theorem: at a fixed step the stationary error of the mean model is inversely proportional to the
number of peers, whatever is compressed or kept silent.

Why exactly −1. Let F_i(x) = ½ mean_s ‖x − b_is‖², each peer's samples having mean 0 and variance 1 in every coordinate,
so that 0 is the common minimum and a mini-batch of one gives g_i = x − ξ_i, Var ξ_i = 1, independent over peers and
steps. Gradients are affine and the exchange keeps the mean (eq. 3.9), so the mean model obeys the recursion of one peer,

    v̄ ← β v̄ + x̄ − ξ̄,   x̄ ← x̄ − η (x̄ − ξ̄ + β v̄),   Var ξ̄ = 1 / n,

a linear system driven by noise n times smaller: E x̄² = S(η, β) / n, and log E x̄² against log n has slope −1, with no
term of higher order. S is that of one peer alone: the intercept is known as well. For DePRL φ̄ is that mean model with
β = 0: S = η / (2 − η). A method that lets γ differ between peers, forgets a neighbour's weight, or hands all peers the
same batches has another slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from covey import SGD, Task, compress, graphs, trigger
from covey.algorithms import Algorithm, DePRL, SQuARM
from covey.exchange import Compressed
from theory.problems import noisy_quadratic, spread_samples
from theory.rounds import Rounds

SIZES, WIDTH, LOOKS, APART, SETTLE = (3, 8, 24), 600, 10, 10, 40
ETA, BETA = 0.2, 0.5


def shared_and_head(n: int) -> Task:
    """½‖φ − b‖² + ½‖θ − b‖² over the same samples: the head is learned beside, and never sent."""
    return Task.from_function(
        lambda p, own: 0.5 * ((p["phi"] - own).square().sum(1) + (p["theta"] - own).square().sum(1)).mean(),
        {"phi": torch.zeros(WIDTH, dtype=torch.float64), "theta": torch.zeros(WIDTH, dtype=torch.float64)},
        spread_samples(n, 20, WIDTH, seed=n), personal="theta",
    )  # fmt: skip


def whole(n: int) -> Task:
    return noisy_quadratic(spread_samples(n, 20, WIDTH, seed=n))


def stationary(eta: float, beta: float) -> float:
    """S: E x² of one peer, from P = A P Aᵀ + c cᵀ for (x, v): v ← βv + x − ξ, x ← x − η(1 + β)(x − ξ) − ηβ²v."""
    A = np.array([[1 - eta * (1 + beta), -eta * beta**2], [1, beta]])
    c = np.array([[eta * (1 + beta)], [-1.0]])
    vector = np.linalg.solve(np.eye(4) - np.kron(A, A), (c @ c.T).reshape(-1))
    return float(vector[0])


HEAD = SGD(0.1, steps=1, batch=1)
DEPRL = DePRL(HEAD, SGD(ETA, batch=1))
WITH: dict[str, tuple[Algorithm, Callable[[int], Task], float]] = {
    "DePRL": (DEPRL, shared_and_head, ETA / (2 - ETA)),
    "DePRL, compressed": (DePRL(HEAD, SGD(ETA, batch=1), by=Compressed(compress.TopK(0.1), 0.2)), shared_and_head,
                          ETA / (2 - ETA)),
    "SQuARM": (SQuARM(SGD(ETA, batch=1), compress.SignTopK(0.1), 0.2, trigger.norm(3500.0), BETA), whole,
               stationary(ETA, BETA)),
}  # fmt: skip


def test_the_level_of_one_peer() -> None:
    """β = 0 is plain SGD: η / (2 − η)."""
    assert stationary(0.3, 0.0) == pytest.approx(0.3 / 1.7, rel=1e-12)


@pytest.mark.parametrize("name", WITH)
def test_the_stationary_error_falls_as_one_over_n(name: str) -> None:
    """The slope to 4 of its standard errors (under 0.03 each), and the intercept as well. Coordinates are independent, so
    their scatter gives the error of each level."""
    method, task, one = WITH[name]
    levels, errors = [], []
    for n in SIZES:
        run = Rounds(method, task(n), graphs.ring(n), seed=n).go(SETTLE)
        squares = torch.stack([run.go(APART).mean[:WIDTH].square() for _ in range(LOOKS)]).mean(0)  # per coordinate
        levels.append(math.log(float(squares.mean())))
        errors.append(float(squares.std() / squares.mean()) / math.sqrt(WIDTH))
        if "spoke" in run.peers.state and name == "SQuARM":
            said, asked = run.peers.state["spoke"].sum(0).tolist()
            assert 0.2 * asked < said < 0.9 * asked  # the trigger is at work
    x, y, e = np.log(SIZES), np.array(levels), np.array(errors)
    centred = x - x.mean()
    slope = float((centred * y).sum() / (centred**2).sum())
    of_slope = float(np.sqrt((centred**2 * e**2).sum()) / (centred**2).sum())
    assert of_slope < 0.03
    assert slope == pytest.approx(-1.0, abs=4 * of_slope)
    assert np.abs(y + x - math.log(one)).max() < 4 * e.max()


def test_the_same_batches_for_all_give_no_speed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: noise that peers share is not averaged away."""
    from covey.peers import Peers

    keys = Peers._keys
    monkeypatch.setattr(Peers, "_keys", lambda self, purpose: keys(self, purpose)[:1].expand(len(self)))
    one = spread_samples(1, 20, WIDTH, seed=0)
    levels = []
    for n in (3, 12):
        run = Rounds(DEPRL, _alike(one, n), graphs.ring(n), seed=1).go(SETTLE)
        squares = torch.stack([run.go(APART).mean[:WIDTH].square() for _ in range(LOOKS)])
        levels.append(float(squares.mean()))
    assert levels[1] == pytest.approx(levels[0], rel=1e-9)


def _alike(samples: torch.Tensor, n: int) -> Task:
    task = shared_and_head(1)
    assert len(task.train) == 1
    return Task.from_function(
        lambda p, own: 0.5 * ((p["phi"] - own).square().sum(1) + (p["theta"] - own).square().sum(1)).mean(),
        {"phi": torch.zeros(WIDTH, dtype=torch.float64), "theta": torch.zeros(WIDTH, dtype=torch.float64)},
        samples.expand(n, -1, -1).clone(), personal="theta",
    )  # fmt: skip
