"""Fed-RoD: a generic head that learns all classes alike, and a personal one that learns what is left to say.

    z = body(x);   o_G = h(z);   o_P = g_i(stop(z))
    i ∈ S_t:  E epochs on   CE(o_G + log n_i, y) + CE(stop(o_G) + o_P, y)           n_i(c): i's samples of class c
    u, h ← Σ_{i∈S_t} p_i (u_i, h_i);   g_i stays                                     u: the body
    prediction: o_G + o_P (`model`), or o_G (`generic`)

H.-Y. Chen, W.-L. Chao, *On bridging generic and personalized federated learning for image classification*, 2022. Body
and h learn by the balanced softmax, under which a class that i has not has probability 0 and moves nothing; no gradient
of g reaches the body, or h. It is FedPer on that task (`covey/tasks/two_heads.py`): h is the head that `personal`
names, g at first its copy. hyper: g_i is not learned but made from i's shares of classes by a network H with so many
hidden units, which the server averages, too: the paper's variant, whose shape those who compare with it do not tell.
Not the "FedRoD" of DePRL's code, which has neither the balanced softmax nor the sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.algorithms.algorithm import Models
from covey.algorithms.fedper import FedPer
from covey.peers import Peers
from covey.tasks.task import Task
from covey.tasks.two_heads import TwoHeadTask


@dataclass(frozen=True)
class FedRoD(FedPer):
    """FedPer with a generic head, balanced, beside the personal one."""

    hyper: int | None = None

    def prepare(self, task: Task) -> Task:
        return TwoHeadTask(task, self.hyper)

    def models(self, peers: Peers) -> Models:
        assert isinstance(peers.task, TwoHeadTask)
        rows = self.by.model(peers)
        yield "model", rows
        yield "generic", peers.task.generic(rows)
