"""Machines of unequal strength: how many steps each peer takes, what that does to the average, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import covey
from covey import SGD, BadInput, Task, graphs
from covey.algorithms import DFedAlt, FedAvg, Local
from covey.peers import Peers
from covey.training.batches import Batches, Plan
from covey.training.pace import Pace
from engines.table import PEERS, task

FACTORS = torch.tensor([1.0, 3.0, 2.0, 5.0, 1.0, 4.0], dtype=torch.float64)  # peers of 12, 9, 12, 5, 20 and 8 samples


def trained(local: SGD, work: torch.Tensor | None, ids: torch.Tensor | None = None, chunk: int = 1) -> Peers:
    ids = torch.arange(PEERS) if ids is None else ids
    peers = Peers(task().select(ids), ids, PEERS, 3, "common", Pace.fixed(chunk), work)
    peers.begin(0, torch.ones(len(ids), dtype=torch.bool))
    peers.train(local)
    return peers


@pytest.mark.parametrize("local", [
    SGD(0.2, epochs=1, batch=4, momentum=0.9), SGD(0.2, steps=3, batch=4, momentum=0.9, nesterov=True),
    SGD(0.2, epochs=2), SGD(lambda t: 0.3 / (t + 1), epochs=1, batch=4), SGD(0.2, epochs=1, batch=5, momentum=0.9)],
    ids=["epochs", "steps", "all at once", "a rate per step", "smaller last batches"])  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 4, PEERS])
def test_each_peer_does_what_it_would_do_with_more_epochs(local: SGD, chunk: int) -> None:
    """Nobody notices what the others do: same batches, same momentum, for rows side by side and for a row alone."""
    together = trained(local, FACTORS[None], chunk=chunk)
    for i, factor in enumerate(FACTORS.int().tolist()):
        more = {"epochs": local.epochs * factor} if local.epochs is not None else {"steps": local.work * factor}
        alone = trained(replace(local, **more), None, torch.tensor([i]))
        torch.testing.assert_close(together.rows[i], alone.rows[0], rtol=1e-10, atol=1e-12)
        assert int(together.effort[i]) == int(alone.effort[0])
        hosted = trained(local, FACTORS[None], torch.tensor([i]))  # as on a network: the factor goes by who it is
        assert torch.equal(hosted.rows, alone.rows)


@pytest.mark.parametrize("chunk", [1, PEERS])
def test_a_part_of_an_epoch_is_whole_mini_batches(chunk: int) -> None:
    """12, 9, 12, 5, 20, 8 samples in batches of 4 (the rests of 1 have no variance): 3, 2, 3, 1, 5, 2 a pass."""
    half = trained(SGD(0.2, epochs=1, batch=4), torch.tensor([[0.5, 0.5, 1.5, 0.1, 0.5, 1.3]]), chunk=chunk)
    assert half.effort.tolist() == [2, 1, 5, 1, 3, 3]
    for i, steps in enumerate(half.effort.tolist()):
        alone = trained(SGD(0.2, steps=steps, batch=4), None, torch.tensor([i]))
        torch.testing.assert_close(half.rows[i], alone.rows[0], rtol=1e-10, atol=1e-12)


def test_who_does_less_waits_for_nobody() -> None:
    """As many rows go through the gradient as there are steps: none is padded, none repeated."""
    data, local = task().train, SGD(0.1, epochs=1, batch=4)
    for work in (FACTORS, FACTORS / 3):
        order = torch.argsort(data.counts, descending=True)
        plan = Plan.of(data.counts[order], local, 2, work[order])
        turns = list(Batches(plan, torch.arange(PEERS), order, data).of_chunk(slice(0, PEERS)))
        rows = sum(0 if turn.samples is None else len(turn.samples) for turn in turns)
        assert rows == int(plan.steps.sum()) < PEERS * int(plan.steps.max())


def quadratics() -> Task:
    b = torch.tensor([[0.0], [1.0], [4.0], [9.0], [2.0]], dtype=torch.float64)
    return Task.from_function(lambda p, d: 0.5 * (p["x"] - d).square().sum(), {"x": torch.zeros(1).double()}, b)


def test_unequal_work_biases_the_average_towards_those_who_do_more() -> None:
    """F_i = ½(x − b_i)²: τ steps go the share 1 − (1 − η)^τ of the way to b_i, and FedAvg ends where these shares
    weigh the b_i (Wang et al., *Tackling the objective inconsistency problem*, 2020): not at the mean of b."""
    shares = 1 - 0.9 ** torch.arange(1.0, 6.0, dtype=torch.float64)
    b = quadratics().train.everything(torch.arange(5))[0].flatten()
    run = covey.simulate(FedAvg(SGD(0.1)), quadratics(), graphs.server(5), rounds=400, evaluate_every=400,
                         work=covey.groups(5, (1, 2, 3, 4, 5)))  # fmt: skip
    expected = float((shares * b).sum() / shares.sum())
    assert run.params["x"].flatten().tolist() == pytest.approx([expected] * 5, abs=1e-12)
    assert abs(expected - float(b.mean())) > 0.1
    assert run.peers.effort.tolist() == [1, 2, 3, 4, 5]


def test_a_trace_begins_again() -> None:
    run = covey.simulate(Local(SGD(0.1)), quadratics(), graphs.isolated(5), rounds=5,
                         work=[[1, 1, 1, 1, 1], [2, 1, 1, 1, 3]])  # fmt: skip
    assert run.peers.state["steps/shared"].tolist() == [7, 5, 5, 5, 9]


def test_both_phases_and_the_count_of_steps_follow() -> None:
    method = DFedAlt(SGD(0.1, steps=2, batch=4), SGD(0.1, epochs=1, batch=4))
    run = covey.simulate(method, task(), graphs.ring(PEERS), rounds=1, work=FACTORS.tolist())
    assert run.peers.state["steps/personal"].tolist() == [2, 6, 4, 10, 2, 8]
    assert torch.equal(run.peers.state["steps/shared"], run.peers.steps(method.shared)[:, 0].long())
    assert run.settings["run"]["work"] == FACTORS.tolist()


@pytest.mark.parametrize(("work", "says"), [
    ([1.0, 2.0], "work has numbers for 2 peers, but the run has 5"), (0.0, "work=0 is out of range"),
    ([1, 1, -1, 1, 1], "work=-1 is out of range"), ("fast", "is no number")])  # fmt: skip
def test_refused_in_a_sentence(work: object, says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        covey.simulate(Local(SGD(0.1)), quadratics(), graphs.isolated(5), work=work)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
