"""A real peer: one row, its own data, its neighbours elsewhere.

    train  →  look  →  exchange  →  commit  →  look          in the order of `covey.engine.round`

The round's row is on disk before the next one begins, so whatever kills the process costs the round under way at most:
it is played again, says the same, and goes on. Whoever stayed away for longer finds that its neighbours went on, and
joins them in the round in which they are.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from covey.algorithms.algorithm import Algorithm
from covey.engine.checks import require_kinds, require_numbers, require_state
from covey.engine.folder import Folder
from covey.engine.look import Looker
from covey.engine.round import play
from covey.engine.run import Entry, Run
from covey.engine.settings import resolved
from covey.errors import BadInput
from covey.exchange import Compressed
from covey.graphs.graph import Graph
from covey.graphs.soundness import check
from covey.network.link import NetworkLink
from covey.network.post import Post
from covey.network.status import Neighbour, Status
from covey.network.store import Commit, Store, Sync
from covey.network.transport import Transport
from covey.peers import Peers
from covey.tasks.task import Init, Task
from covey.traffic import Traffic
from covey.training.pace import Pace

_STEADFAST = 30.0
log = logging.getLogger("covey.network")


class Peer:
    """One peer of a run.

    task       its own data alone, or that of all peers, of which it takes its own
    roster     the names of all peers, in the same order everywhere; `me` is one of them, its place is its row
    transport  what connects it with its neighbours (see `transport.py`); started by `run`, closed at its end
    folder     its own: peer.db (see `store.py`), config.toml, metrics.jsonl, summary.json; a run that stopped goes on
    steadfast  the least seconds that a connected neighbour is given before a round goes on without it
    grace      the least seconds that a neighbour is given to come back after its connection fell
    sync       when a commit waits for the disk: against power failure, see `store.py`
    on_round   called with the number of rounds done, and the entry of metrics.jsonl where there was a look
    """

    def __init__(
        self, algorithm: Algorithm, task: Task, graph: Graph, me: str, *, roster: Sequence[str], transport: Transport,
        folder: str | Path, seed: int = 0, device: str = "cpu", init: Init = "common", evaluate_every: int = 1,
        allow_unsound: bool = False, steadfast: float = _STEADFAST, grace: float = 0.0, sync: Sync = "share",
        on_round: Callable[[int, Entry | None], None] | None = None,
    ) -> None:  # fmt: skip
        require_kinds(algorithm, task, graph, device)
        require_common_step(algorithm)
        require_numbers({"evaluate_every": evaluate_every}, None, task)
        place, n = _place(me, roster, graph, task)
        ids = torch.tensor([place])
        task = task.select(ids) if len(task.train) > 1 else task
        self.algorithm, self.me = algorithm, me
        task = algorithm.prepare(task).to(device)
        graph = graph.bound(seed, torch.ones(n, dtype=torch.int64))
        note = check(graph, algorithm.needs, type(algorithm).__name__, allow_unsound)
        self.peers = Peers(task, ids, n, seed, init, Pace.fixed(1))
        self.settings = resolved(algorithm, task, graph, self.peers, {
            "seed": seed, "device": device, "init": init, "evaluate_every": evaluate_every, "target": None,
            "allow_unsound": allow_unsound, "notes": [] if note is None else [note],
        }, None)  # fmt: skip
        self.run_id = _run_id(self.settings, graph, roster, task)
        self.folder = Folder(folder)
        self.evaluate_every, self.on_round = evaluate_every, on_round
        self.status = Status(me, self.run_id.hex())
        neighbours = _neighbours(graph, place, roster)
        self.status.neighbours = {name: Neighbour() for name in neighbours}
        self.store = Store(self.folder.path, self.run_id.hex(), sync)
        self.post = Post(self.run_id, neighbours, transport, self.store, self.status, steadfast, grace)
        self.link = NetworkLink(graph, place, roster, self.post)
        self.looker = Looker(algorithm, self.peers, self.link)
        self.history: list[Entry] = []
        self._stopping = False
        self.seconds = {"train": 0.0, "exchange": 0.0, "evaluate": 0.0, "commit": 0.0}

    def run(self, rounds: int) -> Run:
        """Play until so many rounds are done, all told; then stay until the neighbours have what they need of me."""
        require_numbers({"rounds": rounds}, None, self.peers.task)
        self.status.rounds = rounds
        try:
            t = self._begin()
            while t < rounds and not self._stopping:
                self._play(t, rounds)
                t = self._next(t + 1, rounds)
            self.status.doing = "finish"
            self.post.finish()  # raises where the peer was stopped
        except BaseException as problem:
            self.status.last_error = str(problem) or type(problem).__name__
            raise
        finally:
            self.status.doing = "end"
            self.post.close()
            self.store.close()
        rows = next(self.algorithm.models(self.peers))[1]
        self.settings["run"]["rounds"] = rounds
        done = Run(self.peers, rows, self.link.traffic, self.settings, self.history, self.looker.scores)
        if self.history:
            self.folder.finish(done, {"peer": self.me, "network": self.status.as_dict()})
        return done

    def stop(self) -> None:
        """End `run` with `Stopped`, from any thread or a signal: before the next round, or while it waits."""
        self._stopping = True
        self.post.stop()

    def _begin(self) -> int:
        """Take up what is on disk, or start; the first round to play."""
        found = self.store.load()
        if found is None:
            self.folder.begin(self.settings)
            self.post.open({})
            self.link.begin(-1)
            self.algorithm.start(self.peers, self.link)
            require_state(self.peers)
            self._commit(-1)
            return 0
        done, tensors, meta, taken = found
        self.peers.rows = tensors.pop("rows").to(self.peers.rows.device)
        for name, value in tensors.items():
            kind, _, rest = name.partition("/")
            where = self.peers.state if kind == "state" else self.link.copies.tensors
            where[rest] = value.to(self.peers.rows.device)
        self.link.traffic = Traffic.from_dict(meta["traffic"])
        self.link.pending = {tuple(one) for one in meta["pending"]}
        self.post.recall(meta["waits"], max(0.0, time.time() - meta["when"]))
        self.status.skipped = meta["skipped"]
        self.history = self.folder.history_until(done + 1)
        self.peers.round = done + 1
        self.post.open(taken)
        if self.store.said(done + 1, 0) is not None:
            return done + 1  # its neighbours may have used what it said: first it ends that round
        self.status.doing = "greet"
        self.post.greet()
        return self._next(done + 1, 1 << 62)

    def _next(self, t: int, rounds: int) -> int:
        """The round after this one; a later one where neighbours went on without me."""
        ahead = min(self.post.behind(), rounds)
        if ahead > t:
            log.warning("%s skips rounds %d to %d, in which its neighbours went on without it", self.me, t, ahead - 1)
            self.status.skipped += ahead - t
            self.peers.round = ahead
        return max(t, ahead)

    def _play(self, t: int, rounds: int) -> None:
        looked = (t + 1) % self.evaluate_every == 0 or t + 1 == rounds
        entry: Entry = {"round": t + 1}
        self.status.round = t
        begun = time.perf_counter()
        for point in play(self.algorithm, self.peers, self.link, t):
            begun = self._account(point, begun)
            if looked and point == "trained":
                entry |= self.looker.trained()
            elif point == "mixed":
                self._commit(t)
                begun = self._spent("commit", begun)
                if looked:
                    entry |= self.looker.mixed()
            begun = self._spent("evaluate", begun)
        self.status.losses = {phase: float(value.nanmean()) for phase, value in self.peers.losses.items()}
        if looked:
            entry["wire"] = self.post.wire()
            entry["seconds"] = {name: round(value, 6) for name, value in self.seconds.items()}
            self.history.append(entry)
            self.folder.append(entry)
        if self.on_round is not None:
            self.on_round(t + 1, entry if looked else None)

    def _account(self, point: str, begun: float) -> float:
        self.status.doing = {"begun": "train", "trained": "exchange", "mixed": "commit"}[point]
        return begun if point == "begun" else self._spent("train" if point == "trained" else "exchange", begun)

    def _spent(self, what: str, begun: float) -> float:
        now = time.perf_counter()
        self.seconds[what] += now - begun
        return now

    def _commit(self, t: int) -> None:
        peers, link = self.peers, self.link
        tensors = {"rows": peers.rows} | {f"state/{name}": value for name, value in peers.state.items()}
        tensors |= {f"copies/{name}": value for name, value in link.copies.tensors.items()}
        meta = {
            "traffic": link.traffic.as_dict(),
            "pending": sorted(link.pending),
            "waits": self.post.waits(),
            "skipped": self.status.skipped,
            "when": time.time(),
        }
        pending = frozenset(one[:2] for one in link.pending)
        self.post.commit(Commit(t, tensors, meta, link.taken, pending=pending))


def require_common_step(algorithm: Algorithm) -> None:
    """γ="auto" changes at all peers in the same round, by flags of which none may be late."""
    by = getattr(algorithm, "by", None)
    if isinstance(by, Compressed) and by.gamma == "auto":
        raise BadInput(f"{type(algorithm).__name__} has gamma='auto', by which all peers must change γ in the same "
                       "round, and a lost message breaks that; between real peers give a number, such as the gamma in "
                       "the summary.json of a simulation.")  # fmt: skip


def _place(me: str, roster: Sequence[str], graph: Graph, task: Task) -> tuple[int, int]:
    n = len(roster)
    if me not in roster:
        raise BadInput(f"'{me}' is not in the roster {', '.join(roster)}; add it there, at every peer.")
    if len(set(roster)) < n:
        raise BadInput("The roster names a peer twice; names must differ.")
    if graph.n != n:
        raise BadInput(f"The graph {graph.name} has {graph.n} peers, but the roster names {n}.")
    if len(task.train) not in (1, n):
        raise BadInput(f"The task has data of {len(task.train)} peers; give this peer's alone, or that of all {n}.")
    return list(roster).index(me), n


def _neighbours(graph: Graph, place: int, roster: Sequence[str]) -> list[str]:
    """Whom I may ever meet: on a graph that changes, everybody."""
    if not graph.fixed:
        return [name for i, name in enumerate(roster) if i != place]
    receiver, sender, _ = graph.round(0).weights.entries()
    met = set(receiver[sender == place].tolist()) | set(sender[receiver == place].tolist())
    return [name for i, name in enumerate(roster) if i in met - {place}]


def _run_id(settings: dict[str, Any], graph: Graph, roster: Sequence[str], task: Task) -> bytes:
    """A digest of what all peers must agree on: who they are, and what they run. Their data differ."""
    shapes = {name: [list(one.shape), one.columns.start] for name, one in task.layout.parameters.items()}
    agreed = {
        "roster": list(roster), "algorithm": settings["algorithm"], "graph": settings["graph"] | {
            "weights": graph.fingerprint}, "model": shapes, "seed": settings["run"]["seed"],
        "init": settings["run"]["init"],
    }  # fmt: skip
    return hashlib.blake2b(json.dumps(agreed, sort_keys=True).encode(), digest_size=16).digest()
