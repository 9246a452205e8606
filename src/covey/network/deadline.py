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
    as long as it would usually take or as long as my own rounds take, whichever is more (and `grace` at least): time to
    come back. Then it is gone, and rounds go on at once. Who comes back himself, perhaps after a failure of power that
    met all, gives those whom he knew alive as long as he was `away`.
    """

    waits: Patience
    rounds: Patience  # my own, the same object for all neighbours
    steadfast: float
    grace: float = 0.0
    away: float = 0.0
    overdue: bool = False
    met: bool = False  # it was connected once
    seen: bool = False  # something of it has arrived, in this life or in one that is remembered
    _begun: float | None = None  # the wait that was given up, if it was not because the connection fell

    def until(self, begun: float, fell: float | None) -> float | None:
        """The moment at which to go on without it; None: not before it has been heard once. begun: when this wait
        began; fell: when its connection did, None while it stands."""
        if not self.seen and (fell is None or not self.met):
            return None
        if self.overdue:
            return begun
        if fell is None:
            return begun + max(self.waits.limit or 0.0, self.steadfast)
        return self.back(fell)

    def back(self, fell: float) -> float:
        """Until when it may come back after its connection fell."""
        return fell + max(self.waits.limit or 0.0, self.rounds.limit or 0.0, self.grace, self.away)

    def heard(self, waited: float) -> None:
        """Its message of this round came so long after I began to wait for it. Who waits holds up others, so that one
        stall is seen by many: at most twice what was expected goes into the estimate."""
        self.overdue = False
        most = 2 * max(self.waits.limit or waited, self.steadfast)
        self.waits.observe(min(max(0.0, waited), most))

    def missed(self, begun: float, fell: float | None) -> None:
        """The wait that began then is given up."""
        self._begun = None if fell is not None else self._begun if self.overdue else begun
        self.overdue = True

    def arrived(self, now: float) -> None:
        """Something of it came; if it was overdue, that is how long I should have waited."""
        self.seen = True
        if self.overdue and self._begun is not None:
            self.heard(now - self._begun)
        self.overdue = False
