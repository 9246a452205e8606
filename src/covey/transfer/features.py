"""A network's representation: what its head is given.

    φ(x) = the input of the submodule `head`,      prediction = head(φ(x))

For a linear network x ↦ wᵀBᵀx with head w this is Bᵀx. Features of several networks beside each other are the inputs of
a linear problem in which each network's representation B_i is a block of coordinates, so that `choose` and `fit_head`
hold for networks as they stand. The theory does not: it is about linear models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from covey.errors import BadInput


def penultimate(module: nn.Module, head: str, x: Tensor) -> Tensor:
    """The features [n, k] of x, in the module's own type and in evaluation mode. The module is left as it was."""
    parts = dict(module.named_modules())
    if head not in parts or not head:
        known = ", ".join(name for name, _ in module.named_children())
        raise BadInput(f"The module has no part '{head}' to be its head; its parts are {known}.")
    seen: list[Tensor] = []

    def look(_: nn.Module, given: tuple[Any, ...]) -> None:
        seen.append(given[0])

    modes = {name: part.training for name, part in parts.items()}
    handle = parts[head].register_forward_pre_hook(look)
    try:
        with torch.no_grad():
            module.eval()(x)
    finally:
        handle.remove()
        for name, part in parts.items():
            part.training = modes[name]
    if len(seen) != 1 or len(seen[0]) != len(x):
        raise BadInput(
            f"The part '{head}' is called {len(seen)} times in a pass; a head is called once, on all samples."
        )
    return seen[0].flatten(1)


def blocks(widths: Sequence[int], like: Tensor) -> list[Tensor]:
    """B_i [Σ widths, widths_i] for features that lie beside each other: the coordinates of each."""
    eye = torch.eye(sum(widths), dtype=torch.float64, device=like.device)
    return list(eye.split(list(widths), dim=1))
