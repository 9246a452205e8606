"""What a method adds to local SGD, term by term, against a loop in plain Python over a peer's mini-batches.

    g = ∇F(x + ρ g/‖g‖);  g ← g min(1, clip/‖g‖);  g ← g + wd x + plus + λ(x − c);  v ← β v + g;  x ← mask · (x − η v)

F(x) = mean over samples s of ½‖x − s‖² + ½(Σ(x − s))², so that body (3 numbers) and head (2) meet in every gradient.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import covey
from covey import SGD, Task
from covey.algorithms import FedAvg
from covey.graphs import server
from covey.peers import Peers
from covey.training.pace import Pace
from theory.problems import column, quadratic, random
from theory.recorded import recorded
from theory.rounds import Rounds

SIZES, BODY, WIDTH, ROUNDS = (7, 4, 5, 6), 3, 5, 2
N = len(SIZES)
SAMPLES = [random(n, WIDTH, seed=n) for n in SIZES]
PLAIN = SGD(0.05, epochs=2, batch=3)
FULL = SGD(0.05, epochs=2, batch=3, momentum=0.9, weight_decay=0.05, clip=1.5, sam=0.3, decay=0.8)
COLUMNS = {"all": range(WIDTH), "shared": range(BODY), "personal": range(BODY, WIDTH)}


class Point(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Parameter(torch.zeros(BODY, dtype=torch.float64))
        self.head = nn.Parameter(torch.zeros(WIDTH - BODY, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.body, self.head]) - x


def task() -> Task:
    parts = [(own, torch.zeros(len(own)), own, torch.zeros(len(own))) for own in SAMPLES]
    return Task.from_module(Point(), recorded(parts), "head",
                            loss=lambda p, y: 0.5 * (p.square().sum(1) + p.sum(1).square()).mean())  # fmt: skip


def descend(x: list[float], samples: list[list[float]], batches: list[list[int]], local: SGD, t: int, columns: range,
            velocity: list[float], *, mass: float = 1.0, plus: list[float] | None = None,
            pull: tuple[float, list[float]] | None = None, mask: list[float] | None = None) -> None:  # fmt: skip
    """The steps of one peer, in place on x and on its velocity; all terms are over the columns."""
    for batch in batches:
        mean = [sum(samples[s][c] for s in batch) / len(batch) for c in range(WIDTH)]

        def gradient(at: list[float], mean: list[float] = mean) -> list[float]:
            off = [(value / mass if c < BODY else value) - mean[c] for c, value in enumerate(at)]
            return [off[c] + sum(off) for c in columns]

        g = gradient(x)
        if local.sam:
            norm, ahead = sum(value * value for value in g) ** 0.5, list(x)
            for k, c in enumerate(columns):
                ahead[c] += local.sam * g[k] / norm
            g = gradient(ahead)
        if local.clip is not None:
            norm = sum(value * value for value in g) ** 0.5
            g = [value * min(1.0, local.clip / (norm + 1e-6)) for value in g]  # as torch clips
        for k, c in enumerate(columns):
            step = g[k] + local.weight_decay * x[c]
            if plus is not None:
                step += plus[k]
            if pull is not None:
                step += pull[0] * (x[c] - pull[1][k])
            velocity[k] = local.momentum * velocity[k] + step
            x[c] -= float(local.lr) * local.decay**t * velocity[k]  # type: ignore[arg-type]
            if mask is not None:
                x[c] *= mask[k]


TERMS = ("none", "plus", "pull", "mask", "memory", "mass", "all of them")


@pytest.mark.parametrize("chunk", [1, 3, N])
@pytest.mark.parametrize("local", [PLAIN, FULL], ids=["plain", "sam, clip, momentum"])
@pytest.mark.parametrize("group", COLUMNS)
@pytest.mark.parametrize("term", TERMS)
def test_a_term_does_what_its_equation_says(term: str, group: str, local: SGD, chunk: int) -> None:
    """Two rounds, of which the second peer sits the first one out; then neither its row nor its memory moves."""
    columns = COLUMNS[group]
    width = len(columns)
    named = {
        "plus": random(N, width, seed=11), "pull": (0.4, random(N, width, seed=12)),
        "mask": (random(N, width, seed=13) > -0.3).double(), "mass": random(N, 1, seed=14).abs() + 0.5,
        "memory": random(N, width, seed=15),
    }  # fmt: skip
    given = {name: value for name, value in named.items() if term in (name, "all of them")}
    memory = given.get("memory")
    if memory is not None and not local.momentum:
        local = replace(local, momentum=0.6)
    own = Peers(task(), torch.arange(N), N, pace=Pace.fixed(chunk))
    own.rows = random(N, WIDTH, seed=10)
    own.grad()  # the pace is settled on batches, too
    own.data.take()  # type: ignore[attr-defined]
    rows = own.rows.tolist()
    fresh = [[0.0] * width for _ in range(N)]
    kept = fresh if memory is None else memory.tolist()
    for t in range(ROUNDS):
        own.begin(t, torch.tensor([True, t > 0, True, True]))
        own.train(local, group, **given)  # type: ignore[arg-type]
        batches = own.data.take()  # type: ignore[attr-defined]
        assert [len(b) for b in batches] == [6, 4 * t, 4, 4]
        for i in range(N):
            velocity = kept[i] if memory is not None else [0.0] * width
            terms = {name: value[i].tolist() for name, value in given.items() if name in ("plus", "mask")}
            if "pull" in given:
                terms["pull"] = (given["pull"][0], given["pull"][1][i].tolist())
            if "mass" in given:
                terms["mass"] = float(given["mass"][i])
            descend(rows[i], SAMPLES[i].tolist(), batches[i], local, t, columns, velocity, **terms)
        torch.testing.assert_close(own.rows, torch.tensor(rows, dtype=torch.float64), rtol=0, atol=1e-13)
        if memory is not None:
            assert given["memory"] is memory
            torch.testing.assert_close(memory, torch.tensor(kept, dtype=torch.float64), rtol=0, atol=1e-13)


@pytest.mark.parametrize("chunk", [1, 3])
def test_running_statistics_are_kept_as_shares_of_a_model(chunk: int) -> None:
    """Rows under push-sum are μ times a model, BatchNorm's statistics with them: dividing by μ must give what a plain
    module has after the same pass, also where it is not 1 and where they stay at home."""
    for policy in ("group", "personal"):
        with torch.random.fork_rng():
            torch.manual_seed(3)
            network = nn.Sequential()
            network.add_module("body", nn.Sequential(nn.Linear(WIDTH, 3), nn.BatchNorm1d(3), nn.Tanh()))
            network.add_module("head", nn.Linear(3, 2))
            network.double()
        parts = [(own[:4], torch.arange(4) % 2) * 2 for own in SAMPLES]
        problem = Task.from_module(network, recorded(parts), "head", statistics=policy)  # type: ignore[arg-type]
        own = Peers(problem, torch.arange(N), N, pace=Pace.fixed(chunk))
        mass = column(0.5, 1, 1.7, 3)
        own.shared = own.shared * mass
        own.train(SGD(0.0, steps=2), mass=mass)
        found = problem.layout.unpack(own.with_shared(own.shared / mass))
        network.train()
        for i in range(N):
            plain = nn.BatchNorm1d(3, dtype=torch.float64)
            for _ in range(2):
                plain(network.body[0](parts[i][0]))  # type: ignore[index, union-attr]
            for name in ("running_mean", "running_var"):
                torch.testing.assert_close(found[f"body.1.{name}"][i], getattr(plain, name), rtol=0, atol=1e-14)


RATES = (0.5, 0.25, 0.125, 0.0625, 0.03125)
BY_STEP = FedAvg(SGD(lambda step: RATES[step]))


def test_the_fresh_model_goes_on_with_the_rates_where_its_peer_stands() -> None:
    """½(w − b)² with b = (1, 3), w = 0. Round 1 at .5: w = mean(.5, 1.5) = 1, then fresh at .25: (1, 1.5). Round 2 at
    .25: w = mean(1, 1.5) = 1.25, then fresh at .125: 1.25 + .125 (−.25, 1.75)."""
    run = Rounds(BY_STEP, quadratic(column(1, 3)), server(2))
    for w, fresh in ((1.0, [1.0, 1.5]), (1.25, [1.21875, 1.46875])):
        found = dict(BY_STEP.models(run.go().peers))
        assert found["global"].flatten().tolist() == [w, w]
        assert found["fresh"].flatten().tolist() == fresh


def test_a_rate_counts_the_steps_that_a_peer_took_itself() -> None:
    """One of three is asked in a round, and nobody else's steps make its rate smaller."""
    b = (1.0, 3.0, 8.0)
    run, w, taken, asked = Rounds(BY_STEP, quadratic(column(*b)), server(3, 1, seed=2)), 0.0, [0, 0, 0], set()
    for _ in range(4):
        run.go()
        (i,) = run.peers.active.nonzero().flatten().tolist()
        w += RATES[taken[i]] * (b[i] - w)
        taken[i] += 1
        asked.add(i)
        fresh = [w + RATES[taken[k]] * (b[k] - w) for k in range(3)]
        found = dict(BY_STEP.models(run.peers))
        assert found["global"].flatten().tolist() == pytest.approx([w] * 3, abs=1e-15)
        assert found["fresh"].flatten().tolist() == pytest.approx(fresh, abs=1e-15)
    assert len(asked) > 1 and max(taken) > 1


