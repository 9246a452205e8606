"""How alike peers are: cosines between their label distributions, between their heads, between their representations.

    S_ij = ⟨a_i, a_j⟩ / (‖a_i‖ ‖a_j‖)        a_i: class counts of i's training samples, personal row, or shared row

Figure 3 of Xiong et al., DePRL, AAAI 2024: heads should resemble the labels' matrix, representations be alike. Only
what is trained counts, no running statistics of a norm. Not a distance: a row and its double are alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from covey.tasks.task import Task

_COLUMNS = 1 << 16  # taken at once, so that no second copy of the rows is made in float64

Matrices = Mapping[str, Tensor]


def cosines(rows: Tensor) -> Tensor:
    """[n, n] in float64: NaN where a row is zero, which points nowhere."""
    products = torch.zeros(len(rows), len(rows), dtype=torch.float64, device=rows.device)
    for part in rows.split(_COLUMNS, dim=1):
        part = part.double()
        products += part @ part.T
    norms = products.diagonal().sqrt()
    return (products / (norms[:, None] * norms)).clamp(-1.0, 1.0)


def similarities(task: Task, rows: Tensor) -> dict[str, Tensor]:
    """The matrices there are: labels need classes, heads a personal part, representations a shared one."""
    found: dict[str, Tensor] = {}
    if task.data is not None and task.data.classes is not None:
        found["labels"] = cosines(task.data.class_counts()).cpu()
    layout = task.layout
    for name, columns in (("heads", layout.trained("personal")), ("representations", layout.trained("shared"))):
        if columns.stop > columns.start:
            found[name] = cosines(rows[:, columns]).cpu()
    return found


def in_short(matrices: Matrices) -> dict[str, float]:
    """The mean cosine between two peers of each matrix, and how far heads follow labels: the correlation of their two
    matrices over all pairs (NaN where one of them is constant)."""
    out = {name: float(_pairs(matrix).nanmean()) for name, matrix in matrices.items()}
    if "labels" in matrices and "heads" in matrices:
        out["heads_with_labels"] = _correlation(_pairs(matrices["heads"]), _pairs(matrices["labels"]))
    return out


def _pairs(matrix: Tensor) -> Tensor:
    one, other = torch.triu_indices(*matrix.shape, offset=1)
    return matrix[one, other]


def _correlation(a: Tensor, b: Tensor) -> float:
    known = ~(a.isnan() | b.isnan())
    a, b = a[known], b[known]
    if len(a) < 2:
        return math.nan
    a, b = a - a.mean(), b - b.mean()
    return float((a @ b) / (a.norm() * b.norm()))
