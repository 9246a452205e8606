"""From peer.toml to what runs: the algorithm, the task, the graph, the accord and the transport of one peer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, cast, get_type_hints

import torch
from torch import nn

from covey import data, graphs, models
from covey.algorithms import Algorithm
from covey.cli import methods
from covey.cli.jobs import personal_of
from covey.cli.settings import Run, fits
from covey.data import Federated
from covey.engine.checks import require_device
from covey.errors import BadInput
from covey.graphs import Graph
from covey.network.accord import Accord, accord_of
from covey.network.peer import require_common_step
from covey.network.settings import Settings
from covey.network.tables import nearest
from covey.tasks import Task

# What `covey run` calls the parts of an algorithm; `with` is the list of its --with
_WORDS = ("lr", "steps", "epochs", "batch", "momentum", "nesterov", "weight_decay", "clip", "decay", "sam", "rho",
          "head_lr", "head_steps", "head_epochs", "compress", "trigger", "gamma", "feedback", "with")  # fmt: skip
_THINGS = 4  # rows of the model that one message holds at most: the shared rows, momentum, a tracker, duals


@dataclass(frozen=True)
class Site:
    """One peer, ready to run."""

    settings: Settings
    algorithm: Algorithm
    task: Task
    graph: Graph
    accord: Accord

    @property
    def largest(self) -> int:
        """Bytes of a frame that a neighbour may send."""
        return _THINGS * 8 * self.task.layout.width + (1 << 20)


def site_of(settings: Settings, home: Path) -> Site:
    """Everything checked that can be without the network."""
    require_device(settings.run.device)
    command = _command(settings)
    algorithm = methods.build(command.algorithm, command)
    require_common_step(algorithm)
    n, run = len(settings.roster), settings.run
    graph = graphs.parse(run.graph, n)
    if graph.hub or algorithm.needs == "server":
        raise BadInput(
            f"{command.algorithm} on {run.graph} needs a server, and nobody is in the middle here; use gossip."
        )
    graph = graph.bound(run.seed, torch.ones(n, dtype=torch.int64))
    graphs.check(graph, algorithm.needs, type(algorithm).__name__, run.allow_unsound)
    _require_neighbours(settings, graph)
    own = _samples(settings, home)
    module = _module(settings, own, home)
    task = Task.from_module(module, own, personal=personal_of(module, command))
    prepared = algorithm.prepare(task)
    return Site(settings, algorithm, task, graph, accord_of(algorithm, prepared, graph, settings))


def _command(settings: Settings) -> Run:
    """The table [algorithm] as `covey run` would have been asked for it."""
    given = {key: value for key, value in settings.algorithm.items() if key != "name"}
    if type(given.get("gamma")) in (int, float):
        given["gamma"] = str(given["gamma"])  # a number or a name, and on the command line both are words
    hints = get_type_hints(Run)
    for key, value in given.items():
        if key not in _WORDS:
            raise BadInput(f"There is no setting '{key}' in [algorithm]; {nearest(key, _WORDS)}")
        wanted = hints["extra" if key == "with" else key]
        if not fits(tuple(cast("list[Any]", value)) if isinstance(value, list) else value, wanted):
            raise BadInput(f"{key} = {value!r} in [algorithm] is not what `covey run --{key.replace('_', '-')}` takes.")
    given["extra"] = tuple(given.pop("with", ()))
    personal = None if settings.model.personal is None else ",".join(settings.model.personal)
    known = {one.name for one in fields_of(Run)}
    assert known >= given.keys()
    return Run(algorithm=settings.algorithm["name"], model=settings.model.name or "entry", personal=personal, **given)


def _samples(settings: Settings, home: Path) -> Federated:
    own = settings.data
    classes = own.classes or (len(own.labels) or None)
    if own.file is not None:
        return data.load_own(own.file, classes)
    made = _entry(own.entry or "", home)()
    if isinstance(made, Federated):
        if len(made) != 1:
            raise BadInput(f"{own.entry} returns the data of {len(made)} peers; return this peer's own.")
        return made
    if not isinstance(made, list | tuple):
        raise BadInput(f"{own.entry} returns {type(made).__name__}; return (x, y, x_test, y_test).")
    return data.from_peers([cast(Any, made)], classes=classes, name=own.entry or "")


def _module(settings: Settings, own: Federated, home: Path) -> nn.Module:
    if settings.model.name is not None:
        return models.build(settings.model.name, own, settings.run.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.run.seed)
        made = _entry(settings.model.entry or "", home)()
    if not isinstance(made, nn.Module):
        raise BadInput(f"{settings.model.entry} returns {type(made).__name__}; return a torch.nn.Module.")
    return made


def _entry(name: str, home: Path) -> Callable[[], Any]:
    """The function that "package.module:function" names; modules beside peer.toml are found, too."""
    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise BadInput(f"The entry '{name}' should be written package.module:function.")
    if str(home) not in sys.path:
        sys.path.insert(0, str(home))
    try:
        found = getattr(importlib.import_module(module), function)
    except ImportError as problem:
        raise BadInput(f"The entry '{name}' cannot be imported ({problem}).") from problem
    except AttributeError:
        raise BadInput(f"The module {module} has no '{function}', which the entry '{name}' names.") from None
    if not callable(found):
        raise BadInput(f"The entry '{name}' is no function.")
    return found


def _require_neighbours(settings: Settings, graph: Graph) -> None:
    """All whom the graph gives this peer are listed, and on a fixed graph nobody else."""
    me, roster = settings.roster.index(settings.name), settings.roster
    met: set[int] = {me}
    for t in range(1 if graph.fixed else settings.run.rounds):
        row, column, _ = graph.round(t).weights.entries()
        met |= set(column[row == me].tolist()) | set(row[column == me].tolist())
        if len(met) == len(roster):
            break
    wanted, listed = {roster[k] for k in met - {me}}, [one.name for one in settings.neighbours]
    for name in (one for one in roster if one in wanted and one not in listed):
        raise BadInput(
            f"On the graph {graph.name}, {name} is a neighbour of {settings.name}; add it to [[neighbours]]."
        )
    for name in (one for one in listed if graph.fixed and one not in wanted):
        raise BadInput(f"On the graph {graph.name}, {name} is no neighbour of {settings.name}; take it out.")
