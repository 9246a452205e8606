"""A generated classification set: a linear teacher that all peers share, and a shift of each peer's own.

After Li et al., FedProx (MLSys 2020), with the shift in one number: peer i has its centre v_i and teacher
W + shift · D_i, inputs x ~ N(v_i, Σ) with Σ_jj = j^-1.2, labels argmax (W + shift · D_i) x. A peer's samples depend on
the seed and its number only, not on how many peers there are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.randomness import key, normal


def synthetic(
    peers: int, seed: int = 0, each: int = 125, features: int = 60, classes: int = 10, shift: float = 0.5
) -> tuple[Tensor, Tensor, Tensor]:
    """x float32 [peers · each, features], y int64, and whose it is."""
    if peers < 1 or each < 2:
        raise BadInput(f"The synthetic set needs peers ≥ 1 and two samples each; got {peers} and {each}.")
    ids = torch.arange(peers)
    common = normal(key(seed, "teacher"), classes * features)
    own = common + shift * normal(key(seed, "own teacher", ids), classes * features)
    centre = shift * normal(key(seed, "centre", ids), features)
    spread = torch.arange(1, features + 1).double() ** -0.6
    noise = normal(key(seed, "inputs", ids), each * features).reshape(peers, each, features)
    x = centre[:, None] + noise * spread
    scores = x @ own.reshape(peers, classes, features).mT
    return x.reshape(-1, features).float(), scores.argmax(-1).reshape(-1), torch.repeat_interleave(ids, each)
