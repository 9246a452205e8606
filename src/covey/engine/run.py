"""What a run hands back: parameters, history, and the numbers that are written to summary.json."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from covey.engine import convergence
from covey.errors import BadInput
from covey.measure.evaluate import Scores
from covey.measure.similarity import in_short, similarities
from covey.peers import Peers
from covey.traffic import Traffic

Entry = dict[str, Any]  # one evaluated round


@dataclass
class Run:
    """The end of a simulation.

    peers    the rows and the method's state as they are now
    rows     [peers, width] what each peer would use: for push-sum, de-biased
    history  one entry per evaluated round
    scores   point -> numbers per peer, at the last evaluated round
    """

    peers: Peers
    rows: Tensor
    traffic: Traffic
    settings: Mapping[str, Any]
    history: list[Entry] = field(default_factory=list[Entry])
    scores: dict[str, Scores] = field(default_factory=dict[str, Scores])

    @property
    def params(self) -> dict[str, Tensor]:
        """name -> [peers, *shape]: what each peer would use."""
        return {name: value.clone() for name, value in self.peers.task.layout.unpack(self.rows).items()}

    @cached_property
    def similarity(self) -> dict[str, Tensor]:
        """name -> cosines between peers [peers, peers]: of `labels`, of `heads`, of `representations`."""
        return similarities(self.peers.task, self.rows)

    def state_dict(self, peer: int) -> dict[str, Tensor]:
        """One peer's model, ready for `module.load_state_dict`."""
        if not 0 <= peer < len(self.rows):
            raise BadInput(f"There is no peer {peer}: the run has {len(self.rows)}, numbered from 0.")
        return self.peers.task.state_dict(self.rows[peer])

    def summary(self) -> dict[str, Any]:
        """The dict that is written to summary.json. `seconds` are those of this process; `clock` and
        `seconds_to_target` (by the end of the round) are simulated, where there was a clock."""
        settings = self.settings
        out: dict[str, Any] = {
            "algorithm": settings["algorithm"]["name"],
            "graph": settings["graph"]["name"],
            "data": settings["task"].get("name", "function"),
            "partition": settings["task"].get("partition", "given"),
            "peers": self.peers.n,
            "rounds": self.peers.round,
            "seed": self.peers.seed,
        }
        points = [name for name, value in self.history[-1].items() if isinstance(value, dict) and "loss" in value]
        metric = next((name for name in self.history[-1].get("mixed", {}) if name != "loss"), "loss")
        if metric != "loss":
            out[metric] = {point: _over_rounds(self.history, point, metric, max) for point in points}
        out["loss"] = {point: _over_rounds(self.history, point, "loss", min) for point in points}
        out["train_loss"] = self.history[-1]["train_loss"]
        run = settings["run"]
        first = {point: convergence.reached(self.history, point, metric, run["target"]) for point in points}
        for name, of in (("rounds", convergence.round_of), ("seconds", convergence.seconds_of)):
            out[f"{name}_to_target"] = {"target": run["target"], **{point: of(found) for point, found in first.items()}}
        if "clock" in self.history[-1]:
            out["clock"] = self.history[-1]["clock"]
            reached = {point: convergence.clock_of(found) for point, found in first.items()}
            out["clock_to_target"] = {"target": run["target"], **reached}
        if "consensus" in self.history[-1]:
            out["consensus"] = self.history[-1]["consensus"]
        if run.get("theory"):
            out["theory"] = convergence.theory(self.history, run["gradient_below"])
        if run.get("similarity"):
            out["similarity"] = in_short(self.similarity)
        if "mass" in self.history[-1]:
            out["smallest_mass"] = min(entry["mass"] for entry in self.history)
        out |= {name: self.history[-1][name] for name in ("gamma", "spoke") if name in self.history[-1]}
        out["bits"] = self.traffic.as_dict()
        out["seconds"] = self.history[-1]["seconds"]
        out["notes"] = list(run["notes"])
        out["versions"] = versions()
        return out


def _over_rounds(history: list[Entry], point: str, metric: str, best: Any) -> dict[str, float]:
    """The last evaluated value, the mean over the looks of the last ten rounds, and the best of all: chosen on test
    data, so never the number to quote alone. For personal models also how the last round spreads over peers."""
    curve = [entry[point][metric] for entry in history if point in entry]
    late = [e[point][metric] for e in history if point in e and e["round"] > history[-1]["round"] - 10]
    known = [value for value in curve if not math.isnan(value)]
    out = {
        "last": curve[-1],
        "mean_last_10": sum(late) / len(late),
        "best": best(known) if known else math.nan,
    }
    last = history[-1][point]
    return out | {name: last[name] for name in ("worst_decile", "std") if name in last and metric != "loss"}


def versions() -> dict[str, str]:
    from covey import __version__

    return {"covey": __version__, "torch": torch.__version__, "python": platform.python_version()}
