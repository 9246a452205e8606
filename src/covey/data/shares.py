"""How many training samples of each class each peer gets: a count matrix int64 [peers, classes] per kind of partition.

Columns never exceed what a class has, unless `reuse` asks for the form that issues samples again.
"""

from __future__ import annotations

import heapq

import torch
from torch import Tensor

from covey.data.draws import draw_classes, draw_classes_strictly, log_dirichlet
from covey.errors import BadInput
from covey.randomness import choose, integers, key, permutations

_REDRAWS = 20
_HOPELESS = 10  # where a draw leaves more peers short, another one that leaves none has less than e^-10 chance


def even(total: int, parts: int) -> Tensor:
    """`total` in parts that differ by one at most."""
    return torch.full((parts,), total // parts) + (torch.arange(parts) < total % parts)


def by_prior(alpha: float, supply: Tensor, peers: int, seed: int, reuse: bool) -> Tensor:
    """Each peer draws a prior over the classes, Dir(alpha), and then its samples one by one from it; equal sizes.

    Dai et al., Dis-PFL, ICML 2022. Strictly, a peer whose class is used up draws from its prior over what is left.
    """
    prior = log_dirichlet(key(seed, "prior", torch.arange(peers)), alpha, len(supply))
    prior = prior.masked_fill(supply == 0, -torch.inf)
    sizes = even(int(supply.sum()), peers)
    return draw_classes(prior, sizes, seed) if reuse else draw_classes_strictly(prior, sizes, supply, seed)


def by_class(alpha: float, supply: Tensor, peers: int, seed: int) -> tuple[Tensor, int]:
    """Each class is spread over the peers in Dir(alpha) shares, past those who have their n / peers already.

    Xiong et al., DePRL, AAAI 2024: all is drawn again while a peer has fewer samples than there are classes. That may
    never happen (small alpha, many peers). So the least is at most half of the mean, there are 20 draws at most, then
    the largest peers give up samples of their most frequent class. Returns the counts and how many were given up.
    """
    total = int(supply.sum())
    least = max(1, min(len(supply), total // (2 * peers)))
    best, best_short = torch.empty(0), total + 1
    for attempt in range(_REDRAWS):
        counts = _spread(alpha, supply, peers, seed, attempt)
        short = int((least - counts.sum(1)).clamp(min=0).sum())
        if short < best_short:
            best, best_short = counts, short
        if short == 0 or int((counts.sum(1) < least).sum()) > _HOPELESS:
            break
    return _level(best, least), best_short


def _spread(alpha: float, supply: Tensor, peers: int, seed: int, attempt: int) -> Tensor:
    shares = log_dirichlet(key(seed, "shares", torch.arange(len(supply)), attempt), alpha, peers)
    counts = torch.zeros(peers, len(supply), dtype=torch.int64)
    for label, (share, total) in enumerate(zip(shares, supply.tolist(), strict=True)):
        if total == 0:
            continue
        full = counts.sum(1) * peers >= supply.sum()
        share = torch.softmax(share.masked_fill(full, -torch.inf), dim=0)
        ends = (share.cumsum(0) * total).long().clamp(max=total)
        ends[int((~full).nonzero()[-1]) :] = total  # what rounding leaves goes to the last that is not full
        counts[:, label] = ends.diff(prepend=ends.new_zeros(1))
    return counts


def _level(counts: Tensor, least: int) -> Tensor:
    """Moves samples, one by one, from whoever has most to those with fewer than `least`."""
    table = counts.numpy().copy()
    sizes: list[int] = counts.sum(1).tolist()
    largest = [(-size, peer) for peer, size in enumerate(sizes) if size > least]
    heapq.heapify(largest)
    for peer, size in enumerate(sizes):
        for _ in range(least - size):
            negative, giver = heapq.heappop(largest)
            label = int(table[giver].argmax())
            table[giver, label] -= 1
            table[peer, label] += 1
            heapq.heappush(largest, (negative + 1, giver))
    return torch.from_numpy(table)


def pathological(c: int, supply: Tensor, peers: int, seed: int, reuse: bool) -> Tensor:
    """Exactly c classes per peer, the same number of samples of each, equal sizes.

    Strictly, the classes are dealt out in proportion to their samples, and all peers take what the scarcest class can
    give: they may be a little smaller than n / peers, but never get another class. With `reuse`, c random classes per
    peer and n / peers samples drawn uniformly from them (Dai et al., Dis-PFL, ICML 2022; their CIFAR-10 prior of ½
    whatever c is an error and not followed).
    """
    if reuse:
        chosen = choose(key(seed, "slots", torch.arange(peers)), len(supply), c)
        if (supply == 0).any():
            raise BadInput("A class without training samples cannot be issued again; renumber the labels without it.")
        prior = torch.full((peers, len(supply)), -torch.inf, dtype=torch.float64).scatter_(1, chosen, 0.0)
        return draw_classes(prior, even(int(supply.sum()), peers), seed)
    slots = _slots(supply, peers * c, peers, seed)
    chosen = _swap(_lay_out(slots, peers, c, seed), len(supply), seed)
    each = int((supply // slots.clamp(min=1))[slots > 0].min())
    return torch.zeros(peers, len(supply), dtype=torch.int64).scatter_(1, chosen, each)


def shards(c: int, supply: Tensor, peers: int, seed: int) -> Tensor:
    """Each class is cut into equal shards, and each peer gets c random shards, perhaps two of one class.

    Collins et al., FedRep, ICML 2021 (there peers · c must be a multiple of the number of classes).
    """
    slots = _slots(supply, peers * c, peers * c, seed)
    label = torch.repeat_interleave(torch.arange(len(supply)), slots)
    size = torch.cat([even(int(total), int(parts)) for total, parts in zip(supply, slots, strict=True) if parts])
    order = permutations(key(seed, "shards")[None], torch.tensor([len(label)]))
    owner = torch.empty_like(order)
    owner[order] = torch.arange(len(order)) // c
    cells = torch.zeros(peers * len(supply), dtype=torch.int64)
    return cells.index_add_(0, owner * len(supply) + label, size).reshape(peers, len(supply))


def _slots(supply: Tensor, count: int, most: int, seed: int) -> Tensor:
    """How many of `count` places each class fills, at most `most`: int64 [classes].

    D'Hondt's highest quotients supply / (places + 1): no other choice leaves the scarcest place larger. With no more
    places than classes chance decides, for then always the largest classes would be taken.
    """
    lots = permutations(key(seed, "slots")[None], torch.tensor([len(supply)]))
    weight = (supply[lots] > 0).double() if count <= int((supply > 0).sum()) else supply[lots].double()
    quotients = (weight[:, None] / torch.arange(1, most + 1)).reshape(-1)
    taken = torch.argsort(quotients, descending=True, stable=True)[:count]
    if not float(quotients[taken[-1]]) > 0:
        raise BadInput(f"Only {int((supply > 0).sum())} classes have training samples, too few for this partition.")
    places = torch.bincount(taken // most, minlength=len(supply))
    return torch.zeros_like(supply).scatter_(0, lots, places)


def _lay_out(slots: Tensor, peers: int, c: int, seed: int) -> Tensor:
    """Gives the places to the peers in turn, so that nobody gets a class twice (no class has more than `peers`)."""
    label = torch.repeat_interleave(torch.arange(len(slots)), slots)
    turn = permutations(key(seed, "turn")[None], torch.tensor([peers]))
    chosen = torch.empty(peers, c, dtype=torch.int64)
    chosen[turn] = label.reshape(c, peers).T
    return chosen


def _swap(chosen: Tensor, classes: int, seed: int) -> Tensor:
    """Peers swap classes in random pairs, where neither has the other's yet: any combination may arise."""
    peers, c = chosen.shape
    pairs = peers // 2
    has = torch.zeros(peers, classes, dtype=torch.bool).scatter_(1, chosen, True)
    for turn in range(16 + 4 * c):  # each class of each peer moves a few times
        order = permutations(key(seed, "swap", turn)[None], torch.tensor([peers]))
        one, two = order[:pairs], order[pairs : 2 * pairs]
        place = integers(key(seed, "place", turn, torch.arange(peers)), c, 1)[:, 0]
        a, b = chosen[one, place[one]], chosen[two, place[two]]
        good = ~has[one, b] & ~has[two, a]
        one, two, a, b = one[good], two[good], a[good], b[good]
        chosen[one, place[one]], chosen[two, place[two]] = b, a
        has[one, a], has[two, b] = False, False
        has[one, b], has[two, a] = True, True
    return chosen
