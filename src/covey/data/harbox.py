"""HARBox's own files, as its authors give them out: a folder per user, a text file per activity.

    large_scale_HARBox/<user>/<Call|Hop|typing|Walk|Wave>_train.txt

A line has ten numbers: a time, which is dropped, and nine axes (accelerometer, gyroscope, magnetometer). A hundred
lines are a sample, flattened to 900 numbers. Not every user did everything. (X. Ouyang et al., *ClusterFL*, 2021.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from covey.errors import BadInput

FOLDER = "large_scale_HARBox"
CLASSES = ("Call", "Hop", "typing", "Walk", "Wave")
_LINES, _COLUMNS = 100, 10


def read_harbox(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """x float32 [n, 900], y 0 … 4, user (the number of the folder)."""
    xs, ys, users = [], [], []
    for home in sorted((one for one in folder.iterdir() if one.name.isdigit()), key=lambda one: int(one.name)):
        for label, name in enumerate(CLASSES):
            file = home / f"{name}_train.txt"
            if not file.is_file():
                continue
            samples = _samples(file)
            xs.append(samples)
            ys.append(np.full(len(samples), label))
            users.append(np.full(len(samples), int(home.name)))
    if not xs:
        raise BadInput(f"{folder} holds no HARBox files; they are <user>/{CLASSES[0]}_train.txt and so on.")
    return {"x": np.concatenate(xs), "y": np.concatenate(ys), "user": np.concatenate(users)}


def _samples(file: Path) -> np.ndarray[Any, Any]:
    try:
        lines = np.loadtxt(file, dtype=np.float64, ndmin=2)
    except ValueError as problem:
        raise BadInput(f"{file} is no table of numbers ({problem}).") from problem
    if lines.shape[1:] != (_COLUMNS,) or len(lines) % _LINES or not len(lines):
        raise BadInput(f"{file} has {lines.shape[0]} lines of {lines.shape[1]} numbers; HARBox has {_COLUMNS} numbers "
                       f"in a line, and {_LINES} lines a sample.")  # fmt: skip
    return lines.reshape(-1, _LINES, _COLUMNS)[:, :, 1:].reshape(-1, _LINES * (_COLUMNS - 1)).astype(np.float32)
