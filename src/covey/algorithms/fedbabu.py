"""FedBABU: bodies learn under one fixed head; heads are fine-tuned only when somebody looks.

    i ∈ S_t:  u_i ← u;  u_i ← u_i − η ∇_u F_i(u_i, v⁰; ξ)               v⁰ common, and fixed for the whole training
    u ← Σ_{i∈S_t} p_i u_i
    to evaluate:  (u_i, v_i) after `finetune` from (u, v⁰), body and head; then thrown away

J. Oh, S. Kim, S.-Y. Yun, *FedBABU: toward enhanced representation for federated image classification*, 2022. The
authors fine-tune 5 epochs at rate 0.001, a hundredth of the first training rate. Every look fine-tunes everybody, those
who were not sampled as well, on copies: nothing of it reaches the training. `global` is (u, v⁰), before fine-tuning.
Not FedPer or FedRep, which train the head in every round and keep it.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.algorithm import Cooperative, Models
from covey.errors import BadInput
from covey.graphs.soundness import Needs
from covey.link import Link
from covey.peers import Peers
from covey.tasks.task import Task
from covey.training import SGD


@dataclass(frozen=True)
class FedBABU(Cooperative):
    """The server averages bodies that were trained under a common, fixed head."""

    shared: SGD
    finetune: SGD

    @property
    def needs(self) -> Needs:
        return "server"

    def prepare(self, task: Task) -> Task:
        if task.layout.trained("personal").start == task.layout.trained("personal").stop:
            raise BadInput(
                "FedBABU fixes a head, but this task has none; name the head's parameters, as in personal='head'."
            )
        return task

    def start(self, peers: Peers, link: Link) -> None:
        super().start(peers, link)
        task = peers.task
        heads = task.start(peers.ids, peers.seed, "common")[:, task.layout.personal]
        if not bool((heads == heads[:1]).all()):
            raise BadInput("FedBABU has one head for all, but this task starts its peers from different ones.")
        peers.personal = heads  # also where heads were asked to differ: here they are not the peers' own

    def train(self, peers: Peers) -> None:
        peers.train(self.shared, group="shared", mass=self.by.mass(peers))

    def models(self, peers: Peers) -> Models:
        common = self.by.model(peers)
        yield "model", peers.trained(self.finetune, rows=common, purpose="finetune", everyone=True)
        yield "global", common
