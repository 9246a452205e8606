"""What every refusal must be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from covey.errors import BadInput


def refused_in_one_sentence(attempt: Callable[[], object], says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        attempt()
    assert "\n" not in str(refused.value) and str(refused.value).endswith(".")
