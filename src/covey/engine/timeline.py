"""Who waits for whom: the moments of a run by its clock.

    worked_i = ready_i + step_seconds_i · gradients_i                       the round's local work, then each exchange:
    sent_i   = max(worked_i, sent_i) + copies_i (message_seconds_i + bits_i / bandwidth_i)
    heard_i  = max over those it hears, j:  sent_j + latency_j
    ready_i  = max(sent_i, heard_i)                                         it goes on when it has sent and heard

So there is no barrier: one slow peer holds up its neighbours in the first round, theirs in the second, and so on.
Two things differ:

- a server waits for all it sampled and answers with a whole model, down the same lines; that is a barrier. Who sat out
  has paid nothing and may begin where the server stands.
- a push that does not wait (`link.mix(wait=False)`) leaves while its peer works on. A run adds it in the next round, so
  it is that round which cannot end before it is there: heard_i then is of the round before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from covey.engine.clock import Clock
from covey.graphs.graph import Round
from covey.graphs.weights import SameRow, Weights
from covey.traffic import Said, Traffic

_NEVER = -torch.inf


class Timeline:
    """The moments so far, in seconds from the beginning, float64 [peers] each.

    ready  when a peer has ended its last round
    sent   when its line is free again
    late   place in the round -> when what others pushed there without waiting has arrived
    """

    def __init__(self, clock: Clock, peers: int) -> None:
        self._clock = clock
        names = ("step_seconds", "message_seconds", "bandwidth", "latency")
        self._tables = {name: clock.table(name, peers) for name in names}
        self.ready = torch.zeros(peers, dtype=torch.float64)
        self.sent = torch.zeros(peers, dtype=torch.float64)
        self.late: dict[int, Tensor] = {}
        self._gradients = 0.0

    def round(self, t: int, now: Round, gradients: Tensor, said: Sequence[Said]) -> None:
        """Round t: the gradients that each peer took, and what was said in it, in order."""
        self.ready = self.ready + self._at("step_seconds", t) * gradients
        self._gradients += float(gradients.sum())
        for place, one in enumerate(said):
            if now.hub:
                self._by_server(t, now.active, one)
            else:
                self._by_neighbours(t, now, one, place)

    def cost(self, traffic: Traffic) -> dict[str, float]:
        """What the rounds so far have taken: until the slowest and the mean peer were ready, and the energy."""
        count = getattr(traffic, self._clock.bits)
        bits = count.broadcast if self._clock.uplink == "broadcast" else count.links
        joules = self._clock.joules_per_bit * bits + self._clock.joules_per_step * self._gradients
        return {"seconds": float(self.ready.max()), "mean": float(self.ready.mean()), "joules": joules}

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint between two rounds."""
        late = {f"late/{place}": value for place, value in self.late.items()}
        return {"ready": self.ready, "sent": self.sent, "gradients": torch.tensor([self._gradients]).double()} | late

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        moments = {name: value.cpu() for name, value in saved.items()}
        self.ready, self.sent = moments.pop("ready"), moments.pop("sent")
        self._gradients = float(moments.pop("gradients"))
        self.late = {int(name.removeprefix("late/")): value for name, value in moments.items()}

    def _by_neighbours(self, t: int, now: Round, one: Said, place: int) -> None:
        copies = now.out_degree()
        if self._clock.uplink != "shared":
            copies = copies.clamp(max=1)  # lines of their own, or one copy for all: they take the time of one
        self.sent = torch.where(copies > 0, self._line(t, self._bits(one), copies), self.sent)
        heard = _last(now.weights, self.sent + self._at("latency", t))
        late = self.late.pop(place, None)
        if one.wait:
            self.ready = torch.maximum(torch.maximum(self.ready, self.sent), heard)
        else:
            self.late[place] = heard
        if late is not None:
            self.ready = torch.maximum(self.ready, late)

    def _by_server(self, t: int, active: Tensor, one: Said) -> None:
        if not active.any():
            return
        up, latency = self._line(t, self._bits(one), 1), self._at("latency", t)
        self.sent = torch.where(active, up, self.sent)
        everything = (up + latency)[active].max()
        down = (
            self._at("message_seconds", t)
            + one.whole[self._clock.bits == "encoded"] / self._at("bandwidth", t)
            + latency
        )
        self.ready = torch.where(active, everything + down, self.ready.clamp(min=float(everything)))

    def _line(self, t: int, bits: Tensor, copies: Tensor | int) -> Tensor:
        """When each peer's line is free, had it now to send so many copies."""
        once = self._at("message_seconds", t) + bits / self._at("bandwidth", t)
        return torch.maximum(self.ready, self.sent) + copies * once

    def _bits(self, one: Said) -> Tensor:
        return (one.encoded if self._clock.bits == "encoded" else one.formula).to("cpu", torch.float64)

    def _at(self, name: str, t: int) -> Tensor:
        table = self._tables[name]
        return table[t % len(table)]


def _last(weights: Weights, there: Tensor) -> Tensor:
    """When the last message from those whom each peer hears is there; −∞ where it hears nobody."""
    if isinstance(weights, SameRow):  # without writing down n x n entries: the latest of all, but one's own
        there = there.masked_fill(weights.row == 0, _NEVER)
        last = there.argmax()
        heard = there[last].repeat(len(there))
        there[last] = _NEVER
        heard[last] = there.max()
        return heard
    receiver, sender, _ = weights.entries()
    other = receiver != sender
    return torch.full_like(there, _NEVER).scatter_reduce_(0, receiver[other], there[sender[other]], "amax")
