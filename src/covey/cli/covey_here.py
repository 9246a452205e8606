"""`covey peer up`: a whole covey on this machine.

Every peer is a process with its own key, file, data and folder, as it would be on a machine of its own; only the
addresses are all here. A peer that is killed is started again after a while, as a service would be.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from rich.console import Console
from rich.live import Live
from rich.table import Table

from covey import data, graphs
from covey.cli.peer import Up
from covey.cli.peer_tools import ask
from covey.errors import BadInput
from covey.graphs import Graph
from covey.network import audit, authority, identity
from covey.network.settings import read_settings

_NAMES = ("north", "east", "south", "west", "centre", "coast", "hill", "lake", "valley", "forest")
_DEFAULTS = {"lr": 0.1, "batch": 10}  # of [algorithm]; and five epochs, unless steps are given
_AGAIN_SECONDS = 10.0  # until a peer that was killed is started again
_STOP_SECONDS = 20.0  # for a peer to finish what it writes, before it is killed
_LOOK_SECONDS = 1.0
_LINE_SECONDS = 5.0  # between two lines where there is no terminal


class _Process:
    """One peer, and the process that it is now."""

    def __init__(self, file: Path) -> None:
        self.file, self.name, self.folder = file, file.parent.name, file.parent
        self.died: float | None = None
        self.start()

    def start(self) -> None:
        """In a session of its own, so that Ctrl-C reaches it only through us, once."""
        environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        words = [sys.executable, "-m", "covey.cli", "peer", "run", str(self.file)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                            start_new_session=True)  # fmt: skip

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def over(self) -> bool:
        return self.process.poll() == 0

    @property
    def failed(self) -> bool:
        return (self.process.poll() or 0) > 0

    def revive(self, say: Callable[[str], None]) -> None:
        """Start it again some time after a signal has killed it."""
        code = self.process.poll()
        if code is None or code >= 0:
            return
        if self.died is None:
            self.died = time.monotonic()
            say(f"{self.name} was killed (signal {-code}); it is started again in {_AGAIN_SECONDS:.0f} seconds")
        elif time.monotonic() - self.died >= _AGAIN_SECONDS:
            self.died = None
            self.start()
            say(f"{self.name} is started again; it goes on from what is on its disk")

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def up(asked: Up, console: Console) -> int:
    """0 when all have finished, 2 where one has failed."""
    if asked.peers < 2:
        raise BadInput(f"--peers {asked.peers}: a covey has two peers or more.")
    home = _new_folder(asked.out)
    files = write(asked, home)
    _say(console, f"{asked.peers} peers in {home}, each with its key, its data and its peer.toml; Ctrl-C stops all.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends this process means all of them
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
    processes = [_Process(file) for file in files]
    try:
        _watch(processes, asked.rounds, console)
    except KeyboardInterrupt:
        _stop(processes)
        _say(console, f"stopped; each goes on with: covey peer run {home}/NAME/peer.toml")
        raise
    finally:
        _stop(processes)
    return _tell_end(processes, console)


def write(asked: Up, home: Path) -> list[Path]:
    """The authority, and for every peer its identity, its part of the data and its peer.toml."""
    names = [_NAMES[k] if asked.peers <= len(_NAMES) else f"peer-{k}" for k in range(asked.peers)]
    partition = asked.partition or ("pathological:5" if asked.data == "digits" else None)
    whole = data.load(asked.data, peers=asked.peers, partition=partition, seed=asked.seed, samples=asked.samples)
    graph = graphs.parse(asked.graph, asked.peers).bound(asked.seed, torch.ones(asked.peers, dtype=torch.int64))
    authority.establish(home / "authority", 3650)
    ports = _free_ports(asked.peers)
    prints: dict[str, str] = {}
    for k, name in enumerate(names):
        _, request, prints[name] = identity.create(name, home / name)
        authority.sign(request, home / "authority", 365)
        parts = [part.numpy() for side in (whole.train, whole.test) for part in side.of(k)]
        arrays = dict(zip(("x_train", "y_train", "x_test", "y_test"), parts, strict=True))
        np.savez(home / name / "data.npz", **arrays)  # pyright: ignore[reportArgumentType]
    met = _neighbours(graph, asked.rounds)
    files: list[Path] = []
    for k, name in enumerate(names):
        content = {
            "name": name,
            "roster": names,
            "run": {"rounds": asked.rounds, "graph": asked.graph, "seed": asked.seed, "threads": 1},
            "algorithm": {"name": asked.algorithm, **_words(asked.set)},
            "model": {"name": asked.model},
            "data": {"file": "data.npz"} | ({} if whole.classes is None else {"classes": whole.classes}),
            "identity": {"key": f"{name}.key", "certificate": f"{name}.crt", "authority": "../authority/authority.crt"},
            "network": {"folder": "run", "listen": f"127.0.0.1:{ports[k]}"},
            "neighbours": [
                {"name": names[j], "fingerprint": prints[names[j]], "address": f"127.0.0.1:{ports[j]}"}
                for j in sorted(met[k])
            ],
        }
        files.append(home / name / "peer.toml")
        files[-1].write_text(tomli_w.dumps(content))
        read_settings(files[-1])
    return files


def _words(given: Sequence[str]) -> dict[str, Any]:
    """lr=0.1 as TOML would have it: a number, true or false, else a text."""
    found: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise BadInput(f"--set {one} should be written NAME=VALUE, as in --set lr=0.1.")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return _DEFAULTS | ({} if "steps" in found else {"epochs": 5}) | found


def _neighbours(graph: Graph, rounds: int) -> list[set[int]]:
    """Whom each peer meets in any round."""
    met: list[set[int]] = [set() for _ in range(graph.n)]
    for t in range(1 if graph.fixed else rounds):
        row, column, _ = graph.round(t).weights.entries()
        for i, j in zip(row.tolist(), column.tolist(), strict=True):
            met[i] |= {j} - {i}
            met[j] |= {i} - {j}
    return met


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has now, all different."""
    with ExitStack() as held:
        lines = [held.enter_context(socket.socket()) for _ in range(count)]
        for line in lines:
            line.bind(("127.0.0.1", 0))
        return [line.getsockname()[1] for line in lines]


