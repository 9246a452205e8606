"""What was sent, in bits: by the formula that papers compare and as really encoded, each counted in two ways.

broadcast: one message per sender (as over the air). links: one per sender and receiver (as over wires).
A server round costs one message up and one down for everyone who takes part.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from covey.graphs.graph import Round
from covey.graphs.weights import SameRow


@dataclass
class Count:
    """Bits sent so far."""

    broadcast: float = 0.0
    links: float = 0.0


@dataclass(frozen=True)
class Said:
    """One exchange: the bits of each peer's message, those of a server's answer (by the formula, and encoded), and
    whether all waited for it."""

    formula: Tensor
    encoded: Tensor
    whole: tuple[float, float]
    wait: bool


class Traffic:
    """A ledger of all rounds. `busiest` is the most that one participant (a peer, or the server) sent and received
    in one round, by the formula; `said` are the exchanges of this round, in order."""

    def __init__(self) -> None:
        self.formula, self.encoded, self.busiest = Count(), Count(), 0.0
        self.said: list[Said] = []
        self._load = torch.zeros(())  # of this round, per peer
        self._server = 0.0

    def begin(self) -> None:
        """A new round begins: nobody has sent or received anything in it."""
        self._load, self._server, self.said = torch.zeros(()), 0.0, []

    def count(
        self, round: Round, formula: Tensor, encoded: Tensor, whole: tuple[float, float], wait: bool = True
    ) -> None:
        """One exchange, with the bits of each peer's message; `whole` are those of a message that says every number
        (by the formula, and encoded), which is what a server answers."""
        self.said.append(Said(formula, encoded, whole, wait))
        copies = round.copies
        speaks = copies.sign()
        for count, bits in ((self.formula, formula), (self.encoded, encoded)):
            count.broadcast += float(bits.double() @ speaks)
            count.links += float(bits.double() @ copies)
        load = formula * copies
        if round.hub:
            answered = int(round.active.sum())
            for count, down in zip((self.formula, self.encoded), whole, strict=True):
                count.broadcast += down if answered else 0.0
                count.links += down * answered
            load = load + whole[0] * round.active
            self._server += float((formula * round.active).sum()) + whole[0] * answered
        else:
            load = load + _received(round, formula)
        self._load = self._load + load
        self.busiest = max(self.busiest, float(self._load.max()), self._server)

    def as_dict(self) -> dict[str, object]:
        """For summary.json, and for a checkpoint between two rounds."""
        return {"formula": asdict(self.formula), "encoded": asdict(self.encoded), "busiest": self.busiest}

    @staticmethod
    def from_dict(saved: dict[str, object]) -> Traffic:
        traffic = Traffic()
        formula, encoded, busiest = saved["formula"], saved["encoded"], saved["busiest"]
        assert isinstance(formula, dict) and isinstance(encoded, dict) and isinstance(busiest, float)
        traffic.formula, traffic.encoded, traffic.busiest = Count(**formula), Count(**encoded), busiest
        return traffic


def _received(round: Round, bits: Tensor) -> Tensor:
    """The bits that each peer hears from others."""
    if isinstance(round.weights, SameRow):
        said = bits * (round.weights.row != 0)
        return said.sum() - said
    receiver, sender = round.ends
    return torch.zeros_like(bits).index_add_(0, receiver, bits[sender])
