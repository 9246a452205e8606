"""What lies on the disks of a covey, read without covey's own code: rows, and what is under way between them.

A message counts as under way until its receiver's rows contain it. A peer that was cut short after it said something
owns of it what it did not send: W_jj x, and the shares of those to whom it sent nothing.
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import torch
from safetensors.torch import load
from torch import Tensor

from covey.graphs.graph import Graph
from network.coveys import names

SAID, VERDICT = 5, 6


class NotStarted(Exception):
    """A peer was cut short before its first row was on disk."""


class Disk:
    def __init__(self, folder: Path) -> None:
        with closing(sqlite3.connect(f"file:{folder / 'peer.db'}?mode=ro", uri=True)) as db:
            found = db.execute("SELECT value FROM meta WHERE name = 'round'").fetchone()
            if found is None:
                raise NotStarted
            self.round = int(found[0])
            self.tensors = load(b"".join(piece for (piece,) in db.execute("SELECT data FROM rows ORDER BY piece")))
            self.said = {(t, call): things(body) for t, call, body in db.execute("SELECT round, call, body FROM said")}
            self.outbox = list(db.execute("SELECT neighbour, call, sequence, kind, round, body FROM outbox"))
            self.taken = {(who, call): n for who, call, n in db.execute("SELECT neighbour, call, sequence FROM taken")}


def things(body: bytes) -> list[Tensor]:
    """Dense float64 things: a mode, a length, the numbers."""
    out, at = [], 0
    while at < len(body):
        mode, length = struct.unpack_from("<BQ", body, at)
        assert mode == 1
        out.append(torch.frombuffer(bytearray(body[at + 9 : at + 9 + length]), dtype=torch.float64))
        at += 9 + length
    return out


def disks(folder: Path, graph: Graph) -> dict[str, Disk]:
    return {name: Disk(folder / name) for name in names(graph.n)}


def pushed(folder: Path, graph: Graph) -> tuple[Tensor, float]:
    """Σx and Σμ over all rows and everything under way."""
    found, roster = disks(folder, graph), names(graph.n)
    x, mass = torch.zeros_like(found[roster[0]].tensors["rows"][0]), 0.0
    for j, (name, disk) in enumerate(found.items()):
        begun = disk.said.get((disk.round + 1, 0))
        if begun is None:
            x, mass = x + disk.tensors["rows"][0], mass + float(disk.tensors["state/mass"])
        else:
            weights = graph.round(disk.round + 1).weights.dense()[:, j]
            sent = [roster.index(to) for to, _, _, _, t, _ in disk.outbox if t == disk.round + 1]
            own = 1.0 - float(weights[sent].sum())
            x, mass = x + own * begun[0], mass + own * float(begun[1])
        for to, call, number, _, t, _ in disk.outbox:
            if number > found[to].taken.get((name, call), 0):
                weight = float(graph.round(t).weights.dense()[roster.index(to), j])
                x, mass = x + weight * disk.said[t, call][0], mass + weight * float(disk.said[t, call][1])
    return x, mass


def agreed(folder: Path, graph: Graph) -> Tensor:
    """Σx over all rows, and the corrections of edges that only their higher end has used so far."""
    found, roster = disks(folder, graph), names(graph.n)
    x = torch.stack([disk.tensors["rows"][0] for disk in found.values()]).sum(0)
    for j, (name, disk) in enumerate(found.items()):
        for to, call, number, kind, t, body in disk.outbox:
            if kind == VERDICT and body == b"\1" and number > found[to].taken.get((name, call), 0):
                weight = float(graph.round(t).weights.dense()[roster.index(to), j])
                x = x + weight * (disk.said[t, call][0] - found[to].said[t, call][0])
    return x
