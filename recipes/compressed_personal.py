"""DFedAlt and DFedPGP in few bits: how much of what they gain over Local is left?

    python recipes/compressed_personal.py rates      the rate of each method, on held-out samples
    python recipes/compressed_personal.py tune       then compressor and γ
    python recipes/compressed_personal.py run        five other seeds, on test data
    python recipes/compressed_personal.py page       docs/results/compressed_personal.md from what was run

No published number stands behind it. MNIST, 20 peers with 5 of the 10 classes each and 20 training samples, an MLP
784-100-10 whose head is personal, 50 rounds of 2 epochs for head and body each, batch 10, momentum 0.9. DFedAlt on a
random undirected graph of 4 neighbours, DFedPGP on a random directed one of 4 out-neighbours; neither changes. Held-out
samples are up to 200 of each peer's other training samples: what is chosen is chosen on them, with seed 100.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from charts import between

import covey
from covey import SGD, Task, compress, graphs, models, trigger
from covey import algorithms as a
from covey.exchange import Compressed, CompressedPush, Gossip, PushSum
from covey.exchange.gamma import Gamma
from covey.randomness import choose, key

PEERS, CLASSES, SAMPLES, NEIGHBOURS, ROUNDS, HELD_OUT = 20, 5, 20, 4, 50, 200
RATES = (0.01, 0.03, 0.1)
COMPRESSORS = {
    "Sign, every 2nd round": (compress.Sign(), trigger.every(2)),
    "Sign-Top 3 %": (compress.SignTopK(fraction=0.03), trigger.always),
    "Sign-Top 1 %": (compress.SignTopK(fraction=0.01), trigger.always),
    "4-bit Top 1 %": (compress.QTopK(fraction=0.01, levels=7), trigger.always),
    "4-bit Top 2 %": (compress.QTopK(fraction=0.02, levels=7), trigger.always),
}
GAMMAS: tuple[Gamma, ...] = ("auto", 0.2, 0.4, 0.8)
METHODS = ("Local", "DFedAlt", "DFedPGP")
PLAIN = "plain"


@lru_cache(maxsize=1)
def task(part: str, seed: int) -> Task:
    """`held-out`: what is judged are training samples that the peer does not train on."""
    whole = covey.data.load("mnist", peers=PEERS, partition=f"pathological:{CLASSES}", seed=seed)
    peers: list[tuple[torch.Tensor, ...]] = []
    for i in range(PEERS):
        x, y = whole.train.of(i)
        order = choose(key(seed, "few", i), len(y), min(len(y), SAMPLES + HELD_OUT))
        few, others = order[:SAMPLES], order[SAMPLES:]
        judged = whole.test.of(i) if part == "test" else (x[others], y[others])
        peers.append((x[few], y[few], *judged))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = models.mlp()
    return Task.from_module(module, covey.data.from_peers(peers, transform=None, classes=10), personal="head")


def method(name: str, lr: float, compressor: str, gamma: Gamma) -> a.Algorithm:
    work = SGD(lr, epochs=2, batch=10, momentum=0.9)
    if name == "Local":
        return a.Local(SGD(lr, epochs=4, batch=10, momentum=0.9))  # as many steps as the others take in two phases
    if compressor == PLAIN:
        return a.DFedAlt(work, work, by=Gossip()) if name == "DFedAlt" else a.DFedPGP(work, work, by=PushSum())
    how, when = COMPRESSORS[compressor]
    if name == "DFedAlt":
        return a.DFedAlt(work, work, by=Compressed(how, gamma, when, known=True))
    return a.DFedPGP(work, work, by=CompressedPush(how, gamma, when, known=True))


def graph(name: str) -> graphs.Graph:
    if name == "DFedPGP":
        return graphs.fixed(graphs.random_directed(PEERS, NEIGHBOURS))
    return graphs.fixed(graphs.random_undirected(PEERS, NEIGHBOURS))


# What `rates` and `tune` found on held-out samples: the rate, and the settings with the best accuracy at 50 times fewer
# bits by both counts. γ = "auto" is shown beside it.
RATE: dict[str, float] = {"Local": 0.03, "DFedAlt": 0.03, "DFedPGP": 0.03}
CHOSEN: dict[str, tuple[tuple[str, Gamma], ...]] = {
    "DFedAlt": (("Sign, every 2nd round", 0.4), ("Sign, every 2nd round", "auto")),
    "DFedPGP": (("Sign, every 2nd round", 0.4), ("Sign, every 2nd round", "auto")),
}

Setting = tuple[str, float, str, Gamma]  # method, rate, compressor, γ
Run = dict[str, Any]


def one(job: tuple[Setting, str, int, Path]) -> dict[str, Any]:
    """A run; what its file says where it has been run before."""
    (name, lr, compressor, gamma), part, seed, folder = job
    file = folder / f"{part}-{name}-{lr}-{compressor}-{gamma}-{seed}.json".replace(" ", "")
    if file.exists():
        return json.loads(file.read_text())
    torch.set_num_threads(1)
    run = covey.simulate(method(name, lr, compressor, gamma), task(part, seed), graph(name), rounds=ROUNDS, seed=seed,
                         evaluate_every=10, chunk=PEERS)  # fmt: skip
    last = run.history[-1]
    found = {"method": name, "lr": lr, "compressor": compressor, "asked": gamma, "part": part, "seed": seed,
             "accuracy": last["mixed"]["accuracy"], "worst": last["mixed"]["worst_decile"], "bits": last["bits"],
             "curve": [(e["round"], e["mixed"]["accuracy"]) for e in run.history],
             "gamma": float(run.peers.state["gamma"][0]) if "gamma" in run.peers.state else None}  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found))
    links = " / ".join(f"{last['bits'][count]['links']:.3g}" for count in ("formula", "encoded"))
    print(f"{part:9s} {name:8s} lr {lr} {compressor:14s} γ {gamma} seed {seed}: {100 * found['accuracy']:.1f} %, "
          f"links {links}", flush=True)  # fmt: skip
    return found


def read(folder: Path, part: str) -> dict[Setting, list[Run]]:
    """Each setting and its runs, by seed."""
    found: dict[Setting, list[Run]] = {}
    for file in sorted(folder.glob(f"{part}-*.json")):
        run = json.loads(file.read_text())
        found.setdefault((run["method"], run["lr"], run["compressor"], run["asked"]), []).append(run)
    return {setting: sorted(runs, key=lambda run: run["seed"]) for setting, runs in found.items()}


def table(found: dict[Setting, list[Run]]) -> list[str]:
    """Gains over Local are paired by seed; a gain is kept to the share that its mean is of the plain method's mean."""
    lines = [
        "| method | compressor | γ | accuracy | worst tenth | gain over Local | gain kept | bits, formula | fewer "
        "| bits, encoded | fewer |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in METHODS:
        of = {setting: runs for setting, runs in found.items() if setting[0] == name and setting[1] == RATE[name]}
        plain = of.get((name, RATE[name], PLAIN, 1.0), [])
        for setting, runs in sorted(of.items(), key=lambda item: (item[0][2] != PLAIN, item[0][2], str(item[0][3]))):
            seeds = [run["seed"] for run in runs]
            alone, whole = (
                [run for run in some if run["seed"] in seeds]
                for some in (found["Local", RATE["Local"], PLAIN, 1.0], plain)
            )
            gains, most = gain(runs, alone), gain(whole, alone)
            _, _, compressor, gamma = setting
            cells = [name, compressor, "–" if compressor == PLAIN else str(gamma), percent(accuracies(runs))]
            cells += [percent([run["worst"] for run in runs])]
            if name == "Local":
                cells += ["", "", "0", "", "0", ""]
            else:
                cells += [percent(gains, sign=True), f"{100 * sum(gains) / sum(most):.0f} %"]
                for count in ("formula", "encoded"):
                    sent, before = (mean([run["bits"][count]["links"] for run in some]) for some in (runs, whole))
                    cells += [f"{sent:.3g}".replace("e+0", "e").replace("e+", "e"), f"{before / sent:.0f}×"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def gain(runs: list[Run], alone: list[Run]) -> list[float]:
    return [run["accuracy"] - other["accuracy"] for run, other in zip(runs, alone, strict=True)]


def accuracies(runs: list[Run]) -> list[float]:
    return [run["accuracy"] for run in runs]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def percent(values: list[float], sign: bool = False) -> str:
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):{'+' if sign else ''}.1f}{spread}"


