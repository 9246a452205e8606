"""FedAvg: a server averages the whole models of those it sampled.

    i ∈ S_t:  w_i ← w;  w_i ← w_i − η g_i(w_i; ξ)   (E epochs)
    w ← Σ_{i∈S_t} p_i w_i                            p_i = 1/|S_t|, or n_i / Σ n  with server(…, weights="size")

B. McMahan et al., *Communication-efficient learning of deep networks from decentralized data*, 2017. On a server graph
the new w is written to every row. Three models are told apart, because papers evaluate each of them as "FedAvg": the
`global` w; `fresh`, w after E epochs on a peer's own data (made to be looked at, then thrown away); and `stale`, what a
peer last trained itself (its first model if it was never sampled). With everybody sampled and equal weights this is
DFedAvg on the complete graph. Not personalised: its `fresh` model is what papers compare personal models with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from covey.algorithms.algorithm import Habit, Models
from covey.algorithms.dfedavg import DFedAvg
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers


@dataclass(frozen=True)
class FedAvg(DFedAvg):
    """Federated averaging on a server graph."""

    habit: ClassVar[Habit] = Habit()

    @property
    def needs(self) -> Needs:
        return "server"

    def start(self, peers: Peers, link: Link) -> None:
        super().start(peers, link)
        peers.state["stale"] = peers.rows.clone()

    def train(self, peers: Peers) -> None:
        super().train(peers)
        peers.state["stale"] = peers.of_active(peers.rows, peers.state["stale"])

    def models(self, peers: Peers) -> Models:
        yield "global", peers.rows
        yield "fresh", peers.trained(self.local, purpose="fresh", everyone=True, continuing="shared")
        yield "stale", peers.state["stale"]
