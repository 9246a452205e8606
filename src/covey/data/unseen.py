"""Data for peers that had no part in a run: disjoint from everything that the run trained on."""

from __future__ import annotations

import torch
from torch import Tensor

from covey.data.federate import federate
from covey.data.samples import Federated
from covey.errors import BadInput

_BY_USER = "natural"


def unseen(
    data: Federated, peers: int | None = None, partition: str | None = None, seed: int = 0, samples: int | None = None
) -> Federated:
    """New peers, divided as the peers of `data` were unless `partition` says otherwise.

    Divided by user: the users that are no peers of `data`, with all their samples. Else what no peer of `data` trains
    or is validated on, that is, the test samples (they judge a run and do not change it) and whatever `samples=` left
    over, divided anew. A fifth of it, stratified, is for testing.
    """
    kind = partition or data.partition
    if kind == "given":
        raise BadInput("The peers of these data brought their own; name a partition for the new ones, such as iid.")
    used = [part.index for part in (data.train, data.validation) if part is not None]
    mine = torch.zeros(len(data.train.arrays[1]), dtype=torch.bool)
    mine[torch.cat(used).cpu()] = True
    keep, keep_test, users = ~mine, torch.ones(len(data.test.arrays[1]), dtype=torch.bool), None
    if kind == _BY_USER:
        keep, keep_test, users = _of_others(data, mine)
    x, y = (torch.cat([a.cpu()[keep], b.cpu()[keep_test]]) for a, b in _both(data))
    return federate(
        x, y, users=None if users is None else users.numpy(), peers=peers, partition=kind, seed=seed, samples=samples,
        classes=data.classes, transform=data.train.transform, name=f"{data.name}, unseen",
    )  # fmt: skip


def _both(data: Federated) -> list[tuple[Tensor, Tensor]]:
    return list(zip(data.train.arrays, data.test.arrays, strict=True))


def _of_others(data: Federated, mine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The samples of users who are no peers of `data`, and whose they are."""
    if data.users is None:
        raise BadInput("These data do not say which user a sample is of; name another partition, such as iid.")
    train, test = data.users
    known = torch.unique(train[mine])
    keep, keep_test = ~torch.isin(train, known), ~torch.isin(test, known)
    if not bool(keep.any()):
        raise BadInput(
            f"All {len(known)} users are peers of the run, so none is left; run with fewer peers, or divide what the "
            "run did not train on in another way, such as dirichlet:0.1."
        )
    return keep, keep_test, torch.cat([train[keep], test[keep_test]])
