"""Beyond figure 3.4: which part of compressed gossip saves the bits of SQuARM, and by how much?

    python recipes/fewer_bits_than_squarm.py choose      every setting, on held-out training samples, seed 100
    python recipes/fewer_bits_than_squarm.py confirm     the same settings on test data, three other seeds

The problem, the rates and the division `dirichlet` are those of dissertation_figure_3_4.py, whose page takes up what is
found here. Between two lines of SETTINGS few things change, so that what saves is seen.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from dissertation_figure_3_4 import MODEL, TARGET, Rival, rate, reached, train

from covey import SGD, compress, trigger
from covey import algorithms as a


@dataclass(frozen=True)
class Setting:
    """SQuARM with H local steps, the signs of k weights (0: of all), γ, and the constant of its trigger."""

    h: int
    k: int
    gamma: float
    rounds: int
    every: int  # rounds between looks
    threshold: float | None = None

    def rival(self) -> Rival:
        how = compress.SignTopK(self.k) if self.k else compress.Sign()
        when = trigger.always if self.threshold is None else trigger.norm(self.threshold)
        work = SGD(rate, steps=self.h, batch=5)
        return Rival(a.SQuARM(work, how, self.gamma, when), self.h, how.formula(MODEL))


SETTINGS = {
    "SQuARM, longer": Setting(5, 10, 0.04, 600, 10, 5000.0),
    "threshold × 20": Setting(5, 10, 0.04, 120, 10, 1e5),
    "H = 20": Setting(20, 10, 0.04, 40, 2),
    "H = 60": Setting(60, 10, 0.04, 20, 1),
    "H = 60, k = 160": Setting(60, 160, 0.2, 30, 1),
    "H = 60, k = 1600": Setting(60, 1600, 0.4, 15, 1),
    "H = 60, all signs, γ = 0.4": Setting(60, 0, 0.4, 15, 1),
    "H = 60, all signs": Setting(60, 0, 1.0, 15, 1),
    "H = 20, all signs": Setting(20, 0, 1.0, 15, 1),
}
TARGETS = (("error", TARGET), ("own", 0.25))


def main() -> None:
    parser = argparse.ArgumentParser(description="Which part of compressed gossip saves bits")
    parser.add_argument("verb", choices=("choose", "confirm"))
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, nargs="+", default=[])
    parser.add_argument("--out", type=Path, default=Path("runs/figure_3_4/fewer"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    part, seeds = ("validation", [100]) if given.verb == "choose" else ("test", [0, 1, 2])
    given.out.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds or seeds:
        for name, setting in SETTINGS.items():
            file = given.out / f"{part}-{name}-{seed}.json".replace(" ", "").replace("×", "x")
            if file.exists() or (given.only and name not in given.only):
                continue
            found = train(setting.rival(), "dirichlet", part, seed, TARGETS, setting.rounds,
                          setting.every)  # fmt: skip
            file.write_text(json.dumps({"name": name, "part": part, "seed": seed} | found))
            marks = [reached(found["curve"], target, what) for what, target in TARGETS]
            shown = ["-" if m is None else f"round {m['round']}, {m['bits']['formula']['links']:.3g} / "
                     f"{m['bits']['encoded']['links']:.3g}" for m in marks]  # fmt: skip
            print(f"{part} {seed} {name:18s} error 0.12: {shown[0]:30s} own 0.25: {shown[1]}", flush=True)


if __name__ == "__main__":
    main()
