"""How long to wait, from what was observed: the estimator of TCP's retransmission timer.

    first      mean = w,  spread = w / 2
    then       spread ← ¾ spread + ¼ |w − mean|;   mean ← ⅞ mean + ⅛ w
    limit    = mean + 4 spread

V. Jacobson, *Congestion avoidance and control*, 1988; RFC 6298. Only one machine's monotonic clock is read, and times
are never compared between hosts, so wrong clocks do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Patience:
    """Of one kind of waiting. `mean` is None before the first observation: nothing is known, so wait."""

    mean: float | None = None
    spread: float = 0.0

    def observe(self, waited: float) -> None:
        if self.mean is None:
            self.mean, self.spread = waited, waited / 2
        else:
            self.spread += (abs(waited - self.mean) - self.spread) / 4
            self.mean += (waited - self.mean) / 8

    @property
    def limit(self) -> float | None:
        return None if self.mean is None else self.mean + 4 * self.spread


@dataclass
class Deadlines:
    """Until when to wait for one neighbour in a round.

    While its connection stands it is alive and perhaps slow: it has at least `steadfast` seconds. Once that is over it
    is late, and is not waited for again until something of it arrives. When the connection falls it has, from then on,
    as long as it would usually take or as long as my own rounds take, whichever is more: time to come back. Then it is
    gone, and the round goes on at once.
    """

    waits: Patience
    rounds: Patience  # my own, the same object for all neighbours
    steadfast: float
    overdue: bool = False
    _begun: float = 0.0  # of the wait that was given up

    def until(self, begun: float, fell: float | None) -> float | None:
        """The moment at which to go on without it; None: not before it has been heard once. begun: when this wait
        began; fell: when its connection did, None while it stands."""
        usual = self.waits.limit
        if usual is None:
            return None
        if self.overdue:
            return begun
        if fell is None:
            return begun + max(4 * usual, self.steadfast)
        return fell + max(usual, self.rounds.limit or 0.0)

    def heard(self, waited: float) -> None:
        """Its message of this round came so long after I began to wait for it."""
        self.overdue = False
        self.waits.observe(max(0.0, waited))

    def missed(self, begun: float) -> None:
        """The wait that began then is given up."""
        if not self.overdue:
            self.overdue, self._begun = True, begun

    def arrived(self, now: float) -> None:
        """Something of it came; if it was overdue, that is how long I should have waited."""
        if self.overdue:
            self.heard(now - self._begun)
