"""The simulator: one process plays all peers, round after round.

for t in rounds:   train | look | exchange | look        each round also writes what it must to go on after a stop
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from covey import per_peer
from covey.algorithms.algorithm import Algorithm
from covey.engine import checkpoint
from covey.engine.checks import require_kinds, require_numbers, require_state
from covey.engine.clock import Clock
from covey.engine.folder import Folder
from covey.engine.look import Looker
from covey.engine.round import play
from covey.engine.run import Entry, Run
from covey.engine.settings import described, identity, resolved
from covey.engine.theory import Theory
from covey.engine.timeline import Timeline
from covey.errors import BadInput
from covey.graphs.graph import Graph
from covey.graphs.soundness import check
from covey.link import InProcessLink
from covey.peers import Peers
from covey.per_peer import Numbers
from covey.tasks.task import Init, Task
from covey.traffic import Traffic
from covey.training.pace import Pace

_THIN = 0.05  # push-sum mass under which the effective rate lr / mass deserves a warning
_FACTOR = "factors above 0 (who does nothing in a round is absent: covey.graphs.absent)"
_CHECKPOINT_SHARE = 20  # a checkpoint is written when the time since the last one is this many times its cost


def simulate(
    algorithm: Algorithm,
    task: Task,
    graph: Graph,
    rounds: int = 50,
    seed: int = 0,
    device: str = "cpu",
    *,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    evaluate_every: int = 1,
    target: float | None = None,
    init: Init = "common",
    validation: float = 0.0,
    chunk: int | tuple[int, int] | None = None,
    exact: bool = False,
    clock: Clock | None = None,
    work: Numbers | None = None,
    allow_unsound: bool = False,
    checkpoint_every: int | None = None,
    on_round: Callable[[int, Entry | None], None] | None = None,
    command: Mapping[str, Any] | None = None,
    theory: bool = False,
    gradient_below: float | None = None,
    similarity: bool = False,
) -> Run:
    """Let the peers of `task` train by `algorithm` over `graph`.

    out             a new folder for what the run writes; resume: the folder of a run that stopped, to go on exactly
    evaluate_every  rounds between looks; the last round is always looked at
    target          the accuracy (for a task without one: the loss) whose first round is reported
    init            what starts different at each peer: nothing, the personal part ("heads"), or all
    validation      the part of each peer's training samples that is set aside and reported as `validation`
    chunk           peers worked on at once, or (that, the fewest worth a stacked call); measured at the start where it
                    is not given, and then written into the run's settings as `pace`
    exact           add messages in the senders' order, as peers on a network do: bit-equal to them
    clock           how fast peers and lines are: the history then also has simulated seconds and joules
    work            how many times the steps (or epochs) of each phase a peer does, for machines of unequal strength: a
                    factor per peer, such as covey.groups(20, (1, 2, 3, 4, 5)), or a table of rounds by peers
    allow_unsound   run on a graph that breaks what the method assumes; the run's notes say so
    checkpoint_every  rounds between checkpoints; by default as often as costs at most a twentieth of the time
    on_round        called with the round's number, and its entry of the history where there was a look
    command         what the command line was asked for, kept in config.toml
    theory          at every look, gradients over all data: the entry's `theory` (see `covey.measure.stationarity`)
    gradient_below  the gradient whose last undercutting is reported as the convergence time; asks for `theory`
    similarity      cosines between peers at the end, in summary() and in similarity.npz (`covey.measure.similarity`)
    """
    simulation = _Simulation(algorithm, task, graph, rounds, seed, device, init, validation, chunk, exact,
                             clock, work, allow_unsound, evaluate_every, target, command, checkpoint_every, theory,
                             gradient_below, similarity)  # fmt: skip
    return simulation.run(out, resume, on_round)


class _Simulation:
    def __init__(
        self, algorithm: Algorithm, task: Task, graph: Graph, rounds: int, seed: int, device: str, init: Init,
        validation: float, chunk: int | tuple[int, int] | None, exact: bool, clock: Clock | None,
        work: Numbers | None, allow_unsound: bool, evaluate_every: int, target: float | None,
        command: Mapping[str, Any] | None, checkpoint_every: int | None, theory: bool, gradient_below: float | None,
        similarity: bool,
    ) -> None:  # fmt: skip
        require_kinds(algorithm, task, graph, device, clock)
        counts = {"rounds": rounds, "evaluate_every": evaluate_every, "checkpoint_every": checkpoint_every}
        require_numbers(counts, target, task)
        if gradient_below is not None and not 0 < gradient_below < math.inf:
            raise BadInput(f"gradient_below={gradient_below} is no norm to fall below; use a number above 0.")
        if chunk is not None and min(chunk if isinstance(chunk, tuple) else (chunk,)) < 1:
            raise BadInput(f"chunk={chunk} must be 1 or more peers.")
        if init not in ("common", "heads", "all"):
            raise BadInput(f"init='{init}' is none of 'common', 'heads' and 'all'.")
        if init == "all" and algorithm.needs == "server":
            raise BadInput(
                f"{type(algorithm).__name__} has one model at the server, from which all peers start; use "
                "init='common', or 'heads' where heads are personal."
            )
        n = len(task.train)
        if graph.n != n:
            raise BadInput(f"The graph {graph.name} has {graph.n} peers, but the data are divided among {n}.")
        task = algorithm.prepare(task if validation == 0 else task.hold_out(validation, seed)).to(device)
        graph = graph.bound(seed, task.train.counts.cpu())
        note = check(graph, algorithm.needs, type(algorithm).__name__, allow_unsound)
        self.algorithm, self.rounds = algorithm, rounds
        self.evaluate_every, self.checkpoint_every = evaluate_every, checkpoint_every
        self.notes = [] if note is None else [note]
        pace = None if chunk is None else Pace(*chunk) if isinstance(chunk, tuple) else Pace.fixed(chunk)
        share = None if work is None else per_peer.checked("work=…", work, lambda w: (w > 0) & w.isfinite(), _FACTOR)
        table = None if share is None else per_peer.table("work", share, n)
        self.peers = Peers(task, torch.arange(n), n, seed, init, pace, table)
        self.link = InProcessLink(graph, exact)
        self.timeline = None if clock is None else Timeline(clock, n)
        self.seconds = {"train": 0.0, "exchange": 0.0, "evaluate": 0.0}
        self.settings = resolved(algorithm, task, graph, self.peers, {
            "rounds": rounds, "seed": seed, "device": device, "init": init, "validation": validation,
            "evaluate_every": evaluate_every, "target": target, "exact": exact, "allow_unsound": allow_unsound,
            "clock": described(clock), "work": None if share is None else described(per_peer.plain(share)),
            "theory": theory or gradient_below is not None,
            "gradient_below": gradient_below, "similarity": similarity, "notes": self.notes,
        }, command)  # fmt: skip
        self.looker = Looker(algorithm, self.peers, self.link)
        self.theory = Theory(algorithm, self.peers) if self.settings["run"]["theory"] else None
        self.history: list[Entry] = []
        self.first_round = 0

    def run(self, out: str | Path | None, resume: str | Path | None,
            on_round: Callable[[int, Entry | None], None] | None) -> Run:  # fmt: skip
        folder = Folder(resume) if resume is not None else None if out is None else Folder(out)
        if resume is not None:
            self._resume(Folder(resume))
        else:
            if folder is not None:
                folder.require_empty()
            self.algorithm.start(self.peers, self.link)
            self._tick(0)
        require_state(self.peers)
        written, cost = time.perf_counter(), 0.0
        for t in range(self.first_round, self.rounds):
            entry = self._round(t)
            if entry is not None:
                self.history.append(entry)
            if folder is not None:
                if t == self.first_round:  # not before: what is refused in its first round leaves nothing behind
                    self._settle_pace()
                    folder.begin(self.settings)
                if entry is not None:
                    folder.append(entry)
                now = time.perf_counter()
                due = now - written >= _CHECKPOINT_SHARE * cost
                every = self.checkpoint_every
                if t + 1 == self.rounds or (due if every is None else (t + 1) % every == 0):
                    self._save(folder)
                    written = time.perf_counter()
                    cost = written - now
            if on_round is not None:
                on_round(t + 1, entry)
        self._settle_pace()
        rows = next(self.algorithm.models(self.peers))[1]
        run = Run(self.peers, rows, self.link.traffic, self.settings, self.history, self.looker.scores)
        if folder is not None:
            folder.finish(run)
        return run

    def _settle_pace(self) -> None:
        pace = self.peers.pace
        if pace is not None:
            self.settings["run"]["pace"] = [pace.chunk, pace.stack_from]

    def _round(self, t: int) -> Entry | None:
        peers, link = self.peers, self.link
        looked = (t + 1) % self.evaluate_every == 0 or t + 1 == self.rounds
        entry: Entry = {"round": t + 1}
        acts = play(self.algorithm, peers, link, t)
        next(acts)
        theory = self.theory if looked else None
        if theory is not None:
            with self._timed("evaluate"):
                theory.begin()
        with self._timed("train"):
            next(acts)
        if looked:
            with self._timed("evaluate"):
                entry |= self.looker.trained()
                if theory is not None:
                    entry["theory"] = theory.trained()
        with self._timed("exchange"):
            next(acts)
        self._tick(t)
        if not looked:
            return None
        with self._timed("evaluate"):
            entry |= self.looker.mixed()
            if theory is not None:
                entry["theory"] |= theory.mixed()
        if "mass" in entry and entry["mass"] < _THIN:
            warnings.warn(
                f"Round {t + 1}: the smallest push-sum mass is {entry['mass']:.2g}, so that peer's rate is "
                f"{1 / entry['mass']:.0f} times the given one; use more out-neighbours or a smaller lr.",
                stacklevel=4,
            )
        if self.timeline is not None:
            entry["clock"] = self.timeline.cost(link.traffic)
        entry["seconds"] = {name: round(value, 6) for name, value in self.seconds.items()}
        return entry

    def _tick(self, t: int) -> None:
        if self.timeline is not None:
            self.timeline.round(t, self.link.round, self.peers.effort, self.link.traffic.said)

    def _timed(self, what: str) -> _Timed:
        return _Timed(self.seconds, what)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        return identity(self.settings, self.peers.task, self.link.graph)

    def _save(self, folder: Folder) -> None:
        peers = self.peers
        tensors = {"rows": peers.rows}
        tensors |= {f"state/{name}": value for name, value in peers.state.items()}
        tensors |= {f"in_flight/{name}": value for name, value in self.link.in_flight.items()}
        if self.timeline is not None:
            tensors |= {f"clock/{name}": value for name, value in self.timeline.tensors().items()}
        pace = None if peers.pace is None else [peers.pace.chunk, peers.pace.stack_from]
        meta = {"identity": self._identity, "traffic": self.link.traffic.as_dict(), "pace": pace,
                "shared": peers.task.layout.places("shared"), "seconds": self.seconds}  # fmt: skip
        checkpoint.save(folder.checkpoint, peers.round, tensors, meta)

    def _resume(self, folder: Folder) -> None:
        saved = checkpoint.load(folder.checkpoint)
        checkpoint.require_same(saved.meta["identity"], self._identity, folder.path)
        if saved.round > self.rounds:
            raise BadInput(f"{folder.path} has done {saved.round} rounds already; ask for more than that.")
        peers, device = self.peers, self.peers.rows.device
        tensors = dict(saved.tensors)
        peers.rows = tensors.pop("rows").to(device)
        moments: dict[str, torch.Tensor] = {}
        into = {"state": peers.state, "in_flight": self.link.in_flight, "clock": moments}
        for name, value in tensors.items():
            kind, _, rest = name.partition("/")
            counted = kind == "clock" or rest.startswith("steps/")  # what is counted stays on the CPU
            into[kind][rest] = value if counted else value.to(device)
        if self.timeline is not None:
            self.timeline.restore(moments)
        if saved.meta["pace"] is not None:
            peers.pace = Pace(*saved.meta["pace"])
        self.link.traffic = Traffic.from_dict(saved.meta["traffic"])
        self.seconds = dict(saved.meta["seconds"])
        self.history = folder.history_until(saved.round)
        self.first_round = peers.round = saved.round


class _Timed:
    """Adds the seconds of a block to a ledger; waits for the device, so that each block pays for itself."""

    def __init__(self, ledger: dict[str, float], what: str) -> None:
        self._ledger, self._what, self._begin = ledger, what, 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        self._ledger[self._what] += time.perf_counter() - self._begin
