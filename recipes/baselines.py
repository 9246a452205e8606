"""All methods in one table on one setting: what `baselines_on_hapt.py` and `baselines_on_fashion_mnist.py` share.

Every method that `covey list algorithms` names is run (but those that want a constraint between peers, which these data
do not have), so a method that is added later needs no line here. For each the
rate is chosen among RATES by the accuracy on samples held out of the peers' training data, in short runs with a seed
that is used for nothing else; test data play no part in it. Then it is trained once per seed with that rate, and judged
in the last round. Each run's numbers lie in a JSON file under the folder of results: what is there is not run again, so
a recipe that was stopped goes on, and a new method costs only itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from covey import BadInput, CoveyError, Diverged
from covey.cli import methods
from covey.cli.jobs import jobs_of
from covey.cli.settings import Run

RATES = (0.01, 0.03, 0.1)
TUNING_SEED, TUNING_ROUNDS, HELD_OUT = 100, 10, 0.2
DIRECTED = "random_directed:2"  # as many messages as on a ring
EPIDEMIC = "epidemic:2"
ONE_STEP = 5  # times the rounds, for methods of one step a round
COMPRESSED = "signtopk:0.1"  # what methods say that compress by themselves


@dataclass(frozen=True)
class Setting:
    """One table: what is run, and how the page speaks of it."""

    name: str  # of the folder with its results
    title: str
    run: Run  # everything but the method, its graph, the rate and the seed
    paper: Mapping[str, str]  # method -> what a paper printed
    beside: str = ""  # the heading of that column


def own_run(setting: Setting, name: str, lr: float, seed: int) -> Run:
    """The run of one method: gossip on a ring, push-sum on a directed graph, a server that asks everybody. Methods that
    are defined for one step a round get that, and more rounds."""
    kind = methods.find(name)
    run = replace(setting.run, algorithm=name, lr=lr, seed=seed)
    if "compressor" in methods.own_fields(kind):
        run = replace(run, compress=COMPRESSED)
    try:
        needs = methods.build(name, run).needs
    except BadInput:
        run = replace(run, epochs=None, steps=1, rounds=run.rounds * ONE_STEP)
        needs = methods.build(name, run).needs
    graph = {"server": "server", "any": "isolated", "column-or-pull": DIRECTED, "centre": "centre",
             "changing": EPIDEMIC}  # fmt: skip
    return replace(run, graph=graph.get(needs, "ring"))


class NotThereError(Exception):
    """A result that is wanted from its file, and is not there."""


def result(folder: Path, run: Run, device: str | None) -> dict[str, Any]:
    """The summary of a run, from its file or by running it (device None: never). That it diverged is a result, too."""
    plain = Run(algorithm=run.algorithm).kept()  # settings that came later leave earlier results as they are
    asked = {name: value for name, value in run.kept().items() if name == "algorithm" or value != plain[name]}
    asked = {name: value for name, value in asked.items() if name not in ("device", "threads")}
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
    path = folder / f"{run.algorithm}-{run.lr}-seed-{run.seed}-{digest}.json"
    if path.exists():
        return json.loads(path.read_text())
    if device is None:
        raise NotThereError(path)
    begin = time.perf_counter()
    try:
        [job] = jobs_of(replace(run, device=device))
        record = job.run(lambda t, entry: None)
        found: dict[str, Any] = {"summary": record.summary, "validation": record.history[-1].get("validation")}
    except Diverged as problem:
        found = {"refused": str(problem)}
    except CoveyError as problem:  # nothing was computed, so nothing is kept
        return {"refused": str(problem)}
    found |= {"asked": asked, "wall": time.perf_counter() - begin}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found))
    print(f"{setting_of(run)} {run.algorithm} lr {run.lr} seed {run.seed}: {found['wall']:.0f} s", flush=True)
    return found


def setting_of(run: Run) -> str:
    return f"{run.data} {run.partition or ''}".strip()


def chosen_rate(setting: Setting, name: str, folder: Path, device: str | None) -> float:
    """The rate with the best accuracy on held-out training samples (the smaller one where two are equal)."""
    scores: dict[float, float] = {}
    for lr in RATES:
        run = own_run(setting, name, lr, TUNING_SEED)
        rounds = TUNING_ROUNDS * run.rounds // setting.run.rounds
        run = replace(run, rounds=rounds, validation=HELD_OUT, evaluate_every=rounds)
        found = result(folder / "choice", run, device)
        scores[lr] = -1.0 if "refused" in found else found["validation"]["accuracy"]
    return max(scores, key=lambda lr: scores[lr])


def rows(
    setting: Setting, names: Sequence[str], seeds: Sequence[int], root: Path, device: str | None
) -> tuple[list[list[str]], list[str]]:
    """The table, and the methods whose results are not there."""
    folder, left = root / setting.name, []
    table: list[tuple[float, list[str]]] = []
    for name in names:
        try:
            lr = chosen_rate(setting, name, folder, device)
            found = [result(folder, own_run(setting, name, lr, seed), device) for seed in seeds]
        except NotThereError:
            left.append(methods.find(name).__name__)
        else:
            table.append(row(methods.find(name).__name__, lr, found, setting))
    return [cells for _, cells in sorted(table, key=lambda one: -one[0])], left


def row(title: str, lr: float, found: Sequence[Mapping[str, Any]], setting: Setting) -> tuple[float, list[str]]:
    """What the table is sorted by, and a line of it."""
    printed = setting.paper.get(title, "")
    refused = next((one["refused"] for one in found if "refused" in one), None)
    if refused is not None:
        return -1.0, [title, "–", f"{lr:g}", refused, "", "", "", "", printed]
    summaries = [one["summary"] for one in found]

    def score(point: str, what: str = "last") -> str:
        return spread([one["accuracy"][point][what] for one in summaries if point in one["accuracy"]])

    own = [point for point in summaries[0]["accuracy"] if point not in ("mixed", "trained", "average")]
    others = ", ".join(f"{point} {score(point)}" for point in own)
    sent = statistics.fmean(one["bits"]["formula"]["links"] / one["rounds"] / 8e6 for one in summaries)
    cells = [title, summaries[0]["graph"], f"{lr:g}", score("mixed"), score("trained"),
             score("mixed", "worst_decile"), others, f"{sent:.2g}", printed]  # fmt: skip
    return statistics.fmean(one["accuracy"]["trained"]["last"] for one in summaries), cells


def spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    text = f"{100 * statistics.fmean(values):.1f}"
    return text if len(values) < 2 else f"{text} ± {100 * statistics.stdev(values):.1f}"


def page(setting: Setting, seeds: Sequence[int], table: Sequence[Sequence[str]], left: Sequence[str]) -> str:
    run, [job] = setting.run, jobs_of(replace(setting.run, algorithm="local", graph="isolated", seed=seeds[0]))
    data = job.task.describe()
    about = (
        f"{data['peers']} peers, {data['train']} training samples ({data['smallest']} to {data['largest']} each), "
        f"{data['test']} for testing, {data['classes']} classes; model {run.model}. {run.rounds} rounds of one epoch, "
        f"batch {run.batch}, weight decay {run.weight_decay:g}, the rate times {run.decay} every round; momentum and "
        "everything else as `covey run` has it for the method. Seeds " + ", ".join(map(str, seeds)) + "."
    )
    if data["moved"]:
        about += (
            f" So that every peer has enough, {data['moved']} samples were moved from the largest peers (seed "
            f"{seeds[0]})."
        )
    head = ["method", "graph", "rate", "after exchange", "after training", "worst tenth", "other models",
            "MB a round", setting.beside]  # fmt: skip
    width = len(head) if setting.paper else len(head) - 1
    lines = [f"## {setting.title}", "", about, "", f"| {' | '.join(head[:width])} |", f"|{'---|' * width}"]
    lines += [f"| {' | '.join(cells[:width])} |" for cells in table]
    if left:
        lines += ["", f"Not run yet: {', '.join(left)}."]
    return "\n".join(lines) + "\n"


HOW = f"""\
Accuracy in per cent, in the last round: the mean over peers of each peer's own model on its own test samples; mean over
seeds ± standard deviation. **After exchange** and **after training** are the two looks of a round
([results.md](../results.md)); methods are in the order of the latter. **Worst tenth** is after the exchange.
**Other models**: those that the method has besides (FedAvg's `fresh`: one more round on the peer's own data).
Nothing is the best over rounds. The **rate** of each method was chosen among {{rates}} by the accuracy on
{100 * HELD_OUT:.0f} % of the training samples, held out, after {TUNING_ROUNDS} rounds with seed {TUNING_SEED}; nothing
else was chosen. Gossip runs on a ring, push-sum on `{DIRECTED}`, Epidemic on `{EPIDEMIC}`, a server asks everybody;
methods that compress say `{COMPRESSED}`. D² and EXTRA, which are defined for one step a round, take one, in {ONE_STEP}
times the rounds. Centralised passes over all peers' data in a round, so it takes as many steps as all peers together,
one after another. Heads trains heads alone, on the body as it starts. Some are one method in this setting and have one
row each all the same: DPSGD and DFedAvg, SGP and OSGP (without overlap), CHOCO and SPARQ (without a trigger). A rate at
the edge of those that were tried may not be the method's best.
"""


def main(settings: Sequence[Setting], words: str, command: str, out: Path, remarks: str = "") -> None:
    asked = argparse.ArgumentParser(description=words)
    asked.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    asked.add_argument("--only", nargs="*", help="methods; by default all")
    asked.add_argument("--device", default="cpu")
    asked.add_argument("--finished", action="store_true", help="write the page of what is there; run nothing")
    asked.add_argument("--runs", type=Path, default=Path("runs/baselines"))
    asked.add_argument("--out", type=Path, default=out)
    given = asked.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Round")  # thin masses: the tables show what comes of them
    apart = [name for name in methods.known() if "constraint" in methods.own_fields(methods.find(name))]
    names = [name for name in sorted(methods.known()) if name not in apart and (not given.only or name in given.only)]
    device = None if given.finished else given.device
    parts = [page(one, given.seeds, *rows(one, names, given.seeds, given.runs, device)) for one in settings]
    seeds = " ".join(map(str, given.seeds))
    text = "\n".join([f"# {words}", "", f"`{command} --seeds {seeds}`: torch {torch.__version__}, {given.device}.", "",
                      HOW.format(rates=", ".join(f"{r:g}" for r in RATES)), remarks, *parts])  # fmt: skip
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(text, encoding="utf-8")
    print(text)
