"""HARBox's own files: a time and nine axes in a line, a hundred lines a sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from covey.data import load
from covey.errors import BadInput


def _write(file: Path, samples: int, first: float, columns: int = 10) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = first + np.arange(samples * 100 * columns, dtype=np.float64).reshape(-1, columns)
    np.savetxt(file, lines)


def test_a_folder_per_user_and_a_file_per_activity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: line i of `Call` holds 10i … 10i + 9, so the second sample begins at line 100 with the time 1000."""
    home = tmp_path / "large_scale_HARBox"
    _write(home / "2" / "Walk_train.txt", 10, 0.5)
    _write(home / "10" / "Call_train.txt", 10, 0.0)
    _write(home / "10" / "Wave_train.txt", 5, 7.0)
    (home / "notes").mkdir()
    monkeypatch.setenv("COVEY_DATA", str(tmp_path))
    data = load("harbox")
    assert len(data) == 2 and data.classes == 5
    assert (data.train.counts + data.test.counts).tolist() == [10, 15]  # users 2 and 10, in the order of their numbers
    assert set(data.train.of(0)[1].tolist()) == {3} and set(data.train.of(1)[1].tolist()) == {0, 4}
    rows = {float(row[0]): row for part in (data.train, data.test) for row in part.of(1)[0]}
    second = rows[1001.0]
    assert second.shape == (900,)
    assert second[:10].tolist() == [*np.arange(1001.0, 1010.0), 1011.0]


@pytest.mark.parametrize("columns", [9, 11])
def test_other_tables_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    _write(tmp_path / "large_scale_HARBox" / "1" / "Hop_train.txt", 1, 0.0, columns)
    monkeypatch.setenv("COVEY_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=f"lines of {columns} numbers; HARBox has 10 numbers in a line"):
        load("harbox")


def test_an_empty_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large_scale_HARBox").mkdir()
    monkeypatch.setenv("COVEY_DATA", str(tmp_path))
    with pytest.raises(BadInput, match="holds no HARBox files"):
        load("harbox")
