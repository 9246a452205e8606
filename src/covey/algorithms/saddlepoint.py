"""Multi-task learning with pairwise constraints: a compressed stochastic saddle point.

    min Σ_i E f_i(x_i; ξ)  with  g_ij(x_i, x_j) ≤ 0 on every edge and x_i ∈ X

    x̂_k = x̂_k + C(x̃_k − x̂_k),   x_k = Π(x̂_k)                  of oneself and of each neighbour; at first C = identity
    x̄_i = mean of x_i so far                                   what each peer would use
    x̃_i⁺ = Π(x̃_i − η ∇f_i(x_i; ξ) − 2η Σ_j λ_ij ∇_{x_i} g_ij(x_i, x_j))
    λ_ij⁺ = [λ_ij + η (g_ij(x_i, x_j) − δη λ_ij)]₊               both from the old λ; λ_ij = λ_ji to the bit

N. Singh's dissertation, chapter 4: Algorithm 2, and Algorithm 3 (`feedback="bandit"`: ∇f_i estimated from two values
ζ apart, X shrunk so that both are asked inside it). λ counts an edge once at each end: the multiplier of an undirected
edge is 2λ. The saddle point of the regularised Lagrangian has g = δηλ where λ > 0, so δη is the price of bounded duals.
Round t is lines 8 to 13 of iteration t and the messages of t + 1; the first ones are sent at the start.

Theory covers convex f and g, sample by sample. Networks may be bounded in the same way (what is shared is bounded,
what is personal is free and stays at home); no theory covers that: take `output="last"`, an average of networks being
none. Nor does theory cover `steps` > 1 (the later ones start from one's own x̃, and λ climbs by as many η) or a
`trigger`. Not consensus: neighbours may differ as far as the constraint allows, and with λ = 0 they learn alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch

from covey.algorithms.algorithm import Algorithm, Models, Report
from covey.compress import Compressor
from covey.constraints import Constraint, Region, ball, judged, proximity
from covey.errors import BadInput
from covey.exchange.compressed import compressed
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.tasks.task import Task
from covey.training import SGD
from covey.trigger import Trigger, always


@dataclass(frozen=True)
class SaddlePoint(Algorithm):
    """Models of one's own, which differ from each neighbour's no more than a constraint allows."""

    lr: float
    delta: float
    radius: float | Region  # X: of a ball around zero, or another set of `covey.constraints`
    compressor: Compressor
    constraint: Constraint = proximity(0.0)
    feedback: Literal["sample", "bandit"] = "sample"
    zeta: float = 1e-4
    steps: int = 1
    batch: int | None = None
    trigger: Trigger = always
    output: Literal["average", "last"] = "average"

    def __post_init__(self) -> None:
        problems = {
            "lr": not 0 < self.lr < float("inf"),
            "delta": not 0 <= self.delta * self.lr**2 < 1,
            "feedback": self.feedback not in ("sample", "bandit"),
            "steps": self.steps < 1,
            "output": self.output not in ("average", "last"),
        }
        for name, wrong in problems.items():
            if wrong:
                raise BadInput(f"SaddlePoint({name}={getattr(self, name)!r}) is out of range; {_RANGES[name]}.")
        _ = self.region  # refused here if ζ is too large for it

    @cached_property
    def region(self) -> Region:
        """X, or under bandit feedback X̃."""
        whole = self.radius if isinstance(self.radius, Region) else ball(self.radius)
        return whole.shrunk(self.zeta) if self.feedback == "bandit" else whole

    @property
    def needs(self) -> Needs:
        return "symmetric-fixed"

    def prepare(self, task: Task) -> Task:
        task = task.with_statistics_at_home()
        return task.probed(self.zeta) if self.feedback == "bandit" else task

    def start(self, peers: Peers, link: Link) -> None:
        width = peers.shared.shape[1]
        for part, size in ((self.constraint, peers.n), (self.region, width), (self.compressor, width)):
            part.require_fits(size)
        peers.shared = self.region.project(peers.shared)
        heard = link.gather(peers.shared)  # uncompressed: x̂ = x̃
        peers.state |= {"hat": peers.shared.clone(), "copies": heard.rows, "neighbours": heard.peers,
                        "dual": torch.zeros_like(heard.rows[..., 0]), "average": peers.shared.clone()}  # fmt: skip

    def train(self, peers: Peers) -> None:
        state, shared, project = peers.state, peers.task.layout.shared, self.region.project
        x, others = project(state["hat"]), project(state["copies"].flatten(0, 1)).view_as(state["copies"])
        g, slope = self.constraint(x, others, peers.ids, state["neighbours"])
        state["average"] = peers.of_active(state["average"].lerp(x, 1 / (peers.round + 1)), state["average"])
        plus = torch.zeros_like(peers.rows)
        plus[:, shared] = 2 * (state["dual"][..., None] * slope).sum(1)
        raw, at = peers.rows, peers.with_shared(x)
        for k in range(self.steps):
            local, purpose = SGD(self.lr, batch=self.batch), f"shared {k}" if k else "shared"
            moved = peers.trained(local, rows=at, plus=plus, purpose=purpose)
            raw = raw + (moved - at)
            raw[:, shared] = project(raw[:, shared])
            at = raw
        peers.rows = peers.of_active(raw, peers.rows)
        climb = g - self.delta * self.lr * state["dual"]
        dual = (state["dual"] + self.steps * self.lr * climb).clamp(min=0)
        state["dual"] = peers.of_active(dual, state["dual"])

    def exchange(self, peers: Peers, link: Link) -> None:
        q = compressed(self.compressor, self.trigger, peers.shared - peers.state["hat"], peers)
        q.add_to(peers.state["hat"])
        peers.state["copies"] += link.gather(q).rows

    def models(self, peers: Peers) -> Models:
        average = peers.with_shared(peers.state["average"])
        first, second = (average, peers.rows) if self.output == "average" else (peers.rows, average)
        yield "model", first
        yield ("last" if self.output == "average" else "averaged"), second

    def report(self, peers: Peers, link: Link) -> Report:
        rows = next(self.models(peers))[1][:, peers.task.layout.shared]
        return judged(self.constraint, self.region, rows, peers.ids, peers.state["neighbours"], peers.state["dual"])


_RANGES = {
    "lr": "a rate is a number above 0, such as 0.001",
    "delta": "use 0 or more, and delta · lr² below 1, or the multipliers are forgotten as they grow",
    "feedback": "use 'sample' or 'bandit'",
    "steps": "use 1 or more",
    "output": "use 'average' or 'last'",
}
