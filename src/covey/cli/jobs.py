"""One run: from its settings to the task, the graph and the method, all checked before anything is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from covey import data, graphs, models
from covey.algorithms import Algorithm, Local
from covey.cli import methods
from covey.cli.clock import clock_of
from covey.cli.compression import compressible
from covey.cli.settings import Compare, Run, Settings
from covey.cli.traces import numbers, trace
from covey.engine import Clock, simulate
from covey.engine.checks import require_device
from covey.engine.folder import Folder
from covey.engine.run import Entry
from covey.errors import BadInput
from covey.graphs import Graph
from covey.per_peer import Numbers
from covey.report import Record
from covey.tasks import Task

OnRound = Callable[[int, Entry | None], None]


@dataclass(frozen=True)
class Job:
    """A run that can start: a method, a task, a graph, and where it is written."""

    settings: Run
    algorithm: Algorithm
    task: Task
    graph: Graph
    folder: Path | None
    clock: Clock | None = None
    work: Numbers | None = None

    @property
    def label(self) -> str:
        seed = f" seed {self.settings.seed}" if self.settings.seeds else ""
        return f"{self.settings.algorithm}{seed}"

    def run(self, on_round: OnRound) -> Record:
        """Train, or go on, or only read what is finished already."""
        s, folder = self.settings, self.folder
        if folder is not None and Record.finished(folder, s.rounds):
            return Record.read(folder)
        goes_on = folder is not None and s.resume is not None and (folder == s.resume or _has_begun(folder))
        command = replace(s, seeds=None).kept()
        run = simulate(
            self.algorithm, self.task, self.graph, s.rounds, s.seed, s.device, out=None if goes_on else folder,
            resume=folder if goes_on else None, evaluate_every=s.evaluate_every, target=s.target, init=s.init,
            validation=s.validation, chunk=_chunk(s.chunk), exact=s.exact, clock=self.clock, work=self.work,
            allow_unsound=s.allow_unsound, checkpoint_every=s.checkpoint_every, on_round=on_round, command=command,
            theory=s.theory, gradient_below=s.gradient_below, similarity=s.similarity,
        )  # fmt: skip
        return Record.of(run)


def jobs_of(settings: Run | Compare) -> list[Job]:
    """Every run that a command asks for, method by method. Refuses what cannot run; writes nothing."""
    runs = _of_compare(settings) if isinstance(settings, Compare) else [settings]
    seeds = settings.all_seeds()
    target = settings.resume or settings.out
    if settings.resume is None and target is not None:
        Folder(target).require_empty()
    _chunk(settings.chunk)
    require_device(settings.device)
    if settings.threads is not None and settings.threads < 1:
        raise BadInput(f"--threads {settings.threads} must be 1 or more.")
    algorithms = [methods.build(one.algorithm, one) for one in runs]
    tasks = {seed: _task(settings, seed) for seed in seeds}
    found: list[Job] = []
    for run, algorithm in zip(runs, algorithms, strict=True):
        for seed in seeds:
            task = tasks[seed]
            algorithm.prepare(task)  # refuses a task that the method cannot learn
            name = _graph_name(settings, algorithm, len(task.train))
            graph = graphs.parse(name, len(task.train))
            if settings.absent is not None and algorithm.needs != "centre":  # a place, and no peer that comes and goes
                graph = _with_absences(graph, settings.absent)
            bound = graph.bound(seed, task.train.counts)
            graphs.check(bound, algorithm.needs, type(algorithm).__name__, run.allow_unsound)
            own = replace(run, graph=name, seed=seed)
            several = isinstance(settings, Compare) or len(seeds) > 1
            folder = _folder(target, own, several, len(seeds) > 1)
            n = len(task.train)
            work = numbers("--work", settings.work, n, _factor)
            found.append(Job(own, algorithm, task, graph, folder, clock_of(settings, n), work))
    return found


def _of_compare(settings: Compare) -> list[Run]:
    """The runs that are compared; a field given by --with goes to the methods that have it."""
    if len(set(settings.algorithms)) < len(settings.algorithms):
        raise BadInput("A method is named twice; name each once.")
    if not settings.algorithms:
        raise BadInput("Name the methods to compare, such as: covey compare local fedavg dfedalt.")
    own = [methods.own_fields(methods.find(name)) for name in settings.algorithms]
    for field in methods.extras(settings):
        if not any(field in one for one in own):
            every = sorted({name for one in own for name in one})
            raise BadInput(f"None of these methods has a field '{field}' for --with; known are: {', '.join(every)}.")
    common: dict[str, Any] = {one.name: getattr(settings, one.name) for one in fields(Settings)}
    runs: list[Run] = []
    for name, known in zip(settings.algorithms, own, strict=True):
        extra = tuple(text for text in settings.extra if text.partition("=")[0].strip() in known)
        run = replace(Run(algorithm=name, **common), extra=extra)
        only = methods.find(name).habit.steps
        if only is not None and (settings.epochs is not None or settings.steps not in (None, only)):
            warnings.warn(f"{name} takes {only} step a round, whatever the others take.", stacklevel=2)
            run = replace(run, steps=only, epochs=None)
        plain = replace(run, compress=None, trigger=None, gamma=None, feedback=False)
        if "compressor" in known or settings.compress is None or compressible(methods.build(name, plain)):
            runs.append(run)
        else:  # Local and methods with a server are compared as they are
            runs.append(plain)
    return runs


def _graph_name(settings: Run | Compare, algorithm: Algorithm, n: int) -> str:
    """Local speaks to nobody; a comparison has a graph for each kind of method, a run has the one that is given."""
    needs = algorithm.needs
    usual = {"server": "server", "any": "isolated", "centre": "centre", "changing": "epidemic"}
    if isinstance(settings, Run):
        return settings.graph or usual.get(needs, "ring")
    if isinstance(algorithm, Local) or needs == "centre":
        return usual[needs]
    if needs == "changing" and graphs.parse(settings.graph, n).fixed:
        return usual[needs]
    directed = settings.directed or settings.graph
    apart = {"server": settings.server, "column-or-pull": directed, "column-fixed": directed}
    return apart.get(needs, settings.graph)


def _task(settings: Settings, seed: int) -> Task:
    s = settings
    if s.model not in models.NAMES:
        models.build(s.model, _NOTHING)  # refused before data are read
    federated = data.load(s.data, peers=s.peers or None, partition=s.partition, seed=seed, samples=s.samples)
    module = models.build(s.model, federated, seed)
    return Task.from_module(module, federated, personal=personal_of(module, s))


def personal_of(module: nn.Module, settings: Settings) -> str | tuple[str, ...]:
    """The head, unless the model is nothing else."""
    if settings.personal is not None:
        return tuple(part.strip() for part in settings.personal.split(",") if part.strip())
    if all(name.startswith("head.") for name, _ in module.named_parameters()):
        warnings.warn(f"The model '{settings.model}' is all head, so all of it is shared.", stacklevel=2)
        return ()
    return "head"


_NOTHING: Any = None


def _folder(target: Path | None, own: Run, several: bool, seeds: bool) -> Path | None:
    if target is None or not several:
        return target
    return target / (f"{own.algorithm}-seed-{own.seed}" if seeds else own.algorithm)


def _with_absences(graph: Graph, text: str) -> Graph:
    if text.endswith(".json"):
        return graphs.absent(graph, trace("--absent", text))
    try:
        probability = float(text)
    except ValueError:
        raise BadInput(f"--absent {text} is neither a probability, such as 0.2, nor a .json file.") from None
    return graphs.absent(graph, probability)


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"--work {text} is no factor, such as 2 or 0.5.") from None


def _has_begun(folder: Path) -> bool:
    """Whether there is something to go on with. One of several runs that stopped before its first checkpoint begins
    anew: what it wrote so far goes."""
    if (folder / "checkpoint" / "latest.json").exists():
        return True
    for name in ("config.toml", "metrics.jsonl"):
        (folder / name).unlink(missing_ok=True)
    return False


def _chunk(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    parts = text.split(":")
    if len(parts) > 2 or not all(part.isdigit() and int(part) for part in parts):
        raise BadInput(f"--chunk {text} should be a number of peers, such as 8.")
    numbers = [int(part) for part in parts]
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
