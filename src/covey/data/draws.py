"""Draws that dividing data needs: Dirichlet priors, class counts from priors, samples from class counts.

Everything is a function of keys (see `covey.randomness`), for all peers at once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from covey.data.samples import starts_of
from covey.randomness import key, normal, permutations, uniform


def log_dirichlet(keys: Tensor, alpha: float, count: int) -> Tensor:
    """The logarithm of one draw of Dir(alpha, …, alpha) per key: float64 [*keys.shape, count].

    In logarithms, because with a small alpha most entries are too small for a float and zero would be for ever.
    """
    return torch.log_softmax(_log_gamma(keys, alpha, count), dim=-1)


def _log_gamma(keys: Tensor, alpha: float, count: int) -> Tensor:
    """Logarithms of Gamma(alpha) numbers by the rejection method of Marsaglia and Tsang (2000)."""
    d = (alpha if alpha >= 1 else alpha + 1) - 1 / 3
    own = key(keys[..., None], torch.arange(count)).reshape(-1)
    found = torch.empty(len(own), dtype=torch.float64)
    missing, attempt = torch.arange(len(own)), 0
    while len(missing):  # one in twenty is rejected each time
        tries = key(own[missing], "gamma", attempt)
        x = normal(tries, 1)[:, 0]
        v = ((1 + x / math.sqrt(9 * d)) ** 3).clamp(min=0)  # 0 has the logarithm -inf and is rejected
        found[missing] = (d * v).log()
        bound = 0.5 * x**2 + d - d * v + d * v.log()
        missing = missing[uniform(key(tries, "accept"), 1)[:, 0].log() >= bound]
        attempt += 1
    if alpha < 1:  # Gamma(alpha) = Gamma(alpha + 1) · U^(1/alpha)
        found += torch.log1p(-uniform(key(own, "boost"), 1)[:, 0]) / alpha
    return found.reshape(*keys.shape, count)


def draw_classes(log_prior: Tensor, sizes: Tensor, seed: int) -> Tensor:
    """`sizes[i]` independent classes from each peer's prior, whatever the supply: counts int64 [peers, classes]."""
    peers, classes = log_prior.shape
    owner, drawn = _requests(log_prior, sizes, key(seed, "classes", torch.arange(peers), 0))
    return torch.bincount(owner * classes + drawn, minlength=peers * classes).reshape(peers, classes)


def draw_classes_strictly(log_prior: Tensor, sizes: Tensor, supply: Tensor, seed: int) -> Tensor:
    """The same from a limited supply: counts whose columns do not exceed `supply`, int64 [peers, classes].

    Where a class is asked for more often than it can be given, chance decides who gets it; the others draw again from
    their own prior over the classes that are left, as often as needed. sizes.sum() must not exceed supply.sum().
    """
    peers, classes = log_prior.shape
    counts = torch.zeros(peers, classes, dtype=torch.int64)
    left, need = supply.clone(), sizes.clone()
    attempt = 0
    while need.any():  # each time all are served or one more class is used up
        rows = need.nonzero()[:, 0]
        prior = log_prior[rows].masked_fill(left == 0, -torch.inf)
        owner, drawn = _requests(prior, need[rows], key(seed, "classes", rows, attempt))
        order = permutations(key(seed, "queue", attempt)[None], torch.tensor([len(drawn)]))
        order = order[torch.argsort(drawn[order], stable=True)]
        given = order[rank_in_runs(drawn[order]) < left[drawn[order]]]
        cells = rows[owner[given]] * classes + drawn[given]
        got = torch.bincount(cells, minlength=peers * classes).reshape(peers, classes)
        counts += got
        left -= got.sum(0)
        need -= got.sum(1)
        attempt += 1
    return counts


def _requests(log_prior: Tensor, need: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """need[i] draws from row i of the prior: who asks and for which class, one entry per draw."""
    cumulative = torch.softmax(log_prior, dim=-1).cumsum(-1)
    cumulative = cumulative / cumulative[:, -1:]  # ends in exactly 1, which no uniform number reaches
    most = int(need.max())
    drawn = torch.searchsorted(cumulative, uniform(keys, most), right=True)
    wanted = torch.arange(most) < need[:, None]
    return torch.repeat_interleave(torch.arange(len(need)), need), drawn[wanted]


def rank_in_runs(values: Tensor) -> Tensor:
    """For each entry of a sorted vector how many equal ones stand before it."""
    _, lengths = torch.unique_consecutive(values, return_counts=True)
    return torch.arange(len(values)) - torch.repeat_interleave(lengths.cumsum(0) - lengths, lengths)


def deal(counts: Tensor, labels: Tensor, seed: int, purpose: str) -> tuple[Tensor, Tensor]:
    """Hands counts[i, l] samples of class l to peer i: positions (peer by peer) and where each peer starts.

    The samples of a class lie in a random order and are dealt one after another; at its end dealing begins anew. So no
    sample is dealt twice unless more are asked for than exist, and then all about equally often.
    """
    peers, classes = counts.shape
    supply = torch.bincount(labels, minlength=classes)
    first = supply.cumsum(0) - supply
    shuffled = permutations(key(seed, purpose, torch.arange(classes)), supply)
    order = torch.argsort(labels, stable=True)[torch.repeat_interleave(first, supply) + shuffled]
    cells = counts.reshape(-1)
    cell = torch.repeat_interleave(torch.arange(peers * classes), cells)
    within = torch.arange(len(cell)) - (cells.cumsum(0) - cells)[cell]
    before = (counts.cumsum(0) - counts).reshape(-1)
    place = (before[cell] + within) % supply[cell % classes]
    return order[first[cell % classes] + place], starts_of(counts.sum(1))


def stratified(labels: Tensor, starts: Tensor, keep: Tensor, keys: Tensor) -> Tensor:
    """Which `keep[i]` of each peer's samples to take so that its mix of labels stays: bool, one per sample.

    Seats by Webster's method: the j-th sample of a label that the peer has n times stands at (j + ½) / n, ties in
    random order, and the first ones are taken. So a smaller subset is part of a larger one.
    """
    counts = starts.diff()
    owner = torch.repeat_interleave(torch.arange(len(counts)), counts)
    shuffled = permutations(keys, counts) + starts[owner]
    _, code = torch.unique(labels, return_inverse=True)
    cell = owner * (int(code.max()) + 1) + code[shuffled]
    order = torch.argsort(cell, stable=True)
    _, sizes = torch.unique_consecutive(cell[order], return_counts=True)
    score = torch.empty(len(labels), dtype=torch.float64)
    score[order] = (rank_in_runs(cell[order]).double() + 0.5) / torch.repeat_interleave(sizes, sizes)
    order = torch.argsort(score, stable=True)
    order = order[torch.argsort(owner[order], stable=True)]  # by peer, then by score
    mask = torch.zeros(len(labels), dtype=torch.bool)
    mask[shuffled[order[torch.arange(len(owner)) - starts[owner] < keep[owner]]]] = True
    return mask
