"""The samples of peers: pooled tensors that lie in memory once, and for each peer which of them are its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.randomness import key, permutations

Transform = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Samples:
    """The samples of some peers.

    `arrays` are pooled, (x, y) with the sample first; peer i owns the positions `index[starts[i] : starts[i + 1]]`.
    Images stay uint8; `transform` makes numbers of x when a batch is taken, on the device of the data, and accepts any
    number of leading axes. `starts` stay on the CPU, where it is planned who takes how many steps.
    """

    arrays: tuple[Tensor, ...]
    index: Tensor
    starts: Tensor
    transform: Transform | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Tensor:
        """The number of samples of each peer: int64 [peers]."""
        return self.starts.diff()

    @property
    def device(self) -> torch.device:
        return self.index.device

    def batch(self, rows: Tensor, positions: Tensor) -> tuple[Tensor, ...]:
        """A batch per peer: rows int64 [m], positions int64 [m, b] within each peer's samples -> x, y [m, b, ...]."""
        return self.pooled(self.locate(rows[:, None], positions))

    def locate(self, rows: Tensor, positions: Tensor) -> Tensor:
        """Where the samples at these positions within each row's own lie in `arrays`."""
        return self.index[(self.starts[rows.cpu()] + positions.cpu()).to(self.device)]

    def pooled(self, positions: Tensor) -> tuple[Tensor, ...]:
        """The samples at these positions of `arrays`, whoever owns them."""
        flat = positions.reshape(-1)
        x, *rest = (a.index_select(0, flat).reshape(*positions.shape, *a.shape[1:]) for a in self.arrays)
        return (x if self.transform is None else self.transform(x), *rest)

    def of(self, peer: int) -> tuple[Tensor, ...]:
        """All samples of one peer."""
        if not -len(self) <= peer < len(self):
            raise BadInput(f"There is no peer {peer}: the data have {len(self)} peers, numbered from 0.")
        peer %= len(self)
        return self.pooled(self.positions(peer))

    def positions(self, peer: int) -> Tensor:
        """Where the samples of one peer lie, for `pooled`."""
        return self.index[int(self.starts[peer]) : int(self.starts[peer + 1])]

    def everything(self, rows: Tensor) -> tuple[Tensor, ...]:
        """All samples of these peers, who must have equally many: x, y [m, count, ...]."""
        return self.batch(rows, torch.arange(int(self.counts[rows[0]])).expand(len(rows), -1))

    def class_counts(self, classes: int) -> Tensor:
        """How often each peer has each class: int64 [peers, classes]."""
        return count_classes(self.arrays[1][self.index], self.starts, classes)

    def unique(self) -> Tensor:
        """The positions that any peer owns, ascending and once each: the pooled set."""
        return torch.unique(self.index)

    def select(self, peers: Tensor) -> Samples:
        """Only these peers, in this order, without a trace of what the others hold."""
        peers = torch.as_tensor(peers, dtype=torch.int64, device="cpu")
        if len(peers) and not (int(peers.min()) >= 0 and int(peers.max()) < len(self)):
            raise BadInput(f"Cannot select peers {peers.tolist()}: the data have {len(self)} peers, numbered from 0.")
        counts = self.counts[peers]
        index = self.index[_runs(self.starts[peers], counts).to(self.device)]
        arrays = self.arrays
        if len(torch.unique(peers)) < len(self):
            kept = torch.unique(index)
            index = torch.searchsorted(kept, index)
            arrays = tuple(a.index_select(0, kept) for a in arrays)
        return replace(self, arrays=arrays, index=index, starts=starts_of(counts))

    def to(self, device: torch.device | str) -> Samples:
        return replace(
            self,
            arrays=tuple(a.to(device) for a in self.arrays),
            index=self.index.to(device),
        )

    def split(self, fraction: float, seed: int, purpose: str = "validation") -> tuple[Samples, Samples]:
        """Each peer's samples in two, (kept, held): round(fraction * count) are held, drawn by (seed, purpose, peer).

        At least one is held and one kept where a peer has two or more. Split before `select`: the draw goes by the
        number that a peer has here.
        """
        if not 0 <= fraction < 1:
            raise BadInput(f"The part to hold out is {fraction}, but it must be at least 0 and less than 1.")
        counts = self.counts
        held = (counts * fraction).round().long()
        held = torch.minimum(held.clamp(min=1 if fraction > 0 else 0), (counts - 1).clamp(min=0))
        peers = torch.arange(len(self))
        order = permutations(key(seed, purpose, peers), counts)
        first = _runs(self.starts[:-1], held)  # the first `held` of each peer's random order
        chosen = order[first] + torch.repeat_interleave(self.starts[:-1], held)
        mark = torch.zeros(len(self.index), dtype=torch.bool, device=self.device)
        mark[chosen] = True
        return (
            replace(self, index=self.index[~mark], starts=starts_of(counts - held)),
            replace(self, index=self.index[mark], starts=starts_of(held)),
        )


