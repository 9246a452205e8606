"""The consensus step size γ of compressed gossip: given, from theory, by rule of thumb, or found while running.

Theory (SQuARM-SGD, Theorem 2; `theorem_1` is that of the convex case) is safe and far too small to be of use. The rule
of thumb `usual` comes from a sweep (`python -m benchmarks.gamma`). "auto" begins there and watches the *lead*

    E = Σ ⟨d, x − x̂⟩ / Σ ‖d‖²,    d = Σ_j w_ij x̂_j − x̂_i, by which x is drawn

of what is not yet said over what it was drawn by. Where E is near 0, neighbours know where x is, and γ may grow; where
E nears 1, x has gone a whole d further than anybody knows, and is drawn still: it overshoots. Between the two lies the
best γ, for heterogeneous peers (where E rises sharply at the edge of stability) and for noisy ones (where it rises
slowly).

All must use the same γ, or the mean over peers moves. So each peer sorts its E of a window of rounds into four classes
and says which, a bit for each; W's positive weights spread these flags to everybody within as many rounds as the graph
is wide; then all know the highest class that anybody saw, and all change γ alike.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from covey.compress import Compressor, Message
from covey.errors import BadInput
from covey.link import Link
from covey.peers import Peers

Gamma = float | Literal["auto", "theory", "usual"]

_EDGES = (0.2, 0.5, 0.9)  # classes of E: below the first γ grows, above the second it shrinks
_FACTORS = (1.4, 1.1, 0.85, 0.6)
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


def usual(kept: float) -> float:
    """What served well in the sweep, for a compressor that keeps this share of the energy of normal numbers."""
    return min(1.0, 0.7 * kept)


def first_step(gamma: Gamma, compressor: Compressor, peers: Peers, link: Link) -> Tensor:
    """γ at the start, [rows, 1]."""
    if not isinstance(gamma, str):
        return gamma * peers.ones()
    tensors = [part.stop - part.start for part in peers.tensors("shared")]
    if gamma == "theory":
        delta, lam = link.graph.gaps()
        sizes = [sum(tensors)] if compressor.whole else tensors
        return theorem_2(min(compressor.omega(d) for d in sizes), delta, lam) * peers.ones()
    return usual(compressor.kept(tensors)) * peers.ones()


def watch(peers: Peers, link: Link) -> None:
    """Begin to adapt γ."""
    window = max(_SHORTEST, link.graph.width())  # rounds in which flags reach everybody
    peers.state["window"] = torch.full((len(peers), 1), window, dtype=torch.int64)
    peers.state["least"] = peers.state["gamma"] * _FLOOR
    peers.state["lead"] = peers.rows.new_zeros(len(peers), 2)  # both sums of E, over this window
    peers.state["flags"] = peers.rows.new_zeros(len(peers), len(_FACTORS))  # classes of the last window, as known here


def flags(peers: Peers) -> Message:
    """What a peer knows of the last window: a bit for each class, sent as a byte."""
    bits = torch.full((len(peers),), float(len(_FACTORS)), dtype=torch.float64)
    return Message(peers.state["flags"], bits, torch.full_like(bits, 8.0))


def adapt(peers: Peers, heard: Tensor, drawn: Tensor, unsaid: Tensor) -> None:
    """One round: gather E, pass on the flags that were heard, and at the end of a window change γ.

    heard  [rows, 4]  Σ_j w_ij flags_j;  drawn: d;  unsaid: x − x̂
    """
    state = peers.state
    state["lead"] = state["lead"] + torch.stack([(drawn * unsaid).sum(1), drawn.square().sum(1)], 1)
    state["flags"] = (heard > 0).to(heard)
    if (peers.round + 1) % int(state["window"][0]):
        return
    highest = len(_FACTORS) - 1 - state["flags"].flip(1).argmax(1, keepdim=True)
    factor = heard.new_tensor(_FACTORS)[highest]
    known = state["flags"].any(1, keepdim=True)  # in the first window nobody has said anything yet
    state["gamma"] = (state["gamma"] * torch.where(known, factor, 1.0)).clamp(max=1.0).maximum(state["least"])
    e = state["lead"][:, :1] / state["lead"][:, 1:].clamp(min=torch.finfo(heard.dtype).tiny)
    own = (e >= heard.new_tensor(_EDGES)).sum(1)
    state["flags"] = torch.nn.functional.one_hot(own, len(_FACTORS)).to(heard)
    state["lead"] = torch.zeros_like(state["lead"])
