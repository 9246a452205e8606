"""Numbers that may differ between peers, and between rounds: how fast a machine is, how much it works, whether it is
there. One for all peers, one per peer, or a trace: a table [rounds, peers] that begins again where a run is longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor

from covey.errors import BadInput

Row = tuple[float, ...]
Plain = float | Row | tuple[Row, ...]
Numbers = float | Sequence[float] | Sequence[Sequence[float]] | Tensor


def groups(peers: int, values: Sequence[float]) -> Row:
    """A number per peer: as many groups of consecutive peers as there are values, equally large up to one peer."""
    if not 1 <= len(values) <= peers:
        raise BadInput(f"{peers} peers cannot form {len(values)} groups; give between 1 and {peers} values.")
    return tuple(values[i * len(values) // peers] for i in range(peers))


def checked(what: str, given: Numbers, wanted: Callable[[Tensor], Tensor], remedy: str) -> Tensor:
    """`given` as float64 with no, one or two axes, all of it as `wanted`; `what` is its name: "Clock(latency=…)"."""
    try:
        value = torch.as_tensor(given, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise BadInput(
            f"{what.replace('…', f'{given!r:.60}')} is no number, nor a row or a table of numbers."
        ) from problem
    if value.dim() > 2 or not value.numel():
        raise BadInput(f"{what} is one number, one per peer, or a table of rounds by peers.")
    wrong = value[~wanted(value)]
    if len(wrong):
        raise BadInput(f"{what.replace('…', f'{float(wrong[0]):g}')} is out of range; use {remedy}.")
    return value


def plain(value: Tensor) -> Plain:
    """As numbers that can be compared, and written into config.toml."""
    if value.dim() == 2:
        return tuple(tuple(row) for row in cast(list[list[float]], value.tolist()))
    return tuple(cast(list[float], value.tolist())) if value.dim() else float(value)


def table(what: str, given: Numbers, peers: int) -> Tensor:
    """Numbers that were checked as float64 [rounds, peers], one round where they are no trace."""
    value = torch.as_tensor(given, dtype=torch.float64)
    if value.dim() and value.shape[-1] != peers:
        raise BadInput(
            f"{what} has numbers for {value.shape[-1]} peers, but the run has {peers}; give one number "
            "for all, one per peer, or a table of rounds by peers."
        )
    return value.reshape(-1, value.shape[-1] if value.dim() else 1).expand(-1, peers)
