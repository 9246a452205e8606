"""Which parameters are shared with neighbours and which stay personal."""

from __future__ import annotations

from collections.abc import Sequence

from covey.errors import BadInput


def personal_names(names: Sequence[str], personal: str | Sequence[str]) -> frozenset[str]:
    """The names that `personal` (one prefix, or several) covers. A prefix covers whole dotted parts: "fc" covers
    "fc.weight" and "fc", not "fc2.weight"."""
    prefixes = [personal] if isinstance(personal, str) else list(personal)
    covered: set[str] = set()
    for prefix in prefixes:
        stem = prefix.rstrip(".")
        hit = {name for name in names if name == stem or name.startswith(stem + ".")}
        if not hit:
            parts = sorted({name.split(".")[0] for name in names})
            raise BadInput(
                f"personal='{prefix}' matches no parameter; the names begin with {', '.join(parts)}. "
                "Give the prefix of the part that each peer keeps for itself."
            )
        covered |= hit
    if covered and len(covered) == len(names):
        raise BadInput(
            f"personal={prefixes} covers every parameter, so nothing is left to share; "
            "name only the personal part, or use the method 'local'."
        )
    return frozenset(covered)
