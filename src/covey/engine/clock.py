"""Simulated time: what a run would take on machines and lines of given speed, in seconds and joules.

    working    step_seconds · (gradients that the peer took in the round: one a step, two where it is sharpness-aware)
    speaking   copies · (message_seconds + bits / bandwidth), then latency until the copies are there

`message_seconds` is the fixed cost of a message, paid by an empty one as well: "time required to setup the
communication (e.g., interrupts in processing) and other overheads, and not just the airtime" (N. Singh, *Towards
Efficient Federated Learning*, 2024, section 3.5.3, at 100 kbit/s). `timeline.py` says who waits for whom.

The clock only reads; it never changes a number of training. What it is not: a model of the line's protocol (headers,
retransmission), of a receiver's line, of a server's line (both take whatever comes), or of batches and phases whose
gradients cost differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

import torch
from torch import Tensor

from covey.errors import BadInput

Row = tuple[float, ...]
Numbers = float | Sequence[float] | Sequence[Sequence[float]] | Tensor
Uplink = Literal["shared", "dedicated", "broadcast"]
Bits = Literal["encoded", "formula"]


@dataclass(frozen=True)
class Clock:
    """How fast peers work and how fast they are heard. Where `Numbers` are taken: one for all peers, one per peer, or
    a trace, a table [rounds, peers] that begins again where a run is longer. `Clock.groups` makes one per peer.

    step_seconds     of one gradient on a mini-batch
    message_seconds  to set up one message, however small
    bandwidth        bit/s of a peer's line, up and down each; infinite: bits take no time
    latency          seconds from the last bit sent to the last bit received
    uplink           shared: one peer's copies to its neighbours share its line; dedicated: each neighbour has a line of
                     its own; broadcast: one copy reaches all
    bits             encoded: those of the payload as it would be sent; formula: those that papers compare
    joules_per_bit   of every copy sent (of one copy in a broadcast), the answers of a server included
    joules_per_step  of one gradient
    """

    step_seconds: Numbers = 0.0
    message_seconds: Numbers = 0.0
    bandwidth: Numbers = math.inf
    latency: Numbers = 0.0
    uplink: Uplink = "shared"
    bits: Bits = "encoded"
    joules_per_bit: float = 0.0
    joules_per_step: float = 0.0

    def __post_init__(self) -> None:
        for name, kind in (("uplink", Uplink), ("bits", Bits)):
            if getattr(self, name) not in get_args(kind):
                raise BadInput(f"Clock({name}={getattr(self, name)!r}) is none of {', '.join(get_args(kind))}.")
        for name in ("joules_per_bit", "joules_per_step"):
            if _numbers(name, getattr(self, name)).dim():
                raise BadInput(f"Clock({name}=…) is one number for all peers.")
        for name in ("step_seconds", "message_seconds", "bandwidth", "latency", "joules_per_bit", "joules_per_step"):
            # as plain numbers, which can be compared, and written into config.toml
            object.__setattr__(self, name, _plain(_numbers(name, getattr(self, name))))

    @staticmethod
    def groups(peers: int, values: Sequence[float]) -> Row:
        """A number per peer: as many groups of consecutive peers as there are values, equally large up to one peer."""
        if not 1 <= len(values) <= peers:
            raise BadInput(f"{peers} peers cannot form {len(values)} groups; give between 1 and {peers} values.")
        return tuple(values[i * len(values) // peers] for i in range(peers))

    def table(self, name: str, peers: int) -> Tensor:
        """A field as float64 [rounds, peers], one round where it is no trace."""
        value = torch.tensor(getattr(self, name), dtype=torch.float64)
        if value.dim() and value.shape[-1] != peers:
            raise BadInput(
                f"Clock({name}=…) has numbers for {value.shape[-1]} peers, but the run has {peers}; give one number "
                "for all, one per peer, or a table of rounds by peers."
            )
        return value.reshape(-1, value.shape[-1] if value.dim() else 1).expand(-1, peers)


def _numbers(name: str, given: Numbers) -> Tensor:
    try:
        value = torch.as_tensor(given, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise BadInput(f"Clock({name}={given!r:.60}) is no number, nor a row or a table of numbers.") from problem
    if value.dim() > 2 or not value.numel():
        raise BadInput(f"Clock({name}=…) is one number, one per peer, or a table of rounds by peers.")
    speed = name == "bandwidth"
    wrong = value[~(value > 0)] if speed else value[~((value >= 0) & value.isfinite())]
    if len(wrong):
        remedy = "bit/s above 0, such as 1e5" if speed else "a finite number of at least 0"
        raise BadInput(f"Clock({name}={float(wrong[0]):g}) is out of range; use {remedy}.")
    return value


def _plain(value: Tensor) -> float | Row | tuple[Row, ...]:
    if value.dim() == 2:
        return tuple(tuple(row) for row in cast(list[list[float]], value.tolist()))
    return tuple(cast(list[float], value.tolist())) if value.dim() else float(value)
