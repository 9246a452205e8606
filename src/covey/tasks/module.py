"""A task that trains a user's `nn.Module`, unchanged, on federated data."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from covey.errors import BadInput
from covey.randomness import key as make_key
from covey.rows import Layout
from covey.split import personal_names
from covey.tasks.digest import digest
from covey.tasks.dropout import KeyedDropout
from covey.tasks.task import Batch, Init, Metric, Named, Task

if TYPE_CHECKING:
    from covey.data.samples import Federated, Samples


def correct(prediction: Tensor, target: Tensor) -> Tensor:
    """1 where the largest score is the target's, else 0: accuracy, per sample."""
    return (prediction.argmax(dim=-1) == target).double()


def _cross_entropy_per_sample(prediction: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(prediction, target, reduction="none")


class ModuleTask(Task):
    """See `Task.from_module`."""

    def __init__(
        self,
        module: nn.Module,
        data: Federated,
        personal: str | Sequence[str],
        loss: Callable[[Tensor, Tensor], Tensor] | None,
        metrics: Mapping[str, Metric] | None,
        statistics: Literal["group", "personal"],
    ) -> None:
        self.module = copy.deepcopy(module)
        self._data = data
        self.loss_per_sample = _cross_entropy_per_sample if loss is None else None
        self._loss = loss or F.cross_entropy
        self.metrics = {"accuracy": correct} if metrics is None and loss is None else dict(metrics or {})
        self._statistics: Literal["group", "personal"] = statistics
        names = [name for name, p in self.module.named_parameters() if p.requires_grad]
        if not names:
            raise BadInput("The module has no parameter that requires a gradient, so there is nothing to train.")
        self._personal = personal_names(names, personal)
        self._prefixes = tuple(p.rstrip(".") + "." for p in ([personal] if isinstance(personal, str) else personal))
        probe = _Probe(self.module, data.train)
        if loss is None:
            _require_labels(data, probe.outputs)
        self._moving, self.seeded, self._has_dropout = probe.moving, probe.random, probe.dropout
        self._counters = {name: b for name, b in self.module.named_buffers() if name in probe.counting}
        self.keyed = self.seeded or self._has_dropout
        norms = [m for m in self.module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]  # pyright: ignore[reportPrivateUsage]
        if any(m.momentum is None and m.track_running_stats for m in norms):
            raise BadInput(
                "BatchNorm(momentum=None) counts batches, which cannot be averaged over peers; give it a momentum."
            )
        self.smallest_batch = 2 if norms else 1
        if self.seeded:
            self.why_alone = "its forward pass draws random numbers other than dropout"
        self.layout = self._make_layout()

    def _make_layout(self) -> Layout:
        parameters = {name: p.shape for name, p in self.module.named_parameters() if p.requires_grad}
        statistics = {name: b.shape for name, b in self.module.named_buffers() if name in self._moving}
        kept = {n for n in statistics if self._statistics == "personal" or n.startswith(self._prefixes)}
        return Layout(parameters, statistics, self._personal | kept)

    def head(self) -> tuple[str, int]:
        """The name of the submodule that makes the output from its one input, and that `personal` names; and how many
        scores it gives."""
        names = [prefix.rstrip(".") for prefix in self._prefixes]
        heads = [name for name, _ in self.module.named_modules() if name in names and name]
        if len(names) != 1 or not heads:
            raise BadInput(
                f"A second head stands beside the last layer, but personal={tuple(names)} does not name one submodule; "
                "name that layer, as in personal='head'."
            )
        own, said = copy.deepcopy(self.module).eval(), []
        own.get_submodule(names[0]).register_forward_hook(lambda module, given, made: said.append(made))
        x, _ = self.train.batch(torch.zeros(1).long(), torch.zeros(1, 1).long())
        with torch.no_grad():
            made = own(x[0].to(next(own.parameters()).device))
        if len(said) != 1 or said[0] is not made or made.dim() != 2:
            raise BadInput(
                f"A second head stands beside the last layer, but the module's output is not a row of scores that "
                f"'{names[0]}' makes; name the layer that makes them."
            )
        return names[0], made.shape[1]

    @property
    def data(self) -> Federated:
        return self._data

    @property
    def train(self) -> Samples:
        return self._data.train

    def start(self, ids: Tensor, seed: int, init: Init) -> Tensor:
        tensors = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        rows = self.layout.pack(tensors).expand(len(ids), -1).clone()
        if init == "common":
            return rows.to(self.train.arrays[0].device)
        columns = self.layout.columns("all" if init == "all" else "personal")
        for row, own in zip(rows, make_key(seed, "init", ids).tolist(), strict=True):
            fresh = _initialised_again(self.module, own)
            tensors = dict(fresh.named_parameters()) | dict(fresh.named_buffers())
            row[columns] = self.layout.pack(tensors)[columns]
        return rows.to(self.train.arrays[0].device)

    def _forward(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(self.module, dict(tensors), (x,))

    def loss_at(self, parameters: Named, statistics: Named, batch: Batch, key: Tensor) -> tuple[Tensor, Named]:
        x, y = batch
        after = {name: value.clone() for name, value in statistics.items()}
        self.module.train()
        counters = {name: value.clone() for name, value in self._counters.items()}  # the pass may count; nobody reads
        tensors = {**parameters, **after, **counters}
        if self._has_dropout:
            with KeyedDropout(key):
                prediction = self._forward(tensors, x)
        else:
            prediction = self._forward(tensors, x)
        return self._loss(prediction, y), after

    def bind(self, parameters: Named, statistics: Named) -> Callable[[Batch, Tensor], Tensor]:
        own = self._alias({**parameters, **statistics})
        own.train()

        def loss(batch: Batch, key: Tensor) -> Tensor:
            x, y = batch
            if self.seeded:
                torch.manual_seed(int(key))
            if self._has_dropout:
                with KeyedDropout(key):
                    return self._loss(own(x), y)
            return self._loss(own(x), y)

        return loss

    def _alias(self, tensors: Mapping[str, Tensor]) -> nn.Module:
        """A copy of the module whose parameters and statistics are these very tensors."""
        own = copy.deepcopy(self.module)
        names = _names(own)
        for name, value in tensors.items():
            if name in names and not isinstance(value, nn.Parameter):
                value = nn.Parameter(value, requires_grad=False)
            for each in names.get(name, [name]):
                home, _, last = each.rpartition(".")
                setattr(own.get_submodule(home), last, value)
        return own

    def predict_at(self, parameters: Named, statistics: Named, x: Tensor) -> Tensor:
        self.module.eval()
        return self._forward({**parameters, **statistics}, x)

    def bind_prediction(self, parameters: Named, statistics: Named) -> Callable[[Tensor], Tensor]:
        return self._alias({**parameters, **statistics}).eval()

    def loss_of(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self._loss(prediction, target)

    def state_dict(self, row: Tensor) -> dict[str, Tensor]:
        own = {name: value.detach().clone() for name, value in self.module.state_dict().items()}
        names = _names(self.module)
        for name, value in super().state_dict(row).items():
            own |= {each: value.to(own[each].dtype) for each in names.get(name, [name])}
        return own

    def with_shared(self, tensors: Named) -> Task:
        own = self.layout.places("shared")
        for name, (_, _, *shape) in own.items():
            if name not in tensors or list(tensors[name].shape) != shape:
                found = list(tensors[name].shape) if name in tensors else "nothing of that name"
                raise BadInput(
                    f"The shared part of this module has '{name}' of shape {shape}, where the run shares {found}; take "
                    "the module of the run, and for personal at least what it had."
                )
        task = copy.copy(self)
        task.module = copy.deepcopy(self.module)
        with torch.no_grad():
            held = dict(task.module.named_parameters()) | dict(task.module.named_buffers())
            for name in own:
                held[name].copy_(tensors[name])
        return task

    def hold_out(self, fraction: float, seed: int) -> Task:
        task = copy.copy(self)
        task._data = self._data.hold_out(fraction, seed)
        return task

    def digest(self) -> str:
        parts = (self._data.train, self._data.test, self._data.validation)
        numbers = [t for part in parts if part is not None for t in (*part.arrays, part.index, part.starts)]
        return digest(repr(self.module), self._loss, *numbers)

    def whole(self) -> Task:
        task = copy.copy(self)
        task._personal, task._prefixes = frozenset(), ()
        task.layout = task._make_layout()
        return task

    def centralised(self) -> Task:
        task = copy.copy(self)
        task._data = self._data.centralised()
        return task

    def select(self, ids: Tensor) -> Task:
        task = copy.copy(self)
        task._data = self._data.select(ids)
        return task

    def to(self, device: torch.device | str) -> Task:
        task = copy.copy(self)
        task._data = self._data.to(device)
        task.module = copy.deepcopy(self.module).to(device)
        task._counters = {name: b.to(device) for name, b in self._counters.items()}
        return task

    def describe(self) -> dict[str, Any]:
        return {"module": type(self.module).__name__, "personal_names": sorted(self._personal)} | super().describe()


def _names(module: nn.Module) -> dict[str, list[str]]:
    """The name of each parameter -> all its names: a tied weight has several."""
    first = {id(p): name for name, p in module.named_parameters()}
    names: dict[str, list[str]] = {}
    for name, p in module.named_parameters(remove_duplicate=False):
        names.setdefault(first[id(p)], []).append(name)
    return names


class _Probe:
    """One forward pass on a copy, to learn which buffers are statistics and whether the pass is random."""

    def __init__(self, module: nn.Module, samples: Samples) -> None:
        own = copy.deepcopy(module).train()
        count = min(int(samples.counts.max()), 4)
        x, _ = samples.batch(samples.counts.argmax()[None], torch.arange(count)[None])
        before = {name: b.clone() for name, b in own.named_buffers()}
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            state = torch.get_rng_state()
            self._run(own, x[0])
            plain_is_random = not torch.equal(state, torch.get_rng_state())
            state = torch.get_rng_state()
            with KeyedDropout(make_key(0)):
                self.outputs = self._run(own, x[0]).shape[1:2]  # the axis of the classes
            self.random = not torch.equal(state, torch.get_rng_state())
        self.dropout = plain_is_random
        moved = {name: b for name, b in own.named_buffers() if not torch.equal(b, before[name])}
        self.moving = {name for name, b in moved.items() if b.is_floating_point()}
        self.counting = moved.keys() - self.moving

    @staticmethod
    def _run(module: nn.Module, x: Tensor) -> Tensor:
        try:
            return module(x)
        except Exception as problem:
            shape = tuple(x.shape)
            raise BadInput(
                f"The module cannot take a batch of shape {shape} and type {x.dtype} ({problem}); "
                "check the size and the type of the inputs against the model."
            ) from problem


def _require_labels(data: Federated, outputs: tuple[int, ...]) -> None:
    """Cross-entropy wants labels that are numbers of outputs (or -100, which it ignores)."""
    for samples, which in ((data.train, "training"), (data.test, "test")):
        y = samples.arrays[1][samples.index]
        if y.is_floating_point() or not outputs or not len(y):
            continue
        wrong = ((y < 0) | (y >= outputs[0])) & (y != -100)
        if bool(wrong.any()):
            raise BadInput(
                f"There is a {which} label {int(y[wrong][0])}, but the module has {outputs[0]} outputs; labels run "
                f"from 0 to {outputs[0] - 1}."
            )


def _initialised_again(module: nn.Module, seed: int) -> nn.Module:
    """A copy with every submodule that knows how to reset its parameters reset, from its own seed."""
    own = copy.deepcopy(module)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        reset: set[str] = set()
        for name, part in own.named_modules():
            again = getattr(part, "reset_parameters", None)
            if callable(again):
                again()
                reset |= {f"{name}.{p}" if name else p for p, _ in part.named_parameters(recurse=True)}
    left = [name for name, p in own.named_parameters() if p.requires_grad and name not in reset]
    if left:
        warnings.warn(f"These parameters have no reset_parameters and start equal on all peers: {left}.", stacklevel=3)
    return own