def _new_folder(out: Path | None) -> Path:
    if out is None:
        return Path(tempfile.mkdtemp(prefix="covey-"))
    if out.exists() and any(out.iterdir()):
        raise BadInput(f"{out} is not empty; name a new folder.")
    out.mkdir(parents=True, exist_ok=True)
    return out


def _watch(processes: list[_Process], rounds: int, console: Console) -> None:
    """Until all have ended, or one has failed: the others would wait for it."""
    with ExitStack() as shown:
        live = shown.enter_context(Live(console=console, auto_refresh=False)) if console.is_terminal else None
        last = 0.0
        while not all(one.over for one in processes) and not any(one.failed for one in processes):
            for one in processes:
                one.revive(lambda text: _say(console, text))
            seen = {one.name: ask(one.folder / "run") for one in processes}
            if live is not None:
                live.update(_table(processes, seen), refresh=True)
            elif time.monotonic() - last >= _LINE_SECONDS:
                last = time.monotonic()
                _say(console, _line(processes, seen, rounds))
            time.sleep(_LOOK_SECONDS)
        if live is not None:
            live.update(Table(box=None), refresh=True)


def _line(processes: list[_Process], seen: Mapping[str, Mapping[str, Any] | None], rounds: int) -> str:
    at = [now["round"] + 1 for now in seen.values() if now is not None]
    over = sum(one.over for one in processes)
    where = f", in rounds {min(at)} to {max(at)} of {rounds}" if at else ""
    return f"{len(at)} of {len(processes)} peers run{where}" + (f"; {over} are done" if over else "")


def _table(processes: list[_Process], seen: Mapping[str, Mapping[str, Any] | None]) -> Table:
    made = Table(box=None, pad_edge=False)
    for head in ("peer", "process", "round", "at", "loss", "said", "heard", "neighbours"):
        made.add_column(head)
    for one in processes:
        now = seen[one.name]
        if now is None:
            ended = one.process.poll()
            made.add_row(one.name, "", "", "starts" if ended is None else "done" if ended == 0 else "is dead")
            continue
        far: Mapping[str, Mapping[str, Any]] = now["neighbours"]
        sizes = [f"{sum(them[key] for them in far.values()) / 1e6:.2f} MB" for key in ("bytes_out", "bytes_in")]
        loss = next((f"{value:.3f}" for value in now["losses"].values()), "")
        others = ", ".join(f"{name} {them['presence']}" for name, them in far.items())
        made.add_row(
            one.name, str(one.process.pid), f"{now['round'] + 1}/{now['rounds']}", now["doing"], loss, *sizes, others
        )
    return made


def _stop(processes: list[_Process]) -> None:
    """Ask every peer to stop, wait, and kill who does not."""
    for one in processes:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
    end = time.monotonic() + _STOP_SECONDS
    for one in processes:
        try:
            one.process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


def _tell_end(processes: list[_Process], console: Console) -> int:
    failed = [one for one in processes if one.failed and one.process.returncode != 130]  # 130: stopped by us
    for one in failed:
        _say(console, f"{one.name} failed: {one.last_words()} ({one.log})")
    if failed:
        return 2
    made = Table(box=None, pad_edge=False)
    for head in ("peer", "mixed", "wire, MB said", "audit log"):
        made.add_column(head)
    for one in processes:
        summary = json.loads((one.folder / "run" / "summary.json").read_text())
        metric = next((name for name in ("accuracy", "loss") if name in summary), "loss")
        log = one.folder / "run" / "audit.jsonl"
        end, said = audit.verify(log), sum(line["bytes"] for line in audit.read_log(log))
        score = summary[metric]["mixed"]["last"]
        shown = f"{100 * score:.1f} %" if metric == "accuracy" else f"{score:.4g}"
        made.add_row(one.name, f"{metric} {shown}", f"{said / 1e6:.2f}", f"{end.lines} lines, the chain holds")
    console.print(made)
    return 0


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
