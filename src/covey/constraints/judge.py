"""How far the constraints of pairs are kept, and whether a pair can keep its own at all.

Where g is convex, its tangent at (x_i, x_j) lies below it, so no two points of X have a smaller g than

    g + min_{y ∈ X²} ⟨∇g, y − (x_i, x_j)⟩  =  g − Σ_{k ∈ {i, j}} ( ⟨∇_k g, x_k⟩ + max_{y ∈ X} ⟨−∇_k g, y⟩ )

Above 0 that is a proof that the pair cannot be met. It shows only once the peers are near the points that break the
constraint least; before, and for sets of unknown extent, there is the violation and no proof.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from covey.constraints.pairs import Constraint
from covey.constraints.regions import Region

_NAMED = 3  # pairs named in a sentence


def judged(constraint: Constraint, region: Region, x: Tensor, ids: Tensor, neighbours: Tensor, dual: Tensor
           ) -> dict[str, Any]:  # fmt: skip
    """`constraints` and `notes` of a look; of pairs of which both ends are here, each once.

    x [rows, d]; ids [rows]; neighbours, dual [rows, slots], as in `Constraint`.
    """
    place = torch.full((int(torch.cat([ids, neighbours.flatten()]).max()) + 1,), -1, dtype=torch.int64)
    place[ids] = torch.arange(len(ids))
    at = place[neighbours.clamp(min=0)]
    here = torch.where((neighbours >= 0) & (at >= 0), neighbours, -1)
    g, slope = constraint(x, x[at.clamp(min=0)], ids, here)
    row, slot = ((here >= 0) & (ids[:, None] < here)).nonzero(as_tuple=True)
    if not len(row):
        return {}
    value, pairs = g[row, slot].double(), torch.stack([ids[row], here[row, slot]], 1)
    worst = int(value.argmax())
    found: dict[str, Any] = {
        "pairs": len(row), "violated": int((value > 0).sum()), "worst": float(value[worst]),
        "worst_pair": pairs[worst].tolist(), "largest_multiplier": float(dual.max()),
    }  # fmt: skip
    notes: list[str] = []
    if found["violated"]:
        notes.append(
            f"{found['violated']} of {len(row)} pairs break their constraint, worst {found['worst_pair']} with "
            f"g = {found['worst']:.3g}; where λ > 0 the saddle point itself has g = δηλ."
        )
    least = _least(g, slope, x, ids, here, region)
    if least is not None and bool((least := least[row, slot]).gt(0).any()):
        which = pairs[least > 0]
        names = ", ".join(str(pair) for pair in which[:_NAMED].tolist()) + (", …" if len(which) > _NAMED else "")
        found["infeasible"] = which.tolist()
        notes.append(
            f"No two points of X meet the constraint of {names}, if it is convex: g is at least "
            f"{float(least.max()):.3g} there; loosen it, or enlarge X."
        )
        warnings.warn(notes[-1], stacklevel=2)
    return {"constraints": found, **({"notes": notes} if notes else {})}


def _least(g: Tensor, slope: Tensor, x: Tensor, ids: Tensor, here: Tensor, region: Region) -> Tensor | None:
    """What g cannot fall below on each edge, if it is convex: [rows, slots]."""
    far = region.farthest(-slope.flatten(0, 1))
    if far is None:
        return None
    own = (slope * x[:, None]).sum(-1) + far.view_as(g)  # ⟨∇_i g, x_i⟩ + max ⟨−∇_i g, y⟩
    row, slot = (here >= 0).nonzero(as_tuple=True)
    one, other, n = ids[row], here[row, slot], int(here.max()) + 1
    order = (one * n + other).argsort()
    partner = order[torch.searchsorted((one * n + other)[order], other * n + one)]  # the same edge at its other end
    least = torch.full_like(g, -torch.inf)
    least[row, slot] = g[row, slot] - own[row, slot] - own[row[partner], slot[partner]]
    return least
