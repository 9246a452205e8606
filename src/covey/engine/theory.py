"""What theory asks of a run, at the rounds that are looked at: gradients over all data, DePRL's M(k).

    before training    (φ̄(k), θ(k)) and the consensus error are noted; no gradient is taken yet, for the first one
                       measures the pace, and that belongs to the method's own batches
    after training     M(k), for methods that train head and body in turn
    after exchange     the gradient and the objective at the mean model, with every peer's own head

It costs one to three passes over all training data per look and changes nothing that training sees. A model with
BatchNorm or dropout is differentiated as it is trained: with the statistics of the batch, with units dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.algorithms.algorithm import Algorithm
from covey.algorithms.dfedalt import DFedAlt
from covey.measure.stationarity import Squares, consensus_error, deprl_m
from covey.peers import Peers
from covey.training.sgd import SGD


@dataclass
class _Start:
    """Where a round begins."""

    point: Tensor  # (φ̄(k), θ_i(k)), a row per peer
    ratio: float  # ατ/β
    consensus: float


class Theory:
    """Looks at one run; `begin`, `trained` and `mixed` are called in this order in every round that is looked at."""

    def __init__(self, algorithm: Algorithm, peers: Peers) -> None:
        self._algorithm, self._peers = algorithm, peers
        self._start: _Start | None = None
        self._last: tuple[int, Squares] | None = None  # after which round, and what was found there

    def begin(self) -> None:
        method, peers = self._algorithm, self._peers
        if isinstance(method, DFedAlt):
            rows = self._models()
            consensus = consensus_error(rows[:, peers.task.layout.trained("shared")])
            self._start = _Start(self._at_mean(rows), _ratio(method.personal, method.shared, peers), consensus)

    def trained(self) -> dict[str, float]:
        if self._start is None:
            return {}
        point = self._start.point
        after, found = self._last or (None, None)
        start = found if found is not None and after == self._peers.round else self._squares(point)[0]
        personal = self._peers.task.layout.personal
        point[:, personal] = self._models()[:, personal]
        noted, self._start = self._start, None
        return deprl_m(start, self._squares(point)[0], noted.ratio, noted.consensus)

    def mixed(self) -> dict[str, float]:
        found, objective = self._squares(self._at_mean(self._models()))
        self._last = self._peers.round, found
        return {"gradient": found.gradient, "shared": found.shared, "heads": found.heads, "objective": objective}

    def _models(self) -> Tensor:
        return next(self._algorithm.models(self._peers))[1]

    def _at_mean(self, rows: Tensor) -> Tensor:
        shared, point = self._peers.task.layout.shared, rows.clone()
        point[:, shared] = rows[:, shared].mean(0)
        return point

    def _squares(self, point: Tensor) -> tuple[Squares, float]:
        """And the mean over peers of F_i."""
        layout = self._peers.task.layout
        gradients, losses = self._peers.grad_and_value(rows=point, purpose="theory")
        squares = Squares.of(gradients[:, layout.trained("shared")], gradients[:, layout.trained("personal")])
        return squares, float(losses.double().mean())


def _ratio(personal: SGD, shared: SGD, peers: Peers) -> float:
    """ατ/β in this round; the mean over peers where epochs give them different numbers of steps."""
    alpha, beta = _rate(personal, "personal", peers), _rate(shared, "shared", peers)
    return alpha * float(peers.steps(personal).mean()) / beta if beta else math.nan


def _rate(local: SGD, purpose: str, peers: Peers) -> float:
    taken = peers.state.get(f"steps/{purpose}", torch.zeros(len(peers), dtype=torch.int64))
    rates = local.rates(peers.round, taken)
    return float(rates.mean()) if isinstance(rates, Tensor) else rates