def test_the_first_round_has_the_whole_rate_and_each_later_one_the_decay_once_more() -> None:
    """½(w − b)², b = 8 from 0, η = .5, decay .5: rates .5, .25, .125, so w = 4, 5, 5.375."""
    local = SGD(0.5, decay=0.5)
    for rounds, w in ((1, 4.0), (2, 5.0), (3, 5.375)):
        done = covey.simulate(FedAvg(local), quadratic(column(8)), server(1), rounds=rounds)
        assert float(done.rows) == w


def test_a_rate_by_steps_decays_by_rounds_too() -> None:
    """½(w − b)², b = 8 from 0, rates .5, .25, .125 by the step, halved once more in every round: the first round at .5,
    the second at .125, the third at .03125, so w = 4, 4.5, 4.609375."""
    local = SGD(lambda step: RATES[step], decay=0.5)
    for rounds, w in ((1, 4.0), (2, 4.5), (3, 4.609375)):
        done = covey.simulate(FedAvg(local), quadratic(column(8)), server(1), rounds=rounds)
        assert float(done.rows) == w


def test_progress_is_the_steps_taken_and_the_rate_of_the_last_one() -> None:
    """Two steps a round: after the first round the last rate was the second, after the next the fourth. A trigger goes
    by them. Before there was any step they are zero."""
    run = Rounds(FedAvg(SGD(lambda step: RATES[step], steps=2)), quadratic(column(1, 3)), server(2))
    assert [float(one.sum()) for one in run.peers.progress()] == [0.0, 0.0]
    for taken, rate in ((2, 0.25), (4, 0.0625)):
        found = run.go().peers.progress()
        assert [one.flatten().tolist() for one in found] == [[taken, taken], [rate, rate]]


def test_a_rate_by_steps_goes_on_within_a_round_and_in_the_next() -> None:
    """½(w − b)², b = 8 from 0, two steps a round at .5, .25 and .125, .0625: w = 4, 5; 5.375, 5.5390625."""
    local = SGD(lambda step: 0.5 ** (step + 1), steps=2)
    for rounds, w in ((1, 5.0), (2, 5.5390625)):
        done = covey.simulate(FedAvg(local), quadratic(column(8)), server(1), rounds=rounds)
        assert float(done.rows) == w
