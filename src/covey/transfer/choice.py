"""Which of many sources help a target: those that lower the error on samples that no head was fitted to.

    S_0 = ∅;  S_{t+1} = S_t ∪ {i} for the i whose head on dictionary(S_t ∪ {i}) errs least on the held-out samples
    chosen: the first S_t that the best S_b does not beat by more than z standard errors, sample by sample,
            z the normal quantile of 1 − level / (sources offered): the best of many looks better than it is

Singh, *Towards Efficient Federated Learning*, 6.4, names the choice as an open question; this is plain forward
selection, judged out of sample. It goes to the end before it looks back, so sources that help only together may be
found, but not every set is tried. The held-out samples are used up by it: what is reported needs others. Not a
weighting of sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.errors import BadInput
from covey.transfer.dictionary import dictionary
from covey.transfer.given import Numbers, columns, relative, require_inputs, samples
from covey.transfer.leastsquares import least_squares
from covey.transfer.phases import fit_head


@dataclass(frozen=True)
class Choice:
    """What was chosen.

    sources   their positions, the most useful first; empty where none helps
    errors    mean squared error on the held-out samples with the first 0, 1, … of them; with 0, only what is always
              there, else θ = 0
    scratch   the same for the interpolator of smallest norm, which uses no source
    """

    sources: tuple[int, ...]
    errors: tuple[float, ...]
    scratch: float

    @property
    def helps(self) -> bool:
        """Whether the chosen sources beat both nothing and learning from scratch."""
        return len(self.sources) > 0 and self.errors[-1] < self.scratch


def choose(X: Numbers, y: Numbers, sources: Sequence[Numbers], X_held: Numbers, y_held: Numbers, *,
           always: Sequence[Numbers] = (), level: float = 0.05) -> Choice:  # fmt: skip
    """Chooses among representations B_i [d, k_i] for a target with samples X, y to fit heads to, and X_held, y_held to
    judge by. `always`: representations that are in the dictionary whatever is chosen, such as one's own."""
    x, y = samples(X, y)
    x_held, y_held = samples(X_held, y_held, "held-out ")
    require_inputs(x.shape[1], x_held, "the target")
    if not 0 < level < 1:
        raise BadInput(f"level={level} must be between 0 and 1: the risk of taking a source that does not help.")
    tolerance = relative(None, max(x.shape), X, *sources, *always)
    offered = [columns(B, f"B_{i + 1}") for i, B in enumerate(sources)]
    for B in offered:
        require_inputs(len(B), x, "a representation")

    def judge(bases: Sequence[Numbers]) -> Tensor:
        if not any(bool(columns(B, "B").any()) for B in bases):
            return _squares(y_held)
        return _squares(y_held - x_held @ fit_head(x, y, dictionary(bases), tolerance=tolerance).theta)

    path: list[int] = []
    have: list[Numbers] = list(always)
    found = [judge(have)]  # the squared errors after each step
    while len(path) < len(offered):
        left = [i for i in range(len(offered)) if i not in path]
        judged = [judge([*have, offered[i]]) for i in left]
        at = min(range(len(left)), key=lambda j: float(judged[j].mean()))
        path.append(left[at])
        have.append(offered[left[at]])
        found.append(judged[at])
    best = min(found, key=lambda squares: float(squares.mean()))
    enough = next(t for t, squares in enumerate(found) if not _beats(best, squares, level / max(len(offered), 1)))
    errors = tuple(float(squares.mean()) for squares in found[: enough + 1])
    scratch = float(_squares(y_held - x_held @ least_squares(x, y, tolerance).solution).mean())
    return Choice(tuple(path[:enough]), errors, scratch)


def _beats(one: Tensor, other: Tensor, level: float) -> bool:
    """Whether the squared errors `one` are smaller than `other` on the same samples, beyond chance."""
    gain = other - one
    z = float(torch.special.ndtri(torch.tensor(1.0 - level, dtype=torch.float64)))
    return len(gain) > 1 and float(gain.mean()) > z * float(gain.std()) / len(gain) ** 0.5


def _squares(difference: Tensor) -> Tensor:
    """The squared error of each sample, over all outputs."""
    return torch.as_tensor(difference).square().reshape(len(difference), -1).sum(1)
