"""What is seen of a round: each peer's model on its own data, the mean model on everybody's, and how far peers are
apart. Looked at twice: after training (before the exchange), and after the exchange (before training)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from covey.algorithms.algorithm import Algorithm
from covey.engine.run import Entry
from covey.errors import Diverged
from covey.link import Link
from covey.measure.evaluate import Evaluator, Scores
from covey.measure.stationarity import consensus_error
from covey.peers import Peers
from covey.training.pace import Pace


class Looker:
    """Evaluates the models of a method; `scores` are those of the last look, per peer."""

    def __init__(self, algorithm: Algorithm, peers: Peers, link: Link) -> None:
        self._algorithm, self._peers, self._link = algorithm, peers, link
        self.scores: dict[str, Scores] = {}
        self._evaluator: Evaluator | None = None
        data = peers.task.data
        self._everything = None if data is None else data.test.unique()

    def trained(self) -> Entry:
        """After training: the freshest local models, and the losses that training saw."""
        losses = {phase: float(value.nanmean()) for phase, value in self._peers.losses.items()}
        _, rows = next(self._algorithm.models(self._peers))
        train_loss = list(losses.values())[-1] if losses else math.nan
        return {"train_loss": train_loss, "train_losses": losses, "trained": self._judge("trained", rows)}

    def mixed(self) -> Entry:
        """After the exchange: what the method hands to each peer, and whatever else it wants judged."""
        entry: Entry = {}
        peers, task = self._peers, self._peers.task
        for place, (name, rows) in enumerate(self._algorithm.models(peers)):
            if place:
                entry[name] = self._judge(name, rows)
                continue
            if not bool(rows.isfinite().all()):
                peer = int(peers.ids[(~rows.isfinite().all(1)).nonzero()[0, 0]])
                raise Diverged(
                    f"Parameters of peer {peer} are no longer finite after round {peers.round}; lower the learning "
                    "rate, or clip the gradient (clip=10)."
                )
            entry["mixed"] = self._judge("mixed", rows)
            if task.data is not None and task.data.validation is not None:
                entry["validation"] = self._evaluate().personal(rows, task.data.validation).summary()
            if len(peers) < peers.n:  # the others are elsewhere
                continue
            if task.data is not None and self._everything is not None:
                entry["average"] = self._evaluate().pooled(rows.mean(0), self._everything, task.data.test)
            entry["consensus"] = consensus_error(rows[:, task.layout.shared])
        if "mass" in peers.state:
            entry["mass"] = float(peers.state["mass"].min())
        if "gamma" in peers.state:
            entry["gamma"] = float(peers.state["gamma"].mean())  # the same at all peers
        if "spoke" in peers.state:
            said, asked = peers.state["spoke"].double().sum(0).tolist()
            entry["spoke"] = said / max(1.0, asked)
        entry["bits"] = self._link.traffic.as_dict()
        return entry

    def _judge(self, point: str, rows: Tensor) -> dict[str, Any]:
        task = self._peers.task
        if task.data is None:
            scores = self._evaluate().objective(rows, self._peers.ids)
        else:
            scores = self._evaluate().personal(rows, task.data.test)
        self.scores[point] = scores
        return scores.summary()

    def _evaluate(self) -> Evaluator:
        if self._evaluator is None:
            pace = self._peers.pace or Pace.fixed(1)
            self._evaluator = Evaluator(self._peers.task, pace, torch.empty_like(self._peers.rows[:1]))
        return self._evaluator
