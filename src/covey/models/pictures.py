"""What networks for pictures have in common: the sizes that they can take."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from covey.errors import BadInput


def enlarge(in_shape: Sequence[int], least: int) -> list[nn.Module]:
    """A first layer that stretches pictures to at least `least`×`least`; nothing where they are that large."""
    height, width = in_shape[1:]
    if min(height, width) >= least:
        return []
    return [nn.Upsample((max(least, height), max(least, width)), mode="bilinear")]


def halved(in_shape: Sequence[int], times: int, name: str) -> tuple[int, int]:
    """Height and width after so many 2×2 poolings."""
    height, width = (one >> times for one in in_shape[1:])
    if height < 1 or width < 1:
        raise BadInput(f"Pictures of {in_shape[1]}×{in_shape[2]} are too small for {name}: it halves them {times}×.")
    return height, width
