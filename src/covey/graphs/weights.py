"""The mixing of one round: a matrix W with which receiver i weighs what sender j says, y_i = sum_j W[i, j] x_j.

Two representations, because the two extremes differ by orders of magnitude: few neighbours (`Sparse`), and everybody
hears the same (`SameRow`: a server, a complete graph), which never needs n x n numbers.

Each mixes in two ways. The fast one is a matrix product. The exact one adds one neighbour after the other, ascending
by sender, product and sum rounded apart, zero weights skipped: whoever adds messages in that order, as a peer on a
network does, gets the same bits.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from covey.errors import BadInput

# Measured on two cores: a dense product wins below some hundred peers, compressed rows win above (5 to 10 times).
_DENSE_PEERS = 512
_DENSE_SHARE = 0.1
_BLOCK_CPU = 2**18  # numbers per temporary of the exact sum: two of them stay in cache
_BLOCK_DEVICE = 2**25


class Weights(ABC):
    """The mixing matrix of one round; `n` peers, float64 on the CPU, used in the type and on the device of x."""

    n: int

    def apply(self, x: Tensor, exact: bool = False) -> Tensor:
        """W @ x for x [n, d], a new tensor of x's type and device.

        `exact`: add in ascending order of the sender, skipping zero weights (see above). A row that is not finite
        reaches only those who give it weight, except in a fast product on an accelerator, where looking would cost
        a synchronisation.
        """
        if x.ndim != 2 or x.shape[0] != self.n:
            raise BadInput(f"Mixing {self.n} peers needs a matrix of {self.n} rows, not one of shape {tuple(x.shape)}.")
        if x.numel() == 0:
            return x.clone()
        return self._add_in_order(x) if exact else self._multiply(x)

    @abstractmethod
    def entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """The non-zero entries, by receiver and then by sender: receivers, senders (int64), weights (float64)."""

    @abstractmethod
    def diagonal(self) -> Tensor:
        """The weight that each peer gives itself, [n]."""

    @abstractmethod
    def off_diagonal(self) -> Weights:
        """The same without the diagonal: what arrives from others."""

    @abstractmethod
    def _multiply(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _add_in_order(self, x: Tensor) -> Tensor: ...

    def dense(self) -> Tensor:
        """W, [n, n]."""
        receiver, sender, value = self.entries()
        matrix = torch.zeros(self.n, self.n, dtype=torch.float64)
        matrix[receiver, sender] = value
        return matrix

    def senders(self) -> tuple[Tensor, Tensor]:
        """Whom each peer hears, itself excluded: ids [n, slots] ascending (-1: empty) and weights (0 where empty)."""
        receiver, sender, value = self.entries()
        other = receiver != sender
        receiver, sender, value = receiver[other], sender[other], value[other]
        count = torch.bincount(receiver, minlength=self.n)
        slot = torch.arange(len(receiver)) - (count.cumsum(0) - count)[receiver]
        shape = (self.n, int(count.max()))
        ids = torch.full(shape, -1, dtype=torch.int64)
        weights = torch.zeros(shape, dtype=torch.float64)
        ids[receiver, slot] = sender
        weights[receiver, slot] = value
        return ids, weights


class Sparse(Weights):
    """W as the list of its non-zero entries; equal (receiver, sender) pairs are added up."""

    def __init__(self, n: int, receiver: Tensor, sender: Tensor, value: Tensor) -> None:
        self.n = n
        value = value.double()
        place, order = torch.sort(receiver * n + sender, stable=True)  # or the sums below depend on the sort
        value = value[order]
        if bool((place[1:] == place[:-1]).any()):
            place, group = torch.unique_consecutive(place, return_inverse=True)
            value = torch.zeros(len(place), dtype=torch.float64).index_add_(0, group, value)
        if not bool((kept := value != 0).all()):
            place, value = place[kept], value[kept]
        self._receiver = place // n
        self._sender = place % n
        self._value = value
        self._ready: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def __getstate__(self) -> dict[str, object]:
        """Everything but what can be made again, so that a pickled graph is small."""
        kept = ("n", "_receiver", "_sender", "_value")
        return {**{name: self.__dict__[name] for name in kept}, "_ready": {}}

    def entries(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._receiver, self._sender, self._value

    def diagonal(self) -> Tensor:
        own = self._receiver == self._sender
        return torch.zeros(self.n, dtype=torch.float64).index_put_((self._receiver[own],), self._value[own])

    def off_diagonal(self) -> Sparse:
        other = self._receiver != self._sender
        return Sparse(self.n, self._receiver[other], self._sender[other], self._value[other])

    def _multiply(self, x: Tensor) -> Tensor:
        few = len(self._value) < _DENSE_SHARE * self.n**2
        if self.n > _DENSE_PEERS and few and x.dtype in (torch.float32, torch.float64):
            return self._rows(x) @ x
        y = self._matrix(x) @ x
        # A number that is not finite reaches every row of its column, since 0 * nan is nan: one row tells.
        if x.device.type == "cpu" and not bool(y[0].isfinite().all()):
            return self._add_in_order(x)
        return y

    def _matrix(self, x: Tensor) -> Tensor:
        where = ("dense", x.dtype, x.device)
        if where not in self._ready:
            self._ready[where] = self.dense().to(x.device, x.dtype)
        return self._ready[where]

    def _rows(self, x: Tensor) -> Tensor:
        where = ("rows", x.dtype, x.device)
        if where not in self._ready:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
                start = torch.cat([torch.zeros(1, dtype=torch.int64), self._count.cumsum(0)])
                shape = (self.n, self.n)
                rows = torch.sparse_csr_tensor(start, self._sender, self._value, shape, check_invariants=False)
                self._ready[where] = rows.to(x.device, x.dtype)
        return self._ready[where]

    @cached_property
    def _count(self) -> Tensor:
        return torch.bincount(self._receiver, minlength=self.n)

    def _add_in_order(self, x: Tensor) -> Tensor:
        # Receivers in falling order of their number of neighbours, so that those who still have one are a prefix:
        # no padding, no masks. In blocks, so that the temporaries stay in cache.
        block = _BLOCK_CPU if x.device.type == "cpu" else _BLOCK_DEVICE
        width = min(x.shape[1], max(2048, block // self.n))
        order = torch.sort(self._count, descending=True, stable=True).indices
        y = torch.zeros_like(x, memory_format=torch.contiguous_format)
        for rows in order.split(max(1, block // width)):
            slots = [(s.to(x.device), w.to(x.device, x.dtype)) for s, w in self._slots(rows)]
            rows = rows.to(x.device)
            for part, into in zip(x.split(width, 1), y.split(width, 1), strict=True):
                total = part.new_zeros(len(rows), part.shape[1])
                for sender, value in slots:
                    total[: len(sender)].add_(part.index_select(0, sender).mul_(value[:, None]))
                into.index_copy_(0, rows, total)
        return y

    def _slots(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The first, second, ... sender of these receivers (in falling order of their number), and its weight."""
        count = self._count[rows]
        start = (self._count.cumsum(0) - self._count)[rows]
        for slot in range(int(count.max())):
            entry = start[: int((count > slot).sum())] + slot
            yield self._sender[entry], self._value[entry]


