"""Who gets which samples.

    iid                     random, equal sizes
    dirichlet:α             each peer has its own mix of classes, Dir(α); equal sizes
    dirichlet_classes:α     each class is spread over the peers in Dir(α) shares; unequal sizes
    pathological:c          exactly c classes per peer, equally; equal sizes
    shards:c                each class cut into shards, c shards per peer
    natural                 one peer per user of the data

No training sample is at two peers, unless `reuse=True` asks for the form of the papers that issue the samples of a
used-up class again. The test samples of a peer have the mix of its training samples: of class l it gets
⌈ (its training samples of l) · (test samples) / (training samples) ⌉ (iid: the test set is cut as the training set is;
natural: the user's own). The ceilings ask for slightly more than there are, so peers may share a few *test* samples:
they are dealt in turn, and begin anew only where a class runs out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.data import shares
from covey.data.draws import deal, stratified
from covey.data.samples import starts_of
from covey.errors import BadInput, UnknownName
from covey.randomness import choose, key

_NUMBERS = {
    "iid": None,
    "dirichlet": "0.1",
    "dirichlet_classes": "0.1",
    "pathological": "2",
    "shards": "2",
    "natural": None,
}  # name -> an example of the number it takes
PARTITIONS = tuple(_NUMBERS)


@dataclass(frozen=True)
class Partition:
    """A parsed name: `alpha` for the Dirichlet kinds, `c` for those that count classes."""

    kind: str
    alpha: float = 0.0
    c: int = 0

    @property
    def by_class(self) -> bool:
        return _NUMBERS[self.kind] is not None


def parse(text: str) -> Partition:
    kind, colon, number = text.strip().partition(":")
    if kind not in _NUMBERS:
        raise UnknownName("partition", kind, PARTITIONS)
    example = _NUMBERS[kind]
    if example is None:
        if colon:
            raise BadInput(f"The partition '{kind}' takes no number, but '{text}' gives one.")
        return Partition(kind)
    whole = "." not in example
    try:
        value = int(number) if whole else float(number)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        want = "a whole number of at least 1" if whole else "a number above 0"
        raise BadInput(f"The partition '{text}' needs {want}, as in '{kind}:{example}'.")
    return Partition(kind, c=int(value)) if whole else Partition(kind, alpha=value)


@dataclass(frozen=True)
class Plan:
    """How to divide: see `covey.data.federate` for what the options mean."""

    peers: int | None = None
    partition: str = "iid"
    seed: int = 0
    samples: int | None = None
    test_samples: int | None = None
    reuse: bool = False


@dataclass(frozen=True)
class Part:
    """Positions in the pooled samples, peer by peer, and where each peer starts."""

    index: Tensor
    starts: Tensor


@dataclass(frozen=True)
class Division:
    train: Part
    test: Part
    moved: int = 0


@dataclass(frozen=True)
class Labelled:
    """What a division goes by: labels (any integers) and users (0 … users - 1) of one pool of samples."""

    labels: Tensor
    users: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)


def divide(plan: Plan, train: Labelled, test: Labelled, classes: int | None) -> Division:
    """The training and the test samples of each peer. `classes` is None where the labels are no classes."""
    partition = parse(plan.partition)
    for option, value in (("peers", plan.peers), ("samples", plan.samples), ("test_samples", plan.test_samples)):
        if value is not None and value < 1:
            raise BadInput(f"{option} is {value}, but must be at least 1.")
    if plan.reuse and partition.kind not in ("dirichlet", "pathological"):
        raise BadInput(f"reuse=True is a form of 'dirichlet' and 'pathological' only, not of '{plan.partition}'.")
    if partition.kind == "natural":
        division = _natural(plan, train, test)
    else:
        division = _made(plan, partition, train, test, classes)
    if (division.train.starts.diff() == 0).any():
        peer = int((division.train.starts.diff() == 0).nonzero()[0])
        raise BadInput(
            f"Peer {peer} would get no training sample from '{plan.partition}' over {len(division.train.starts) - 1} "
            f"peers of {len(train)} samples; use fewer peers or a milder partition."
        )
    if (division.test.starts.diff() == 0).any():
        peer = int((division.test.starts.diff() == 0).nonzero()[0])
        raise BadInput(f"Peer {peer} would get no test sample: the test set holds none of the classes it trains on.")
    return Division(
        _at_most(plan.samples, division.train, train.labels, plan.seed, "samples"),
        _at_most(plan.test_samples, division.test, test.labels, plan.seed, "test_samples"),
        division.moved,
    )


def _made(plan: Plan, partition: Partition, train: Labelled, test: Labelled, classes: int | None) -> Division:
    peers = plan.peers
    if peers is None:
        raise BadInput(f"Say among how many peers to divide the data, as in peers=20 (partition '{plan.partition}').")
    if len(train) < peers:
        raise BadInput(f"{len(train)} training samples cannot be divided among {peers} peers: each needs at least one.")
    if len(test) == 0:
        raise BadInput("There is no test sample, but every peer needs at least one.")
    if partition.kind == "iid":
        return _iid(plan, peers, train, test)
    if classes is None:
        raise BadInput(
            f"The partition '{plan.partition}' goes by classes, but the labels are not one whole number ≥ 0 per "
            "sample; use 'iid' or 'natural', or convert the labels."
        )
    if partition.c > classes:
        raise BadInput(f"'{plan.partition}' asks for {partition.c} classes per peer, but the data have {classes}.")
    supply = torch.bincount(train.labels, minlength=classes)
    moved = 0
    if partition.kind == "dirichlet":
        counts = shares.by_prior(partition.alpha, supply, peers, plan.seed, plan.reuse)
    elif partition.kind == "dirichlet_classes":
        counts, moved = shares.by_class(partition.alpha, supply, peers, plan.seed)
    elif partition.kind == "pathological":
        counts = shares.pathological(partition.c, supply, peers, plan.seed, plan.reuse)
    else:
        counts = shares.shards(partition.c, supply, peers, plan.seed)
    return Division(Part(*deal(counts, train.labels, plan.seed, "train")), _test_like(counts, test.labels, plan), moved)


def _iid(plan: Plan, peers: int, train: Labelled, test: Labelled) -> Division:
    one_class = torch.zeros(len(train), dtype=torch.int64), torch.zeros(len(test), dtype=torch.int64)
    each = shares.even(len(test), peers).clamp(min=1)  # fewer test samples than peers: they are shared
    if plan.test_samples is not None:  # as many as asked for, even where this shares some
        each = torch.full_like(each, min(plan.test_samples, len(test)))
    return Division(
        Part(*deal(shares.even(len(train), peers)[:, None], one_class[0], plan.seed, "train")),
        Part(*deal(each[:, None], one_class[1], plan.seed, "test")),
    )


def _test_like(counts: Tensor, labels: Tensor, plan: Plan) -> Part:
    """Test samples in the mix of the training counts; the ceiling is taken of whole numbers, free of rounding."""
    supply = torch.bincount(labels, minlength=counts.shape[1])[: counts.shape[1]]
    if plan.test_samples is None:
        wanted, of = counts * len(labels), counts.sum().clamp(min=1)
    else:
        wanted, of = counts * plan.test_samples, counts.sum(1, keepdim=True).clamp(min=1)
    return Part(*deal(torch.minimum(-(-wanted // of), supply), labels, plan.seed, "test"))


def _natural(plan: Plan, train: Labelled, test: Labelled) -> Division:
    if train.users is None or test.users is None:
        raise BadInput(
            "The partition 'natural' needs the user of every training and test sample; give users (and users_test)."
        )
    known = int(torch.cat([train.users, test.users]).max()) + 1
    both = (torch.bincount(train.users, minlength=known) > 0) & (torch.bincount(test.users, minlength=known) > 0)
    complete = both.nonzero()[:, 0]
    peers = known if plan.peers is None else plan.peers
    if peers > known:
        raise BadInput(f"The data have {known} users, fewer than the {peers} peers asked for.")
    if peers > len(complete):
        raise BadInput(
            f"Only {len(complete)} of {known} users have both a training and a test sample; ask for that many peers."
        )
    drawn = choose(key(plan.seed, "users"), len(complete), peers).sort().values
    chosen = complete[drawn]
    return Division(_of_users(train.users, chosen, known), _of_users(test.users, chosen, known))


def _of_users(users: Tensor, chosen: Tensor, known: int) -> Part:
    peer = torch.full((known,), -1)
    peer[chosen] = torch.arange(len(chosen))
    owner = peer[users]
    index = torch.argsort(owner, stable=True)[int((owner < 0).sum()) :]
    return Part(index, starts_of(torch.bincount(owner[owner >= 0], minlength=len(chosen))))


def _at_most(limit: int | None, part: Part, labels: Tensor, seed: int, option: str) -> Part:
    """At most `limit` samples of each peer, in its own mix."""
    if limit is None:
        return part
    counts = part.starts.diff()
    if int(counts.max()) < limit:
        raise BadInput(f"{option}={limit} is more than any peer has; the largest has {int(counts.max())}.")
    keep = counts.clamp(max=limit)
    mask = stratified(labels[part.index], part.starts, keep, key(seed, option, torch.arange(len(counts))))
    return Part(part.index[mask], starts_of(keep))


def hold_out_test(fraction: float, of: Labelled, seed: int) -> tuple[Tensor, Tensor]:
    """Positions of the training and of the test samples where no test set is given.

    Of each user (of all, where there are none) `fraction` of the samples, in the user's own mix of labels; at least one
    is kept and one held out where there are two.
    """
    users = torch.zeros(len(of), dtype=torch.int64) if of.users is None else of.users
    counts = torch.bincount(users)
    held = (counts * fraction).round().long().clamp(min=1).minimum((counts - 1).clamp(min=0))
    order = torch.argsort(users, stable=True)
    mask = stratified(of.labels[order], starts_of(counts), held, key(seed, "hold out test", torch.arange(len(counts))))
    return order[~mask].sort().values, order[mask].sort().values
