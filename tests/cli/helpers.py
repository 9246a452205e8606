"""Running the command line in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from covey.cli.main import main

SMALL = ("--peers", "6", "--samples", "10", "--batch", "5", "--model", "mlp", "--chunk", "6")


def run(*arguments: object) -> int:
    return main([str(one) for one in arguments])


def metrics(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without the times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


def refused(capsys: pytest.CaptureFixture[str], arguments: Sequence[object]) -> str:
    """Exit code 2, one sentence on standard error, and no traceback; the sentence."""
    capsys.readouterr()
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("covey: ") and said.err.count("\n") == 1 and "Traceback" not in said.err, said.err
    return said.err.removeprefix("covey: ").strip()