class SameRow(Weights):
    """Every receiver gives sender j the weight `row[j]` (a server, a complete graph).

    `own=False` leaves the diagonal out: what arrives from others.
    """

    def __init__(self, row: Tensor, own: bool = True) -> None:
        self.n = len(row)
        self.row = row.double()
        self.own = own

    def entries(self) -> tuple[Tensor, Tensor, Tensor]:
        sender = self._heard.repeat(self.n)
        receiver = torch.arange(self.n).repeat_interleave(len(self._heard))
        if not self.own:
            other = receiver != sender
            receiver, sender = receiver[other], sender[other]
        return receiver, sender, self.row[sender]

    def diagonal(self) -> Tensor:
        return self.row.clone() if self.own else torch.zeros_like(self.row)

    def off_diagonal(self) -> SameRow:
        return SameRow(self.row, own=False)

    @cached_property
    def _heard(self) -> Tensor:
        return self.row.nonzero().squeeze(1)

    def _multiply(self, x: Tensor) -> Tensor:
        heard = self._heard.to(x.device)
        weight = self.row[self._heard].to(x.device, x.dtype)
        said = x if len(heard) == self.n else x[heard]
        y = (weight @ said).expand(self.n, -1).contiguous()
        if not self.own:
            y[heard] -= weight[:, None] * said
            # nan - nan is nan: who is not finite does not give itself weight, but hears itself in the total.
            if x.device.type == "cpu" and not bool(y[heard].isfinite().all()):
                return self._add_in_order(x)
        return y

    def _add_in_order(self, x: Tensor) -> Tensor:
        weight = self.row.to(x.device, x.dtype)
        heard: list[int] = self._heard.tolist()
        if self.own:
            total = torch.zeros_like(x[0])
            for j in heard:
                total += weight[j] * x[j]
            return total.expand(self.n, -1).contiguous()
        y = torch.zeros_like(x, memory_format=torch.contiguous_format)
        for j in heard:
            said = weight[j] * x[j]
            y[:j] += said
            y[j + 1 :] += said
        return y


def unchanged(n: int) -> Sparse:
    """Everybody keeps its own."""
    peers = torch.arange(n)
    return Sparse(n, peers, peers, torch.ones(n, dtype=torch.float64))
