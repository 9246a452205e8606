"""Simulated time, by hand: who waits for whom, for how long; and that looking at the clock changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import covey
from covey import SGD, BadInput, Clock, algorithms, graphs
from covey.engine.timeline import Timeline
from covey.exchange import PushSum
from covey.graphs.graph import Graph
from covey.peers import Peers
from covey.traffic import Said, Traffic
from engines.table import CASES, Case, task
from refusals import refused_in_one_sentence


def said(bits: Sequence[float], whole: float = 0.0, wait: bool = True) -> Said:
    sent = torch.tensor(bits, dtype=torch.float64)
    return Said(sent, sent, (whole, whole), wait)


def rounds(clock: Clock, graph: Graph, gradients: Sequence[int], *exchanges: Said, times: int = 1) -> list[list[float]]:
    """When each peer is ready, after each of so many equal rounds."""
    timeline, seen = Timeline(clock, graph.n), list[list[float]]()
    for t in range(times):
        timeline.round(t, graph.round(t), torch.tensor(gradients), exchanges)
        seen.append(timeline.ready.tolist())
    return seen


PAIR = graphs.from_matrix([[0.5, 0.5], [0.5, 0.5]])


def test_two_peers_wait_for_each_other() -> None:
    clock = Clock(step_seconds=(1.0, 3.0), message_seconds=0.5, bandwidth=10.0, latency=0.25)
    # worked 2 and 3; sent 2 + ½ + 20/10 = 4½ and 3 + ½ + 40/10 = 7½; heard 7¾ and 4¾
    assert rounds(clock, PAIR, [2, 1], said([20, 40])) == [[7.75, 7.5]]


def test_bandwidth_and_latency_are_the_senders() -> None:
    clock = Clock(bandwidth=(10.0, 5.0), latency=(0.25, 0.5))
    # sent 2 and 4; heard 4 + ½ and 2 + ¼
    assert rounds(clock, PAIR, [0, 0], said([20, 20])) == [[4.5, 4.0]]


def test_a_slow_peer_holds_up_one_hop_more_in_every_round() -> None:
    n, slow = 9, 5
    clock = Clock(step_seconds=[slow if i == 0 else 1.0 for i in range(n)])
    for t, ready in enumerate(rounds(clock, graphs.ring(n), [1] * n, said([8] * n), times=6), start=1):
        for i in range(n):
            d = min(i, n - i)  # the slow peer's first t − d + 1 rounds, then d − 1 hops of a round of work each
            expected = slow * t if d == 0 else slow * (t - d + 1) + (d - 1) if t >= d else t
            assert ready[i] == expected, (t, i)


def test_whoever_is_heard_by_nobody_holds_up_nobody() -> None:
    chain = graphs.from_matrix([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])  # 0 → 1 → 2
    assert rounds(Clock(step_seconds=(1.0, 1.0, 9.0)), chain, [1, 1, 1], said([0, 0, 0]), times=2)[1] == [2, 2, 18]


def test_a_server_waits_for_all_it_sampled_and_for_nobody_else() -> None:
    clock = Clock(step_seconds=1.0, message_seconds=0.5, bandwidth=(10.0, 20.0, 40.0, 10.0), latency=1.0)
    hub = graphs.server(4, 1.0)
    # up: 1 + ½ + 80/bandwidth + 1 = 10½, 6½, 4½, 10½; then down: ½ + 40/bandwidth + 1
    assert rounds(clock, hub, [1] * 4, said([80] * 4, 40)) == [[16.0, 14.0, 13.0, 16.0]]
    half = graphs.server(4, 0.5).bound(0, torch.ones(4))
    active = half.round(0).active
    timeline = Timeline(Clock(step_seconds=1.0, bandwidth=10.0), 4)
    timeline.round(0, half.round(0), active.long() * 3, [said([80] * 4, 40)])
    assert int(active.sum()) == 2
    assert timeline.ready[active].tolist() == [3 + 8 + 4] * 2 and timeline.ready[~active].tolist() == [3 + 8] * 2


@pytest.mark.parametrize("graph", [graphs.full(5), graphs.from_matrix(torch.full((5, 5), 0.2).double())], ids=str)
def test_copies_to_k_neighbours_share_the_line(graph: Graph) -> None:
    took = {u: rounds(Clock(bandwidth=10.0, latency=0.25, uplink=u), graph, [0] * 5, said([20] * 5))[0]
            for u in ("shared", "dedicated", "broadcast")}  # fmt: skip
    assert took == {"shared": [4 * 2.25 - 0.75] * 5, "dedicated": [2.25] * 5, "broadcast": [2.25] * 5}


@pytest.mark.parametrize("graph", [graphs.full(3), graphs.from_matrix(torch.full((3, 3), 1 / 3).double())], ids=str)
def test_nobody_waits_for_its_own_message(graph: Graph) -> None:
    assert rounds(Clock(step_seconds=(1.0, 2.0, 9.0), latency=1.0), graph, [1] * 3, said([0] * 3)) == [[10, 10, 9]]


def test_silence_costs_its_set_up_only() -> None:
    clock = Clock(message_seconds=0.5, bandwidth=1e-3, latency=0.0)
    assert rounds(clock, graphs.ring(4), [0] * 4, said([0] * 4)) == [[2 * 0.5] * 4]  # two copies
    assert rounds(clock, graphs.isolated(4), [0] * 4, said([9] * 4)) == [[0.0] * 4]  # nobody to speak to


def test_a_trace_has_a_row_per_round_and_begins_again() -> None:
    trace = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    assert rounds(Clock(step_seconds=trace), graphs.isolated(2), [1, 1], times=3) == [[1, 2], [5, 10], [6, 12]]
    lines = rounds(Clock(bandwidth=[[1.0, 1.0], [4.0, 4.0]]), PAIR, [0, 0], said([8, 8]), times=2)
    assert lines == [[8, 8], [10, 10]]


def test_groups() -> None:
    assert Clock.groups(10, (1, 2, 3, 4, 5)) == (1, 1, 2, 2, 3, 3, 4, 4, 5, 5)
    assert Clock.groups(5, (1, 2)) == (1, 1, 1, 2, 2) and Clock.groups(3, (7,)) == (7, 7, 7)


@pytest.mark.parametrize(("work", "line"), [(5.0, 2.0), (2.0, 5.0)])
def test_a_push_that_does_not_wait_travels_while_its_peer_works(work: float, line: float) -> None:
    clock = Clock(step_seconds=work, bandwidth=1.0)
    waiting = rounds(clock, PAIR, [1, 1], said([line] * 2), times=4)
    assert waiting == [[t * (work + line)] * 2 for t in (1, 2, 3, 4)]
    # it leaves at `work` and is needed at the end of the next round: whatever takes longer sets the pace
    pushing = rounds(clock, PAIR, [1, 1], said([line] * 2, wait=False), times=4)
    assert pushing == [[work + (t - 1) * max(work, line)] * 2 for t in (1, 2, 3, 4)]


def test_exchanges_of_one_round_follow_each_other() -> None:
    clock = Clock(bandwidth=10.0, latency=1.0)
    # sent 1 and 2, so ready 3 and 2; then sent 4 and 3, so ready max(4, 3 + 1) and max(3, 4 + 1)
    assert rounds(clock, PAIR, [0, 0], said([10, 20]), said([10, 10])) == [[4, 5]]


def naive(clock: Clock, n: int, seen: list[tuple[list[list[float]], list[int], list[float]]]) -> list[float]:
    """The same, peer by peer and message by message."""
    ready = [0.0] * n
    for W, gradients, bits in seen:
        free = []
        for i in range(n):
            now = ready[i] + clock.step_seconds[i] * gradients[i]  # type: ignore[index]
            for receiver in range(n):
                if receiver != i and W[receiver][i]:
                    now += clock.message_seconds + bits[i] / clock.bandwidth[i]  # type: ignore[index, operator]
            free.append(now)
        heard = [[free[j] + clock.latency[j] for j in range(n) if j != i and W[i][j]] for i in range(n)]  # type: ignore[index]
        ready = [max([free[i], *heard[i]]) for i in range(n)]
    return ready


def test_a_changing_directed_graph_against_a_loop() -> None:
    n, T = 12, 8
    g = torch.Generator().manual_seed(0)
    draw = lambda low, high: (low + (high - low) * torch.rand(n, generator=g, dtype=torch.float64)).tolist()  # noqa: E731
    clock = Clock(draw(0.1, 2), 0.125, draw(1, 9), draw(0, 3))
    graph = graphs.random_directed(n, 3, seed=5)
    timeline, seen = Timeline(clock, n), []
    for t in range(T):
        gradients, bits = torch.randint(0, 5, (n,), generator=g), draw(0, 20)
        timeline.round(t, graph.round(t), gradients, [said(bits)])
        seen.append((graph.round(t).weights.dense().tolist(), gradients.tolist(), bits))
    torch.testing.assert_close(
        timeline.ready, torch.tensor(naive(clock, n, seen), dtype=torch.float64), rtol=1e-13, atol=0
    )


CLOCK = Clock(step_seconds=Clock.groups(6, (0.01, 0.02, 0.05)), message_seconds=1e-3, bandwidth=1e5, latency=0.02,
              joules_per_bit=1e-6, joules_per_step=0.5)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_clock_changes_no_number(case: Case) -> None:
    def run(clock: Clock | None) -> covey.Run:
        return covey.simulate(case.algorithm, task(), case.graph(), rounds=2, seed=3, chunk=3, clock=clock)

    plain, timed = run(None), run(CLOCK)
    assert torch.equal(plain.peers.rows, timed.peers.rows) and torch.equal(plain.rows, timed.rows)
    assert plain.peers.state.keys() == timed.peers.state.keys()
    assert all(torch.equal(value, timed.peers.state[name]) for name, value in plain.peers.state.items())
    for a, b in zip(plain.history, timed.history, strict=True):
        assert "clock" not in a and b["clock"]["seconds"] >= b["clock"]["mean"] > 0
        assert {k: v for k, v in b.items() if k not in ("clock", "seconds")} == {
            k: v for k, v in a.items() if k != "seconds"
        }
    assert "clock" not in plain.summary() and timed.summary()["clock"] == timed.history[-1]["clock"]


SIZES = (12, 9, 12, 5, 20, 8)  # training samples of the task's peers
STEPS = (3, 2, 3, 1, 5, 2)  # batches of 4 in an epoch of them; a rest of one sample is none under BatchNorm


def test_a_run_reads_its_own_steps_and_bits() -> None:
    def run(local: SGD, clock: Clock) -> covey.Run:
        return covey.simulate(algorithms.DFedAvg(local), task(sizes=SIZES), graphs.ring(6), 3, chunk=3, clock=clock)

    plain = SGD(0.1, epochs=2, batch=4)
    working = run(plain, Clock(step_seconds=0.5, joules_per_step=2.0)).summary()["clock"]
    ready = [0.0] * 6
    for _ in range(3):
        worked = [ready[i] + 0.5 * 2 * STEPS[i] for i in range(6)]
        ready = [max(worked[i - 1], worked[i], worked[(i + 1) % 6]) for i in range(6)]
    assert working["seconds"] == max(ready) == 15.0
    assert working["mean"] == pytest.approx(sum(ready) / 6, rel=1e-15)
    assert working["joules"] == 2.0 * 3 * 2 * sum(STEPS)

    sharp = run(SGD(0.1, epochs=2, batch=4, sam=0.05), Clock(step_seconds=0.5)).summary()["clock"]
    assert sharp["seconds"] == 30.0  # two gradients a step

    spoken = run(plain, Clock(bandwidth=1e5, joules_per_bit=1e-3))
    width = spoken.peers.rows.shape[1]
    assert spoken.summary()["clock"]["seconds"] == pytest.approx(3 * 2 * 64 * width / 1e5, rel=1e-14)  # float64
    assert spoken.traffic.encoded.links == 3 * 6 * 2 * 64 * width
    assert spoken.summary()["clock"]["joules"] == 1e-3 * spoken.traffic.encoded.links
    papers = run(plain, Clock(bandwidth=1e5, bits="formula", uplink="broadcast", joules_per_bit=1e-3)).summary()
    assert papers["clock"]["seconds"] == pytest.approx(3 * 32 * width / 1e5, rel=1e-14)
    assert papers["clock"]["joules"] == 1e-3 * (3 * 6 * 32 * width)


def test_a_whole_gradient_counts_as_one() -> None:
    @dataclass(frozen=True)
    class Asking(algorithms.Local):
        def train(self, peers: Peers) -> None:
            peers.grad()
            peers.train(self.local)

    run = covey.simulate(Asking(SGD(0.1, steps=2)), task(), graphs.isolated(6), 1, chunk=3, clock=Clock(1.0))
    assert run.summary()["clock"]["seconds"] == 3.0


def test_overlapped_push_sum_hides_its_messages_behind_its_work() -> None:
    took = {}
    for overlap in (False, True):
        method = algorithms.OSGP(SGD(0.1, steps=2, batch=4), by=PushSum(overlap=overlap))
        clock = Clock(step_seconds=0.5, message_seconds=0.25)  # a second of work, half a second for two copies
        took[overlap] = covey.simulate(method, task(), graphs.ring(6), 3, chunk=3, clock=clock).history[-1]["clock"]
    assert (took[False]["seconds"], took[True]["seconds"]) == (4.5, 3.0)


def test_seconds_to_a_target() -> None:
    run = covey.simulate(algorithms.DFedAvg(SGD(0.3, epochs=3, batch=4)), task(), graphs.ring(6), 6, target=0.5,
                         chunk=3, clock=CLOCK)  # fmt: skip
    summary = run.summary()
    for point in ("mixed", "trained", "average"):
        first = summary["rounds_to_target"][point]
        seconds = None if first is None else run.history[first - 1]["clock"]["seconds"]
        assert summary["clock_to_target"][point] == seconds
    assert summary["rounds_to_target"]["mixed"] is not None and summary["clock_to_target"]["target"] == 0.5


@pytest.mark.parametrize("overlap", [False, True])
def test_resumed_exactly(overlap: bool, tmp_path: Path) -> None:
    trace = [[0.01 * (1 + (t + i) % 3) for i in range(6)] for t in range(4)]
    clock = Clock(trace, 1e-3, [1e4 * (1 + i) for i in range(6)], 0.02, joules_per_step=0.1)

    def run(rounds: int, clock: Clock = clock, **how: object) -> covey.Run:
        method = algorithms.OSGP(SGD(0.1, steps=2, batch=4), by=PushSum(overlap=overlap))
        return covey.simulate(method, task(), graphs.random_directed(6, 2), rounds, seed=3, chunk=3, clock=clock, **how)

    whole = [entry["clock"] for entry in run(6).history]
    run(3, out=tmp_path / "run")
    assert [entry["clock"] for entry in run(6, resume=tmp_path / "run").history] == whole
    with pytest.raises(BadInput, match=r"its run\.clock was"):
        run(8, Clock(trace), resume=tmp_path / "run")


def started(clock: Clock) -> covey.Run:
    return covey.simulate(algorithms.Local(SGD(0.1)), task(), graphs.isolated(6), 1, clock=clock)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "negative bandwidth": (lambda: Clock(bandwidth=-1.0), r"bandwidth=-1\) is out of range; use bit/s above 0"),
    "no bandwidth": (lambda: Clock(bandwidth=[1.0, 0.0]), r"bandwidth=0\) is out of range"),
    "negative latency": (lambda: Clock(latency=-0.1), r"latency=-0.1\) is out of range; use a finite number"),
    "endless steps": (lambda: Clock(step_seconds=math.inf), r"step_seconds=inf\)"),
    "steps of nan": (lambda: Clock(step_seconds=[[1.0, math.nan]]), r"step_seconds=nan\)"),
    "negative energy": (lambda: Clock(joules_per_bit=-1.0), "joules_per_bit=-1"),
    "energy per peer": (lambda: Clock(joules_per_step=[1.0, 2.0]), "one number for all"),  # type: ignore[arg-type]
    "a word": (lambda: Clock(bandwidth="fast"), "is no number"),  # type: ignore[arg-type]
    "an uneven table": (lambda: Clock(step_seconds=[[1.0], [1.0, 2.0]]), "is no number, nor a row or a table"),
    "a cube": (lambda: Clock(step_seconds=torch.ones(1, 1, 6)), "one per peer, or a table"),
    "nothing": (lambda: Clock(step_seconds=[]), "one per peer, or a table"),
    "another uplink": (lambda: Clock(uplink="wide"), "none of shared, dedicated, broadcast"),  # type: ignore[arg-type]
    "other bits": (lambda: Clock(bits="wire"), "none of encoded, formula"),  # type: ignore[arg-type]
    "a row for other peers": (lambda: started(Clock(latency=[0.0] * 5)), "numbers for 5 peers, but the run has 6"),
    "a trace for other peers": (lambda: started(Clock(step_seconds=torch.ones(3, 4))), "numbers for 4 peers"),
    "no clock": (lambda: started(0.01), "needs a clock such as"),  # type: ignore[arg-type]
    "more groups than peers": (lambda: Clock.groups(2, (1, 2, 3)), "2 peers cannot form 3 groups"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name: str) -> None:
    refused_in_one_sentence(*REFUSED[name])


def test_energy_is_that_of_the_ledger() -> None:
    traffic, timeline = Traffic(), Timeline(Clock(joules_per_bit=2.0, joules_per_step=3.0), 4)
    hub, bits = graphs.server(4, 1.0).round(0), torch.tensor([10.0, 20.0, 30.0, 40.0])
    traffic.count(hub, bits, bits, (50.0, 50.0))
    timeline.round(0, hub, torch.tensor([1, 2, 3, 4]), traffic.said)
    assert timeline.cost(traffic)["joules"] == 2.0 * (100 + 4 * 50) + 3.0 * 10
