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
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from covey import per_peer
from covey.errors import BadInput
from covey.per_peer import Numbers

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
            object.__setattr__(self, name, per_peer.plain(_numbers(name, getattr(self, name))))

    groups = staticmethod(per_peer.groups)

    def table(self, name: str, peers: int) -> Tensor:
        """A field as float64 [rounds, peers], one round where it is no trace."""
        return per_peer.table(f"Clock({name}=…)", getattr(self, name), peers)


def _numbers(name: str, given: Numbers) -> Tensor:
    if name == "bandwidth":
        return per_peer.checked(f"Clock({name}=…)", given, lambda v: v > 0, "bit/s above 0, such as 1e5")
    wanted = "a finite number of at least 0"
    return per_peer.checked(f"Clock({name}=…)", given, lambda v: (v >= 0) & v.isfinite(), wanted)
