"""Inside a covey: a peer with few samples uses its neighbours' representations beside its own.

    φ_j          what neighbour j's network gives its head; j sends its shared parameters, once, and no head
    S_i          all neighbours; or those whose φ_j lower i's error on its validation samples (`choose`)
    ŵ_i          the head on [1, φ_i, φ_j : j ∈ S_i], by least squares on i's training samples (phase 1)

Singh, *Towards Efficient Federated Learning*, 6.4: every device a target and a source at once. Classes are fitted as 0
and 1, and the largest output is the prediction. The result has a wider head than the task, so it is no row of `peers`
and nothing is changed; it is made once, after training. Not an average of models: bodies stay as their peers made them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from covey.data.samples import Federated
from covey.errors import BadInput
from covey.link import Link
from covey.peers import Peers
from covey.tasks.module import ModuleTask
from covey.transfer.choice import Choice, choose
from covey.transfer.dictionary import dictionary
from covey.transfer.features import blocks, penultimate
from covey.transfer.phases import Head, fit_head


@dataclass(frozen=True)
class Borrowed:
    """One peer's model on its own and its neighbours' features.

    peer, sources   who it is, and the ids of the neighbours whose features it uses, the most useful first
    choice          the errors on the validation samples, with 0, 1, … of them; None where all were taken unseen
    head            its theta is [1 + features, outputs]; where `unique` is False it is the one of smallest norm
    """

    peer: int
    sources: tuple[int, ...]
    choice: Choice | None
    head: Head
    networks: tuple[nn.Module, ...]
    part: str

    def predict(self, x: Tensor) -> Tensor:
        """[n, outputs]; for classes the largest is the prediction."""
        return _features(self.networks, self.part, x).to(self.head.theta) @ self.head.theta


def borrow(peers: Peers, link: Link, head: str, *, level: float | None = None) -> list[Borrowed]:
    """A model per row of `peers`. `head` names the part of the module whose input is the representation; every
    parameter before it must be shared.

    level=None takes every neighbour: the head of smallest norm bears useless features well, and a choice on a handful
    of validation samples finds little. A number chooses, at that risk of taking a neighbour who does not help; it
    needs a validation part of the data, as simulate(validation=0.2) sets aside."""
    task, data = _require_networks(peers, head, level is not None)
    said = link.gather(peers.shared)
    return [_borrow(peers, task, data, i, said.peers[i], said.rows[i], head, level) for i in range(len(peers))]


def _borrow(peers: Peers, task: ModuleTask, data: Federated, i: int, ids: Tensor, shared: Tensor, head: str,
            level: float | None) -> Borrowed:  # fmt: skip
    there = ids >= 0
    rows = peers.rows[i].expand(1 + int(there.sum()), -1).clone()  # heads in it are peer i's own, and are not used
    rows[1:, task.layout.shared] = shared[there.to(shared.device)]
    networks = tuple(_network(task, row) for row in rows)
    x, y = data.train.of(i)
    X, Y = _features(networks, head, x), _outputs(y, data.classes)
    width = (X.shape[1] - 1) // len(networks)
    own, *theirs = blocks([1 + width] + [width] * (len(networks) - 1), X)
    choice, kept = None, tuple(range(len(theirs)))
    if level is not None and data.validation is not None:
        x, y = data.validation.of(i)
        X_held, Y_held = _features(networks, head, x), _outputs(y, data.classes)
        choice = choose(X, Y, theirs, X_held, Y_held, always=[own], level=level)
        kept = choice.sources
    used = [own, *(theirs[s] for s in kept)]
    fit = fit_head(X, Y, dictionary(used))
    sources = tuple(int(ids[there][s]) for s in kept)
    theta = torch.cat([B.T @ fit.theta for B in used])  # the coordinates of the networks that are kept, in their order
    return Borrowed(int(peers.ids[i]), sources, choice, Head(fit.w, theta, fit.rank, fit.unique),
                    tuple(networks[k] for k in (0, *(s + 1 for s in kept))), head)  # fmt: skip


def _features(networks: tuple[nn.Module, ...], head: str, x: Tensor) -> Tensor:
    """[1, φ_1(x), φ_2(x), …]."""
    found = [penultimate(network, head, x) for network in networks]
    return torch.cat([found[0].new_ones(len(x), 1), *found], dim=1)


def _network(task: ModuleTask, row: Tensor) -> nn.Module:
    module = copy.deepcopy(task.module)
    module.load_state_dict(task.state_dict(row))
    return module


def _outputs(y: Tensor, classes: int | None) -> Tensor:
    return y.reshape(len(y), -1).double() if classes is None else F.one_hot(y, classes).double()


def _require_networks(peers: Peers, head: str, choosing: bool) -> tuple[ModuleTask, Federated]:
    task = peers.task
    if not isinstance(task, ModuleTask):
        raise BadInput("borrow() needs a task made by Task.from_module: a function has no representation to lend.")
    if choosing and task.data.validation is None:
        raise BadInput(
            "borrow() chooses sources on samples that nobody trained on, and there are none; set some aside: "
            "covey.simulate(…, validation=0.2), or take every neighbour (level=None)."
        )
    kept = [name for name in task.layout.members("personal", task.layout.parameters) if not name.startswith(f"{head}.")]
    if kept:
        raise BadInput(
            f"The parameters {kept} are personal but no part of '{head}', so neighbours do not send all that lies "
            "before the head; name the part that holds every personal parameter, or share them."
        )
    return task, task.data