@dataclass(frozen=True)
class Pooled(Samples):
    """Samples of which each of `peers` peers has all; they lie in memory once."""

    peers: int = 1

    def __len__(self) -> int:
        return self.peers

    @property
    def counts(self) -> Tensor:
        return torch.full((self.peers,), len(self.index), device=self.device)

    def locate(self, rows: Tensor, positions: Tensor) -> Tensor:
        return self.index[torch.broadcast_tensors(rows.to(self.device), positions.to(self.device))[1]]

    def positions(self, peer: int) -> Tensor:
        return self.index

    def select(self, peers: Tensor) -> Pooled:
        return replace(self, peers=len(peers))

    def class_counts(self, classes: int) -> Tensor:
        return super().class_counts(classes).expand(self.peers, -1)


@dataclass(frozen=True)
class Federated:
    """What all peers train on and are tested on, and where it came from.

    `moved` counts the samples that a partition had to move so that every peer has enough (see `partition.py`);
    `users` is lost by `select`.
    """

    train: Samples
    test: Samples
    validation: Samples | None = None
    classes: int | None = None
    name: str = "data"
    partition: str = "given"
    seed: int | None = None
    moved: int = 0
    users: tuple[Tensor, Tensor] | None = None  # whose each sample of `arrays` is, of training and of test

    def __len__(self) -> int:
        return len(self.train)

    def hold_out(self, fraction: float, seed: int) -> Federated:
        """Moves a part of each peer's training samples to `validation`."""
        if self.validation is not None:
            raise BadInput("These data have a validation part already; hold it out once.")
        train, validation = self.train.split(fraction, seed)
        return replace(self, train=train, validation=validation)

    def class_counts(self) -> Tensor:
        """How many training samples of each class a peer has: int64 [peers, classes]."""
        if self.classes is None:
            raise BadInput("These data have no classes to count: y is not a vector of integer labels.")
        return self.train.class_counts(self.classes)

    def centralised(self) -> Federated:
        """The same, every peer having all training samples that any of them has."""
        every = self.train.unique()
        ends = torch.tensor([0, len(every)], device=every.device)
        train = Pooled(self.train.arrays, every, ends, self.train.transform, peers=len(self))
        return replace(self, train=train)

    def select(self, peers: Tensor) -> Federated:
        """Only these peers, without a trace of what the others hold."""
        validation = None if self.validation is None else self.validation.select(peers)
        return replace(
            self, train=self.train.select(peers), test=self.test.select(peers), validation=validation, users=None
        )

    def to(self, device: torch.device | str) -> Federated:
        train = self.train.to(device)
        validation = None
        if self.validation is not None:  # it shares the arrays of the training part: they must not be copied twice
            index, starts = self.validation.index.to(device), self.validation.starts.to(device)
            same = all(a is b for a, b in zip(self.validation.arrays, self.train.arrays, strict=True))
            arrays = train.arrays if same else tuple(a.to(device) for a in self.validation.arrays)
            validation = replace(self.validation, arrays=arrays, index=index, starts=starts)
        return replace(self, train=train, test=self.test.to(device), validation=validation)

    def describe(self) -> dict[str, int | str | None]:
        counts = self.train.counts
        return {
            "name": self.name,
            "partition": self.partition,
            "data_seed": self.seed,
            "peers": len(self),
            "train": len(self.train.index),
            "test": len(self.test.index),
            "validation": 0 if self.validation is None else len(self.validation.index),
            "smallest": int(counts.min()),
            "largest": int(counts.max()),
            "classes": self.classes,
            "moved": self.moved,
        }


def starts_of(counts: Tensor) -> Tensor:
    """Where each peer's samples start, and the end: int64 [peers + 1]."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def count_classes(labels: Tensor, starts: Tensor, classes: int) -> Tensor:
    """How often each class stands in each peer's part of `labels`: int64 [peers, classes]."""
    peers = len(starts) - 1
    owner = torch.repeat_interleave(torch.arange(peers, device=labels.device), starts.diff())
    return torch.bincount(owner * classes + labels, minlength=peers * classes).reshape(peers, classes)


def _runs(begin: Tensor, counts: Tensor) -> Tensor:
    """begin[0], begin[0] + 1, … (counts[0] of them), begin[1], …"""
    within = torch.arange(int(counts.sum()), device=counts.device) - torch.repeat_interleave(
        counts.cumsum(0) - counts, counts
    )
    return torch.repeat_interleave(begin, counts) + within
