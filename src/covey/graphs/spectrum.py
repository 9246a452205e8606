"""How fast differences between peers shrink: eigenvalues of mixing matrices, in the way their size allows."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from covey.graphs.structure import EXACT
from covey.graphs.weights import SameRow, Weights
from covey.randomness import key, uniform


def second_modulus(weights: Weights, lattice: tuple[int, ...] | None, columns: bool, symmetric: bool) -> float:
    """max(|second largest|, |smallest|) of the eigenvalues of W: what one round leaves of a difference (D-27).

    `lattice`: W commutes with the shifts of this periodic lattice, so its Fourier transform diagonalises it. `columns`:
    the columns sum to one. Above 1500 peers, without a lattice, an estimate (from below) by power iteration.
    """
    if weights.n == 1 or isinstance(weights, SameRow):
        return 0.0
    if lattice is not None:
        receiver, sender, value = weights.entries()
        first = torch.zeros(weights.n, dtype=torch.float64)
        first[sender[receiver == 0]] = value[receiver == 0]
        values = torch.fft.fftn(first.reshape(lattice)).flatten()
    elif weights.n > EXACT:
        return _second_by_iteration(weights, columns)
    else:
        matrix = weights.dense()
        values = torch.linalg.eigvalsh(matrix) if symmetric else torch.linalg.eigvals(matrix)
    return min(float(values.abs().sort().values[-2]), 1.0)


def least(weights: Weights) -> float:
    """The smallest eigenvalue of symmetric weights; above 1500 peers the bound -1."""
    if weights.n > EXACT:
        return -1.0
    return float(torch.linalg.eigvalsh(weights.dense())[0])


def mean_square_rate(rounds: list[Weights], columns: bool) -> float:
    """What one round of a changing graph leaves of a difference in the root mean square: an estimate.

    sqrt of the largest eigenvalue of E[W'(I - 11'/n)W], which for one symmetric W is its second modulus. The first half
    of the rounds finds the direction that shrinks least (Lanczos), the second half measures it: the largest eigenvalue
    of a mean over the same few rounds would be too large by far. `columns`: W sums to one by columns only; then its
    transpose, whose products shrink as fast, is taken.
    """
    n, half = rounds[0].n, len(rounds) // 2
    if n == 1 or all(isinstance(weights, SameRow) for weights in rounds):
        return 0.0
    search, measure = _MeanSquare(rounds[:half], columns), _MeanSquare(rounds[half:], columns)
    vector = _slowest(search, n)
    return math.sqrt(max(0.0, float(vector @ measure(vector))))


class _MeanSquare:
    """v -> mean over rounds of W'(I - 11'/n)W v, all rounds as one tall matrix."""

    def __init__(self, rounds: list[Weights], columns: bool) -> None:
        self.n, self.rounds = rounds[0].n, len(rounds)
        entries = [weights.entries() for weights in rounds]
        to, of = (1, 0) if columns else (0, 1)
        row = torch.cat([entry[to] + t * self.n for t, entry in enumerate(entries)])
        column = torch.cat([entry[of] for entry in entries])
        value = torch.cat([entry[2] for entry in entries])
        self.tall = _compressed(row, column, value, self.n * self.rounds, self.n)
        self.back = _compressed(column, row, value, self.n, self.n * self.rounds)

    def __call__(self, vector: Tensor) -> Tensor:
        said = (self.tall @ vector[:, None]).reshape(self.rounds, self.n)
        return (self.back @ (said - said.mean(1, keepdim=True)).reshape(-1, 1)).squeeze(1) / self.rounds


def _slowest(shrink: _MeanSquare, n: int, most: int = 40) -> Tensor:
    start = uniform(key("mean square"), n)
    start = start - start.mean()
    basis = [start / start.norm()]
    images: list[Tensor] = []
    for _ in range(min(n - 1, most)):
        images.append(shrink(basis[-1]))
        seen, vector = torch.stack(basis, 1), images[-1]
        for _again in range(2):  # rounding undoes the first orthogonalisation; twice is enough
            vector = vector - vector.mean()
            vector = vector - seen @ (seen.T @ vector)
        if len(basis) == n - 1 or float(vector.norm()) < 1e-12:
            break
        basis.append(vector / vector.norm())
    seen = torch.stack(basis[: len(images)], 1)
    inner = seen.T @ torch.stack(images, 1)
    return seen @ torch.linalg.eigh((inner + inner.T) / 2).eigenvectors[:, -1]


def _second_by_iteration(weights: Weights, columns: bool, most: int = 4000) -> float:
    # A column-stochastic matrix keeps sums, so vectors that sum to zero stay among themselves: without the eigenvalue
    # one, they shrink at the rate of the second. The transposed matrix has the same eigenvalues.
    receiver, sender, value = weights.entries()
    ends = (receiver, sender) if columns else (sender, receiver)
    matrix = _compressed(*ends, value, weights.n, weights.n)
    vector = uniform(key("second eigenvalue"), weights.n)[:, None]
    vector = vector - vector.mean()
    rate, logs = 0.0, list[float]()
    for step in range(1, most + 1):
        vector = matrix @ vector
        vector = vector - vector.mean()
        size = float(vector.norm())
        if size == 0.0:
            return 0.0
        vector = vector / size
        logs.append(math.log(size))
        if step % 200 == 0:  # complex pairs make single steps swing; the mean over many does not
            before, rate = rate, math.exp(sum(logs[-100:]) / 100)
            if abs(rate - before) < 1e-7:
                break
    return min(rate, 1.0)


def _compressed(row: Tensor, column: Tensor, value: Tensor, rows: int, columns: int) -> Tensor:
    order = torch.argsort(row * columns + column)
    start = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(row, minlength=rows).cumsum(0)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        shape = (rows, columns)
        return torch.sparse_csr_tensor(start, column[order], value[order], shape, check_invariants=False)
