"""The matrix of peers: one row per peer, one column per number that a peer's model holds.

The columns lie in four blocks, so that everything an algorithm or a kernel touches is a slice and never an index:

    | shared statistics | shared parameters | personal parameters | personal statistics |
    '------------- shared --------------' '-------------- personal ----------------'
                        '--------- trained by SGD ---------'

Statistics are buffers that a forward pass in training mode changes (BatchNorm's running mean and variance): they
belong to a peer's model and travel with their group, but no optimiser moves them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from covey.errors import BadInput

_CACHED = 1 << 20  # numbers

Group = Literal["all", "shared", "personal"]


@dataclass(frozen=True)
class Field:
    """One named tensor of a model: where it lies in a row, and its shape there."""

    columns: slice
    shape: torch.Size


class Layout:
    """Where each named tensor lies in a row. `shared` and `personal` are the two groups as slices of columns."""

    def __init__(
        self,
        parameters: Mapping[str, torch.Size],
        statistics: Mapping[str, torch.Size],
        personal: frozenset[str],
    ) -> None:
        blocks = (
            [(n, s) for n, s in statistics.items() if n not in personal],
            [(n, s) for n, s in parameters.items() if n not in personal],
            [(n, s) for n, s in parameters.items() if n in personal],
            [(n, s) for n, s in statistics.items() if n in personal],
        )
        fields: dict[str, Field] = {}
        ends = [0]
        at = 0
        for block in blocks:
            for name, shape in block:
                fields[name] = Field(slice(at, at + math.prod(shape)), shape)
                at += math.prod(shape)
            ends.append(at)
        self.width = at
        self.shared = slice(0, ends[2])
        self.personal = slice(ends[2], at)
        self.parameters = {name: fields[name] for block in blocks[1:3] for name, _ in block}
        self.statistics = {name: fields[name] for block in (blocks[0], blocks[3]) for name, _ in block}
        self._trained = {
            "all": slice(ends[1], ends[3]),
            "shared": slice(ends[1], ends[2]),
            "personal": slice(ends[2], ends[3]),
        }

    def columns(self, group: Group) -> slice:
        """All columns of a group, statistics included."""
        known: dict[Group, slice] = {"all": slice(0, self.width), "shared": self.shared, "personal": self.personal}
        if group not in known:
            raise BadInput(f"There is no group '{group}' of parameters; use 'all', 'shared' or 'personal'.")
        return known[group]

    def trained(self, group: Group) -> slice:
        """The columns of a group that SGD moves."""
        return self._trained[group]

    def members(self, group: Group, fields: Mapping[str, Field]) -> dict[str, Field]:
        """Those of `fields` that lie in the group."""
        columns = self.columns(group)
        return {n: f for n, f in fields.items() if columns.start <= f.columns.start and f.columns.stop <= columns.stop}

    def places(self, group: Group) -> dict[str, list[int]]:
        """name -> [start, stop, *shape] of the tensors of a group, counted from its first column: plain numbers."""
        first = self.columns(group).start
        found = self.members(group, self.statistics | self.parameters).items()
        return {n: [f.columns.start - first, f.columns.stop - first, *f.shape] for n, f in found}

    def pack(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """One row [width] from named tensors."""
        row = torch.empty(self.width, dtype=next(iter(tensors.values())).dtype)
        for name, field in (self.parameters | self.statistics).items():
            row[field.columns] = tensors[name].detach().reshape(-1).to(row)
        return row

    def unpack(self, rows: Tensor) -> dict[str, Tensor]:
        """Named views [rows, *shape] of the rows, parameters and statistics."""
        return views(rows, self.parameters | self.statistics)


def blocks(rows: Tensor) -> Iterator[slice]:
    """The rows in pieces that stay in a processor's cache from one pass to the next; on an accelerator, all at once."""
    step = max(1, _CACHED // max(1, rows.shape[1])) if rows.device.type == "cpu" else max(1, len(rows))
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


def views(rows: Tensor, fields: Mapping[str, Field]) -> dict[str, Tensor]:
    """Named views [rows, *shape] into the rows [rows, width]; nothing is copied."""
    return {name: rows[:, field.columns].unflatten(1, field.shape or (1,)).reshape((len(rows), *field.shape))
            for name, field in fields.items()}  # fmt: skip
