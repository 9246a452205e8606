"""Multi-task learning with constraints on pairs of neighbours: a compressed stochastic saddle point.

    min Σ_i E f_i(x_i; ξ)  with  g_ij(x_i, x_j) ≤ 0 on every edge and x_i ∈ X

    x̂_k = x̂_k + C(x̃_k − x̂_k),  x_k = Π(x̂_k),  x̄_k = mean of x_k so far   of all neighbours; at first C = identity
    x̃_i⁺ = Π(x̃_i − η ∇f_i(x_i; ξ) − 2η Σ_j λ_ij ∇_{x_i} g_ij(x_i, x_j))
    λ_ij⁺ = [λ_ij + η (g_ij(x_i, x_j) − δη λ_ij)]₊       both from the old λ; λ_ij = λ_ji to the bit;  model: x̄_i

N. Singh's dissertation, chapter 4: Algorithm 2, and 3 (feedback="bandit": ∇f_i from two values, at ±ζu; X shrunk so
that both lie in it). λ counts an edge at each end: its multiplier is 2λ. At the saddle point g = δηλ where λ > 0, the
price of bounded multipliers. Round t is line 8 of iteration t to line 7 of t + 1.

Theory covers convex f and g, and not: networks (the shared part is bounded, the personal one free and never said; take
output="last"), steps > 1 (later ones begin at one's own x̃; λ climbs as many η), triggers. It is not consensus.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import torch

from covey.algorithms.algorithm import Cooperative, Models, Report
from covey.compress import Compressor
from covey.constraints import Constraint, Region, judged, within
from covey.errors import BadInput
from covey.exchange import Copies, Exchange
from covey.link import Link
from covey.peers import Peers
from covey.tasks.task import Task
from covey.training import SGD
from covey.trigger import Trigger, always


@dataclass(frozen=True)
class SaddlePoint(Cooperative):
    """Models of one's own, which differ from each neighbour's no more than a constraint allows."""

    lr: float
    delta: float
    radius: float | Region  # X: of a ball around zero, or another set of `covey.constraints`
    compressor: Compressor
    constraint: Constraint
    feedback: Literal["sample", "bandit"] = "sample"
    zeta: float = 1e-4
    steps: int = 1
    batch: int | None = None
    trigger: Trigger = always
    output: Literal["average", "last"] = "average"
    by: Exchange = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not (self.lr > 0 and 0 <= self.delta * self.lr**2 < 1 and self.steps >= 1):
            given = f"(lr={self.lr}, delta={self.delta}, steps={self.steps})"
            raise BadInput(f"SaddlePoint{given} is out of range; use lr > 0, delta · lr² in [0, 1) and steps ≥ 1.")
        if self.feedback not in ("sample", "bandit") or self.output not in ("average", "last"):
            raise BadInput(f"feedback is 'sample' or 'bandit', not {self.feedback!r}; output 'average' or 'last'.")
        object.__setattr__(self, "by", Copies(self.compressor, self.trigger))
        _ = self.region  # refused here if ζ is too large for it

    @cached_property
    def region(self) -> Region:
        return within(self.radius, self.zeta if self.feedback == "bandit" else 0.0)

    def prepare(self, task: Task) -> Task:
        own = task.with_statistics_at_home()
        return own.probed(self.zeta) if self.feedback == "bandit" else own

    def start(self, peers: Peers, link: Link) -> None:
        self.constraint.require_fits(peers.n)
        self.region.require_fits(peers.shared.shape[1])
        peers.shared = self.region.project(peers.shared)
        super().start(peers, link)
        peers.state |= {"dual": torch.zeros_like(peers.state["copies"][..., 0]), "average": peers.shared.clone()}

    def train(self, peers: Peers) -> None:
        state, shared, project = peers.state, peers.task.layout.shared, self.region.project
        x = project(state["hat"])
        g, slope = self.constraint(x, project(state["copies"]), peers.ids, state["neighbours"])
        pull, raw, at = torch.zeros_like(peers.rows), peers.rows, peers.with_shared(x)
        pull[:, shared] = 2 * (state["dual"][..., None] * slope).sum(1)
        for k in range(self.steps):
            draw, local = f"shared {k}" if k else "shared", SGD(self.lr, batch=self.batch)
            raw = raw + (peers.trained(local, rows=at, plus=pull, purpose=draw) - at)
            raw[:, shared] = project(raw[:, shared])
            at = raw
        dual = state["dual"] + self.steps * self.lr * (g - self.delta * self.lr * state["dual"])
        state["dual"] = peers.of_active(dual.clamp(min=0), state["dual"])
        state["average"] = peers.of_active(state["average"].lerp(x, 1 / (peers.round + 1)), state["average"])
        peers.rows = peers.of_active(raw, peers.rows)

    def models(self, peers: Peers) -> Models:
        yield "model", peers.with_shared(peers.state["average"]) if self.output == "average" else peers.rows

    def report(self, peers: Peers, link: Link) -> Report:
        rows = next(self.models(peers))[1][:, peers.task.layout.shared]
        return judged(self.constraint, self.region, rows, peers.ids, peers.state["neighbours"], peers.state["dual"])
