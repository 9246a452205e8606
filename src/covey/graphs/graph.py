"""Who talks to whom in round t, and with which weights: a graph is a schedule of rounds.

A graph is data and one pure function, `draw(t)`; the builders (`ring`, `server`, ...) supply it. Your own schedule is
one more function, at module level if runs are to be pickled:

    Graph(n, "mine", draw, row_stochastic=True, column_stochastic=True, symmetric=False)

What it declares of its weights holds in every round; it is compared with the numbers of the first rounds drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.graphs import spectrum, structure
from covey.graphs.weights import SameRow, Weights

_KEPT = 4  # rounds kept drawn: the current one, its neighbours in time, and one in flight
_VERIFIED = 3  # rounds whose numbers are compared with what the graph declares
_ESTIMATE = 40  # rounds over which the expected contraction of a changing graph is estimated


@dataclass(frozen=True, eq=False)
class Round:
    """One round: who takes part, and what each makes of what it hears."""

    weights: Weights  # W: a row receives
    active: Tensor  # bool [n], who takes part: trains, changes state
    hub: bool = False  # those who take part exchange with a server (one message up, one down each), not with each other

    def out_degree(self) -> Tensor:
        """How many others each peer sends to, int64 [n]; 0 in a hub round."""
        return self._degree(1)

    def in_degree(self) -> Tensor:
        """How many others each peer hears, int64 [n]; 0 in a hub round."""
        return self._degree(0)

    def _degree(self, side: int) -> Tensor:
        n = self.weights.n
        if self.hub:
            return torch.zeros(n, dtype=torch.int64)
        if isinstance(self.weights, SameRow):  # without writing down its n x n entries
            heard = (self.weights.row != 0).long()
            return heard * (n - 1) if side == 1 else heard.sum() - heard
        ends = self.weights.entries()
        return torch.bincount(ends[side][ends[0] != ends[1]], minlength=n)


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A schedule of rounds. Two graphs are equal if name, size, seed and given numbers are."""

    n: int
    name: str  # as on the command line: "ring", "random_directed:10:pull"
    draw: Callable[[int], Round]  # pure; call `round`, which remembers and verifies
    row_stochastic: bool  # what holds in every round
    column_stochastic: bool
    symmetric: bool
    fixed: bool = False  # the same in every round
    hub: bool = False  # a server stands between the peers
    pull: bool = False  # rows sum to one because that was asked for: push-sum's mass then stays one (D-01)
    lattice: tuple[int, ...] | None = None  # W commutes with the shifts of this periodic lattice
    seed: int | None = None
    bind: Callable[[int, Tensor], Graph] | None = None  # what `bound` returns, if there is something left to supply
    among: Callable[[int, Tensor], Round] | None = None  # a round when only some (bool [n]) are there: see absence.py
    fingerprint: str = ""  # of numbers that the name does not tell
    _drawn: dict[int, Round] = field(default_factory=dict[int, Round], init=False)
    _verified: list[int] = field(default_factory=list[int], init=False)

    def __post_init__(self) -> None:
        if self.n < 1:
            raise BadInput(f"A graph needs at least one peer, not n={self.n}.")

    @property
    def doubly_stochastic(self) -> bool:
        """Rows and columns sum to one: mixing keeps constants and the mean."""
        return self.row_stochastic and self.column_stochastic

    @property
    def stochasticity(self) -> str:
        """What holds of the weights, in a word or two."""
        if self.doubly_stochastic:
            return "symmetric doubly stochastic" if self.symmetric else "doubly stochastic"
        return "row-stochastic" if self.row_stochastic else "column-stochastic"

    def round(self, t: int) -> Round:
        """Round t, the same for the same (graph, t) whatever was asked before."""
        if t < 0:
            raise BadInput(f"Rounds are numbered from 0; there is no round {t}.")
        t = 0 if self.fixed else t
        now = self._drawn.get(t)
        if now is None:
            now = self.draw(t)
            if len(self._verified) < _VERIFIED:
                self._verify(t, now)
                self._verified.append(t)
            while len(self._drawn) >= _KEPT:
                self._drawn.pop(next(iter(self._drawn)))
            self._drawn[t] = now
        return now

    def bound(self, seed: int, sizes: Tensor) -> Graph:
        """This graph in a run: a graph without a seed takes the run's, `sizes` are the peers' numbers of samples."""
        return self if self.bind is None else self.bind(seed, sizes)

    def gap(self) -> float:
        """The spectral gap δ = 1 − max(|λ₂|, |λ_n|) of a fixed graph."""
        weights = self.round(0).weights
        return 1.0 - spectrum.second_modulus(weights, self.lattice, self.column_stochastic, self.symmetric)

    def least(self) -> float:
        """The smallest eigenvalue λ_n of a fixed symmetric graph."""
        return spectrum.least(self.round(0).weights)

    def width(self) -> int:
        """The rounds in which news reaches everybody on a fixed graph; refused where somebody is never reached."""
        hops, _ = structure.diameter(self.round(0).weights, self.lattice)
        if hops is None:
            raise BadInput(f"Graph '{self.name}' is not connected: what one peer says never reaches all others.")
        return hops

    def describe(self) -> dict[str, str | int | float | None]:
        """What is known of the graph: for tables, summaries and `covey list`."""
        facts: dict[str, str | int | float | None] = {
            "name": self.name,
            "n": self.n,
            "stochasticity": self.stochasticity,
        }
        rounds = [self.round(t) for t in range(1 if self.fixed else structure.horizon(self.round(0).weights))]
        weights = [one.weights for one in rounds]
        hops, exact = structure.diameter(weights[0], self.lattice)
        wide = f"diameter{'' if self.fixed else '_of_round_0'}{'' if exact else '_at_least'}"
        if self.fixed:
            rate = spectrum.second_modulus(weights[0], self.lattice, self.column_stochastic, self.symmetric)
            facts |= {"spectral_gap": 1.0 - rate, wide: hops}
        else:
            rate = spectrum.mean_square_rate(weights[:_ESTIMATE], columns=not self.row_stochastic)
            facts |= {f"spectral_gap_in_mean_square_over_{_ESTIMATE}_rounds": 1.0 - rate, wide: hops}
            facts["window_sought_over_rounds"] = len(weights)
        facts["window"] = structure.window(weights)
        facts["mean_degree"] = float(torch.stack([one.out_degree() for one in rounds]).double().mean())
        return facts

    def _verify(self, t: int, now: Round) -> None:
        if now.weights.n != self.n or now.active.shape != (self.n,):
            raise BadInput(f"Graph '{self.name}' has {self.n} peers, but its round {t} has {now.weights.n}.")
        found = (*structure.sums_to_one(now.weights), not self.symmetric or structure.symmetric(now.weights))
        declared = (self.row_stochastic, self.column_stochastic, self.symmetric)
        claims = ("rows that sum to one", "columns that sum to one", "symmetric weights")
        for holds, promised, claim in zip(found, declared, claims, strict=True):
            if promised and not holds:
                raise BadInput(f"Graph '{self.name}' declares {claim}, which round {t} has not; correct its builder.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.name, self.n, self.seed, self.fingerprint

    def __repr__(self) -> str:
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"<graph {self.name}, {self.n} peers, {self.stochasticity}{seed}>"

    def __getstate__(self) -> dict[str, object]:
        """Everything but the rounds drawn, which can be drawn again."""
        return {**self.__dict__, "_drawn": {}}


def everybody(weights: Weights) -> Round:
    """A round in which all take part."""
    return Round(weights, torch.ones(weights.n, dtype=torch.bool))


def always(now: Round, t: int) -> Round:
    """The draw of a graph that never changes: `partial(always, round)`."""
    return now
