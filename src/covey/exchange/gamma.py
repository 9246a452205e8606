"""The consensus step size γ of compressed gossip: given, from theory, by rule of thumb, or found while running.

Theory (SQuARM-SGD, Theorem 2; `theorem_1` is that of the convex case) is safe and far too small to be of use. The rule
of thumb `usual` comes from a sweep over compressors and graphs (`python -m benchmarks.gamma`):

    a / (a + (1 − a) s),    s = (4 + 8δ) / 3, half of that where every number is said

with a, the share of the energy of normal numbers that the compressor keeps, and δ, the graph's spectral gap. "auto"
begins there and watches what is not yet said, e = x − x̂, beside d = Σ_j w_ij x̂_j − x̂_i, by which x is drawn:

    Σ ‖e‖² < ¼ Σ ‖d‖²        neighbours know where x is: γ may grow
    Σ ⟨d, e⟩ > ¾ Σ ‖d‖²      x has gone most of d further than anybody knows, and is drawn still. Where Σ ‖d‖² does not
                             fall from window to window, it overshoots, and γ must shrink; where that rises by half,
                             0.4 in the place of ¾ is enough

The best γ of the sweep, and of learning from unlike and from noisy data, lies between the two.

All must use the same γ, or the mean over peers moves. So each peer sorts its sums over a window of rounds into one of
the two cases or neither, and says which, a bit for each; positive weights spread these flags to everybody within as
many rounds as the graph is wide; then all know what anybody saw, and change γ alike: only where all saw the same case.
A flag that is late breaks that, so real peers are given a number (`network/peer.py`).
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from covey.compress import Compressor, Message
from covey.errors import BadInput
from covey.link import Link
from covey.peers import Peers

Gamma = float | Literal["auto", "theory", "usual"]

_CASES = 3  # γ may grow; neither; γ must shrink
_GROW, _SHRINK = 1.2, 0.8
_SHORTEST = 4  # rounds of a window
_FLOOR = 0.2  # of the first γ: under a weak compressor noise alone leads, and γ would vanish


def require_gamma(gamma: Gamma) -> None:
    if isinstance(gamma, str):
        if gamma not in ("auto", "theory", "usual"):
            raise BadInput(f"gamma='{gamma}' is neither a number nor 'auto', 'usual' or 'theory'.")
    elif not 0 < gamma <= 1:
        raise BadInput(f"gamma={gamma} is out of range; the consensus step lies above 0 and is at most 1.")


def theorem_2(omega: float, delta: float, lam: float) -> float:
    """2δω / (64δ + δ² + 16λ² + 8δλ² − 16δω), with δ = 1 − max(|λ₂|, |λ_n|) and λ = 1 − λ_n."""
    return 2 * delta * omega / (64 * delta + delta**2 + 16 * lam**2 + 8 * delta * lam**2 - 16 * delta * omega)


def theorem_1(omega: float, delta: float, lam: float) -> float:
    """2δω³ / (4δ²ω² + δ² + 128λ² + 24ω²λ²)."""
    return 2 * delta * omega**3 / (4 * delta**2 * omega**2 + delta**2 + 128 * lam**2 + 24 * omega**2 * lam**2)


def usual(kept: float, delta: float, everything: bool) -> float:
    """What served well in the sweep, for a compressor that keeps this share of the energy of normal numbers (and says
    something of every number, or not), on a graph of this spectral gap."""
    s = (4.0 + 8.0 * delta) / 3.0 / (2.0 if everything else 1.0)
    return kept / (kept + (1.0 - kept) * s)


def first_step(gamma: Gamma, compressor: Compressor, peers: Peers, link: Link) -> Tensor:
    """γ at the start, [rows, 1]."""
    if not isinstance(gamma, str):
        return gamma * peers.ones()
    tensors = [part.stop - part.start for part in peers.tensors("shared")]
    if gamma == "theory":
        delta, lam = link.graph.gap(), 1.0 - link.graph.least()
        sizes = [sum(tensors)] if compressor.whole else tensors
        return theorem_2(min(compressor.omega(d) for d in sizes), delta, lam) * peers.ones()
    return usual(compressor.kept(tensors), link.graph.gap(), compressor.everything) * peers.ones()


def watch(peers: Peers, link: Link) -> None:
    """Begin to adapt γ."""
    # rounds in which flags reach everybody, and in which x goes the way that d shows
    window = max(_SHORTEST, link.graph.width(), math.ceil(1.0 / float(peers.state["gamma"][0])))
    peers.state["window"] = torch.full((len(peers), 1), window, dtype=torch.int64)
    peers.state["least"] = peers.state["gamma"] * _FLOOR
    peers.state["lead"] = peers.rows.new_zeros(len(peers), 4)  # the sums over this window, and Σ ‖d‖² over the last
    peers.state["flags"] = peers.rows.new_zeros(len(peers), _CASES)  # seen in the last window, as known here


def flags(peers: Peers) -> Message:
    """What a peer knows of the last window: a bit for each case, sent as a byte."""
    bits = torch.full((len(peers),), float(_CASES), dtype=torch.float64)
    return Message(peers.state["flags"], bits, torch.full_like(bits, 8.0))


def lead(drawn: Tensor, unsaid: Tensor) -> Tensor:
    """⟨d, e⟩, ‖d‖² and ‖e‖² of each row, [rows, 3]."""
    return torch.stack([(drawn * unsaid).sum(1), drawn.square().sum(1), unsaid.square().sum(1)], 1)


def adapt(peers: Peers, heard: Tensor, leads: Tensor) -> None:
    """One round: gather the sums, pass on the flags that were heard, and at the end of a window change γ.

    heard  [rows, 3]  Σ_j w_ij flags_j
    """
    state = peers.state
    state["lead"] = state["lead"] + torch.nn.functional.pad(leads, (0, 1))
    state["flags"] = ((heard > 0) | (state["flags"] > 0)).to(heard)  # also where nobody gives weight to itself
    if (peers.round + 1) % int(state["window"][0]):
        return
    seen = state["flags"] > 0  # nothing at the end of the first window: nobody has said anything yet
    alone = seen.sum(1, keepdim=True) == 1
    factor = torch.where(alone & seen[:, :1], heard.new_tensor(_GROW), 1.0)
    factor = torch.where(alone & seen[:, -1:], heard.new_tensor(_SHRINK), factor)
    state["gamma"] = (state["gamma"] * factor).clamp(max=1.0).maximum(state["least"])
    ahead, drawn_by, left, before = state["lead"].unbind(1)
    small = left < 0.25 * drawn_by
    large = (ahead > 0.75 * drawn_by) & (drawn_by > 0.9 * before)
    large |= (ahead > 0.4 * drawn_by) & (drawn_by > 1.5 * before)
    case = torch.stack([small, ~small & ~large, large], 1)
    state["flags"] = torch.where(factor == 1.0, case, False).to(heard)  # sums of another γ say nothing of this one
    state["lead"] = torch.nn.functional.pad(drawn_by[:, None], (3, 0))