def write_page(folder: Path, page: Path) -> None:
    """Put the tables between the marks of the page; its words stay."""
    text = page.read_text(encoding="utf-8")
    for name in ("test", "held-out"):
        text = between(text, name, table(read(folder, name)))
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="DFedAlt and DFedPGP in few bits")
    parser.add_argument("verb", choices=("rates", "tune", "run", "page"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("runs/compressed_personal"))
    given = parser.parse_args()
    if given.verb == "page":
        write_page(given.out, Path("docs/results/compressed_personal.md"))
        return
    if given.verb == "rates":
        settings: list[Setting] = [(name, lr, PLAIN, 1.0) for name in METHODS for lr in RATES]
    elif given.verb == "tune":
        both = itertools.product(METHODS[1:], COMPRESSORS, GAMMAS)
        settings = [(name, RATE[name], PLAIN, 1.0) for name in METHODS]
        settings += [(name, RATE[name], compressor, gamma) for name, compressor, gamma in both]
    else:
        settings = [(name, RATE[name], PLAIN, 1.0) for name in METHODS]
        settings += [(name, RATE[name], *how) for name, chosen in CHOSEN.items() for how in chosen]
    part, seeds = ("test", [0, 1, 2, 3, 4]) if given.verb == "run" else ("held-out", [100])
    jobs = [(setting, part, seed, given.out) for seed in given.seeds or seeds for setting in settings]
    with ProcessPoolExecutor(given.jobs) as pool:
        list(pool.map(one, jobs))


if __name__ == "__main__":
    main()
