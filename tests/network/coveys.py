"""A covey of peers in threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import covey
from covey import Run, Task
from covey.algorithms.algorithm import Algorithm
from covey.graphs.graph import Graph
from covey.network import Peer
from network.memory import Wires


def names(n: int) -> list[str]:
    return [f"peer-{i}" for i in range(n)]


def play(
    algorithm: Algorithm,
    task: Callable[[], Task],
    graph: Graph,
    rounds: int,
    folder: Path,
    wires: Wires | None = None,
    seed: int = 3,
    who: list[int] | None = None,
    **how: Any,
) -> list[Run]:
    """All peers to the end; what each has then."""
    wires = wires or Wires()
    roster = names(graph.n)
    done: dict[int, Run] = {}
    problems: list[BaseException] = []

    coveys = {
        i: Peer(
            algorithm,
            task(),
            graph,
            roster[i],
            roster=roster,
            transport=wires.end(roster[i]),
            folder=folder / roster[i],
            seed=seed,
            **how,
        )
        for i in who or range(graph.n)
    }

    def one(i: int) -> None:
        try:
            done[i] = coveys[i].run(rounds)
        except BaseException as problem:
            problems.append(problem)
            wires.end(roster[i]).close()

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in coveys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    problems += wires.problems
    if problems:
        raise problems[0]
    assert not any(thread.is_alive() for thread in threads), "a peer hangs"
    return [done[i] for i in sorted(done)]


def rows(runs: list[Run]) -> torch.Tensor:
    return torch.cat([run.peers.rows for run in runs])


def simulated(algorithm: Algorithm, task: Callable[[], Task], graph: Graph, rounds: int, seed: int = 3) -> Run:
    return covey.simulate(algorithm, task(), graph, rounds, seed, exact=True, chunk=1)
