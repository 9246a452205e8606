"""What a peer may be called: it is a file's name, a certificate's name and a label of metrics at once."""

from __future__ import annotations

import re

from covey.errors import BadInput

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")


def require_name(name: str) -> str:
    """The name, if certificates can hold it."""
    if len(name) > 64 or not _NAME.fullmatch(name):  # 64: a certificate's common name is no longer
        raise BadInput(
            f"'{name}' cannot be a peer's name; use at most 64 small letters, digits, '-' and '.', such as north-wing "
            "or peer.example.org."
        )
    return name
