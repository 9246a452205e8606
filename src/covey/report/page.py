"""report.html: placeholder until written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from covey.report.record import Group


def write_page(groups: Sequence[Group], path: Path) -> None:
    path.write_text("<html></html>")
