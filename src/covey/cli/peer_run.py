"""`covey peer run`: one peer, from its file to its last round."""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from covey.cli.peer_tools import ADDRESS
from covey.cli.progress import said
from covey.cli.site import Site, site_of
from covey.cli.wiring import load_identity, transport_of
from covey.engine.run import Entry
from covey.errors import BadInput
from covey.network.audit import Audit
from covey.network.metrics import Board
from covey.network.peer import Peer
from covey.network.settings import Settings, read_settings
from covey.network.transport import Part
from covey.network.wire import Kind

_LOUD = "NO TLS: whoever has an account on this machine can read and change what this peer says and hears."


def run(file: Path, console: Console) -> None:
    settings = read_settings(file)
    if settings.run.threads is not None:
        torch.set_num_threads(settings.run.threads)
    site = site_of(settings, file.absolute().parent)
    teller = _Teller(settings, console)
    if settings.network.plaintext:
        teller.say(f"warning: {_LOUD}")
    log = Audit(settings.network.folder / "audit.jsonl")

    def leaving(name: str, parts: Sequence[Part]) -> None:
        log.leaving(name, *_round_and_kind(parts[0]), parts)

    transport = transport_of(site, "run", teller.report, leaving)
    run, network = settings.run, settings.network
    peer = Peer(
        site.algorithm, site.task, site.graph, settings.name, roster=settings.roster, transport=transport,
        folder=network.folder, seed=run.seed, device=run.device, init=run.init, evaluate_every=run.evaluate_every,
        allow_unsound=run.allow_unsound, steadfast=network.patience, grace=network.grace, on_round=teller.round,
    )  # fmt: skip
    teller.watch(peer, site)
    board = Board(network.status, lambda: teller.status(log))
    (network.folder / ADDRESS).write_text(board.address + "\n")
    stop = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the last round is on disk
    teller.say(f"status: http://{board.address}/status and /metrics")
    try:
        done = peer.run(run.rounds)
    finally:
        signal.signal(signal.SIGTERM, stop)
        board.close()
        log.close()
        (network.folder / ADDRESS).unlink(missing_ok=True)
    teller.say(f"done: {done.peers.round} rounds; {network.folder} has summary.json, metrics.jsonl, audit.jsonl")


def _round_and_kind(head: Part) -> tuple[int, str]:
    """Of a frame, by its header; docs/protocol.md says where they are."""
    return int.from_bytes(head[24:32], "little", signed=True), Kind(head[5]).name


class _Teller:
    """Says on the console what an operator wants to know, a line each, and nothing twice in a row."""

    def __init__(self, settings: Settings, console: Console) -> None:
        self._name, self._settings, self._console = settings.name, settings, console
        self._last: dict[str, str | None] = {}
        self._peer: Peer | None = None
        logging.getLogger("covey.network").addHandler(_Lines(self))

    def watch(self, peer: Peer, site: Site) -> None:
        self._peer = peer
        own = self._settings.identity
        if own is not None and not self._settings.network.plaintext:
            warning = load_identity(self._name, own).warning()
            if warning is not None:
                self.say(f"warning: {warning}")

    def say(self, text: str) -> None:
        self._console.print(f"{self._name}  {text}", markup=False, highlight=False, soft_wrap=True)

    def report(self, name: str, sentence: str | None) -> None:
        """What the transport has to say of a neighbour."""
        if self._last.get(name) == sentence:
            return
        self._last[name] = sentence
        if sentence is not None:
            self.say(sentence)
        if self._peer is not None:
            self._peer.status.last_error = sentence or ""

    def round(self, t: int, entry: Entry | None) -> None:
        assert self._peer is not None
        far = self._peer.status.neighbours
        listed = [one.name for one in self._settings.neighbours]
        absent = [f"{name} {far[name].presence}" for name in listed if far[name].presence in ("late", "gone")]
        score = f"  {said(entry)}" if entry is not None else ""
        missing = f"  without {', '.join(absent)}" if absent else ""
        self.say(f"round {t}/{self._settings.run.rounds}{score}{missing}")

    def status(self, log: Audit) -> Mapping[str, Any]:
        assert self._peer is not None
        now = self._peer.status.as_dict()
        listed = {one.name for one in self._settings.neighbours}
        now["neighbours"] = {name: far for name, far in now["neighbours"].items() if name in listed}
        now["audit_link"] = log.link
        own = self._settings.identity
        if own is not None:
            try:
                now["certificate_ends"] = load_identity(self._name, own).ends.timestamp()
            except BadInput as problem:
                now["last_error"] = str(problem)
        return now


class _Lines(logging.Handler):
    def __init__(self, teller: _Teller) -> None:
        super().__init__(logging.INFO)
        self._teller = teller

    def emit(self, record: logging.LogRecord) -> None:
        self._teller.say(record.getMessage())
