"""How well each peer's model does on that peer's own data, and how well the mean model does on everybody's.

Evaluation reads; it moves no parameter, no buffer and no random stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import vmap

from covey.rows import views
from covey.tasks.task import Task
from covey.training.pace import Pace

if TYPE_CHECKING:
    from covey.data.samples import Samples

_NUMBERS = 1 << 22  # numbers in one stacked batch of inputs
_SAMPLES = 1 << 11  # samples in one pass of a single model


@dataclass(frozen=True)
class Scores:
    """name -> a number per peer, NaN where a peer has nothing to be judged on. `loss` is always there."""

    values: dict[str, Tensor]

    def summary(self) -> dict[str, float]:
        """The mean over peers of each; of the first metric also its spread and the mean over the worst tenth."""
        out = {name: float(value.nanmean()) for name, value in self.values.items()}
        first = next(iter(self.values))
        if first != "loss":
            known = self.values[first][~self.values[first].isnan()].sort().values
            out["std"] = float(known.std(correction=0)) if len(known) else math.nan
            out["worst_decile"] = float(known[: math.ceil(len(known) / 10)].mean()) if len(known) else math.nan
        return out


class Evaluator:
    """Judges rows of one task, in the way that is fast for it: many peers stacked, or one at a time."""

    def __init__(self, task: Task, pace: Pace, like: Tensor) -> None:
        self._task, self._pace = task, pace
        layout = task.layout
        self._parameters, self._statistics = layout.parameters, layout.statistics
        if task.data is not None:
            self._flat = like.new_zeros(1, layout.width)
            one = {n: self._flat[0, f.columns].view(f.shape) for n, f in self._parameters.items()}
            rest = {n: self._flat[0, f.columns].view(f.shape) for n, f in self._statistics.items()}
            self._model = task.bind_prediction(one, rest)
            self._stack = pace.chunk > 1 and task.loss_per_sample is not None and self._can_stack(task.data.train)

    @torch.no_grad()
    def personal(self, rows: Tensor, samples: Samples) -> Scores:
        """Each row on its own samples."""
        names = [*self._task.metrics, "loss"]
        values = {name: torch.full((len(rows),), math.nan, dtype=torch.float64) for name in names}
        able = (samples.counts > 0).nonzero()[:, 0]
        order = able[samples.counts[able].argsort(descending=True, stable=True)]
        for who in self._chunks(order, samples) if self._stack else order.split(1):
            if self._stack:
                judged = self._stacked(rows, who, samples)
            else:
                judged = self._judge(rows[who], samples.positions(int(who)), samples)
            for name in names:
                values[name][who] = judged[name].double().cpu()
        return Scores(values)

    @torch.no_grad()
    def pooled(self, row: Tensor, positions: Tensor, samples: Samples) -> dict[str, float]:
        """One row [width] on the samples at these positions, whoever owns them."""
        return {name: float(value) for name, value in self._judge(row[None], positions, samples).items()}

    @torch.no_grad()
    def objective(self, rows: Tensor, keys: Tensor) -> Scores:
        """F_i of each row on all its own training data: for tasks that have a loss and nothing else."""
        data = self._task.train
        losses = torch.full((len(rows),), math.nan, dtype=torch.float64)
        for size in data.counts.unique().tolist():
            for who in (data.counts == size).nonzero()[:, 0].split(max(1, self._pace.chunk)):
                batch = data.everything(who)
                parameters, statistics = views(rows[who], self._parameters), views(rows[who], self._statistics)
                if len(who) > 1:
                    value = vmap(self._task.loss_at)(parameters, statistics, batch, keys[who])[0]
                else:
                    own, kept = ({n: v[0] for n, v in part.items()} for part in (parameters, statistics))
                    value = self._task.loss_at(own, kept, tuple(part[0] for part in batch), keys[who[0]])[0]
                losses[who] = value.double().cpu()
        return Scores({"loss": losses})

    @torch.no_grad()
    def _can_stack(self, samples: Samples) -> bool:
        """Whether the model can predict for several peers in one call: some layers can in training only."""
        try:
            self._predict(self._flat.expand(2, -1), samples.batch(torch.zeros(2).long(), torch.zeros(2, 1).long())[0])
        except Exception:
            return False
        return True

    def _predict(self, rows: Tensor, x: Tensor) -> Tensor:
        return vmap(self._task.predict_at)(views(rows, self._parameters), views(rows, self._statistics), x)

    def _judge(self, row: Tensor, positions: Tensor, samples: Samples) -> dict[str, Tensor]:
        self._flat.copy_(row)
        predictions, targets = [], []
        for some in positions.split(_SAMPLES):
            x, y = samples.pooled(some)
            predictions.append(self._model(x))
            targets.append(y)
        prediction, target = torch.cat(predictions), torch.cat(targets)
        out = {name: metric(prediction, target).double().mean() for name, metric in self._task.metrics.items()}
        return out | {"loss": self._task.loss_of(prediction, target)}

    def _chunks(self, order: Tensor, samples: Samples) -> list[Tensor]:
        """Peers, those with most samples first, in chunks whose padded batches stay small."""
        width = max(1, samples.arrays[0][0].numel())
        chunks: list[Tensor] = []
        at = 0
        while at < len(order):
            longest = int(samples.counts[order[at]])
            m = max(1, min(self._pace.chunk, _NUMBERS // (longest * width)))
            chunks.append(order[at : at + m])
            at += m
        return chunks

    def _stacked(self, rows: Tensor, who: Tensor, samples: Samples) -> dict[str, Tensor]:
        """The last sample of a peer is repeated up to the longest count of the chunk and then not counted."""
        counts = samples.counts[who]
        place = torch.arange(int(counts[0])).expand(len(who), -1)
        x, y = samples.batch(who, torch.minimum(place, counts[:, None] - 1))
        counted, counts = (place < counts[:, None]).to(y.device), counts.to(y.device)
        prediction = self._predict(rows[who], x)
        flat, target = prediction.flatten(0, 1), y.flatten(0, 1)
        per_sample = {name: metric(flat, target) for name, metric in self._task.metrics.items()}
        assert self._task.loss_per_sample is not None
        per_sample["loss"] = self._task.loss_per_sample(flat, target)
        out: dict[str, Tensor] = {}
        for name, value in per_sample.items():
            value = value.double().reshape(len(who), counted.shape[1], -1).mean(-1)
            out[name] = value.where(counted, 0.0).sum(1) / counts
        return out
