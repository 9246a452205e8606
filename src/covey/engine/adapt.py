"""New peers: the representation that a run has learned, with heads trained on data that the run has not seen.

    adapted     heads on φ of the run: the mean over its peers, or one peer's
    untrained   heads on φ as the module has it: what the head alone can do
    scratch     the whole model from there, every peer alone: what the new peers reach without the others

Three runs on the same peers, seeds and mini-batches. φ is what the peers share, divided by its mass after push-sum.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from covey.algorithms.heads import Heads
from covey.algorithms.local import Local
from covey.engine import checkpoint
from covey.engine.folder import Folder
from covey.engine.run import Run
from covey.engine.simulate import simulate
from covey.errors import BadInput
from covey.graphs.builders import isolated
from covey.tasks.task import Named, Task
from covey.training.sgd import SGD


@dataclass(frozen=True)
class Adaptation:
    """The three runs."""

    adapted: Run
    untrained: Run
    scratch: Run

    def summary(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name).summary() for one in fields(self)}


def adapt(
    source: Run | str | Path,
    task: Task,
    local: SGD,
    rounds: int = 10,
    *,
    of: int | Literal["mean"] = "mean",
    out: str | Path | None = None,
    **how: Any,
) -> Adaptation:
    """Let the peers of `task`, who had no part in `source`, train heads on its representation.

    source  a run, or the folder of one
    task    the run's module with a personal part, on the data of the new peers: `covey.data.unseen(data, 64)`
    of      whose representation: the mean over the run's peers, or the number of one
    out     a new folder: what the adapted run writes, and `untrained` and `scratch` in it
    how     as for `covey.simulate`: seed, device, validation, …
    """
    if not isinstance(source, Run | str | Path) or not isinstance(task, Task):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadInput("adapt() takes a run or its folder, a task on the new peers' data, and SGD(…) for their heads.")
    name = "run" if isinstance(source, Run) else str(source)
    learned = task.with_shared(representation(source, of))
    folder = None if out is None else Path(out)
    if folder is not None:
        Folder(folder).require_empty()
    whose = f"{name}: {'mean' if of == 'mean' else f'peer {of}'}"

    def run(method: Local, on: Task, place: str) -> Run:
        return simulate(method, on, isolated(len(on.train)), rounds, out=folder and folder / place, **how)

    return Adaptation(run(Heads(local, of=whose), learned, ""), run(Heads(local), task, "untrained"),
                      run(Local(local), task, "scratch"))  # fmt: skip


def representation(source: Run | str | Path, of: int | Literal["mean"] = "mean") -> Named:
    """What the peers of a run share, by name: the mean over peers, or one peer's."""
    rows, columns, mass = _shared(source)
    if of != "mean" and not 0 <= of < len(rows):
        raise BadInput(f"There is no peer {of}: the run has {len(rows)}, numbered from 0.")
    model = rows if mass is None else rows / mass.to(rows)
    row = model.mean(0) if of == "mean" else model[of]
    return {name: row[start:stop].view(shape) for name, (start, stop, *shape) in columns.items()}


def _shared(source: Run | str | Path) -> tuple[Tensor, dict[str, list[int]], Tensor | None]:
    """The shared rows, where their tensors lie in them, and the mass by which they are to be divided."""
    if isinstance(source, Run):
        peers = source.peers
        return peers.shared, peers.task.layout.places("shared"), peers.state.get("mass")
    folder = Path(source)
    if not (folder / "checkpoint" / "latest.json").is_file():
        raise BadInput(f"There is no checkpoint in {folder}, so no representation; name the folder of a run.")
    saved = checkpoint.load(folder / "checkpoint")
    columns = saved.meta.get("shared")
    if not columns:
        raise BadInput(f"The checkpoint in {folder} does not say what is shared; go on with the run for a round.")
    width = max(stop for _, stop, *_ in columns.values())
    return saved.tensors["rows"][:, :width], columns, saved.tensors.get("state/mass")
