"""Ditto: a personal model beside the global one, held near it.

    i ∈ S_t:  w_i ← w;  w_i ← w_i − η g_i(w_i; ξ)                       `local`: what the server averages
              w̃_i ← w̃_i − η (g_i(w̃_i; ξ') + λ (w̃_i − w))              `personal`, by default like `local`; never sent
    w ← Σ_{i∈S_t} p_i w_i

T. Li, S. Hu, A. Beirami, V. Smith, *Ditto: fair and robust federated learning through personalization*, 2021. w is the
model that the round began with, held fixed. The pull is part of the gradient, as in the paper and its code (others take
it as a second step after the optimiser's), so momentum acts on it, too; ξ and ξ' are drawn apart. The DFedPGP and
DFedAlt papers take λ = 0.75, the authors 1; 5 epochs each, or 2 and 3 for the cost of 5. λ = 0 is Local beside FedAvg;
what pulls steadily needs ηλ < 2. Not FedProx, which pulls the model that is sent. Two models are trained, at the cost
of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from covey.algorithms.algorithm import Habit, Models
from covey.algorithms.dfedavg import DFedAvg
from covey.errors import BadInput
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.training import SGD


@dataclass(frozen=True)
class Ditto(DFedAvg):
    """FedAvg, and on every peer a model of its own that is pulled towards it."""

    lam: float = 0.75
    personal: SGD | None = None
    habit: ClassVar[Habit] = Habit(head_epochs=None)

    def __post_init__(self) -> None:
        if not 0 <= self.lam < float("inf"):
            raise BadInput(f"Ditto(lam={self.lam}) is out of range; the pull λ is 0 or more, such as 0.75.")

    @property
    def needs(self) -> Needs:
        return "server"

    def start(self, peers: Peers, link: Link) -> None:
        super().start(peers, link)
        peers.state["personal"] = peers.rows.clone()

    def train(self, peers: Peers) -> None:
        received = self.by.model(peers).clone()
        super().train(peers)
        peers.state["personal"] = peers.trained(
            self.personal or self.local, rows=peers.state["personal"], pull=(self.lam, received), purpose="personal"
        )

    def models(self, peers: Peers) -> Models:
        yield "model", peers.state["personal"]
        yield "global", self.by.model(peers)
