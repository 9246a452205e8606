"""Triggers, by hand: who speaks in which round."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from covey import SGD, compress, graphs, trigger
from covey.algorithms import DFedAvg, Local, SQuARM
from covey.exchange import Compressed
from covey.trigger import Trigger
from refusals import refused_in_one_sentence
from theory.problems import classifier, column, quadratic
from theory.rounds import Rounds, trajectory

GAP = torch.tensor([[0.0], [0.5], [1.0], [2.0]], dtype=torch.float64)


def speaks(which: Trigger, round: int, t: float, lr: float, gap: Tensor = GAP) -> list[bool]:
    ones = torch.ones(len(gap), 1, dtype=torch.float64)
    return which(gap, round, t * ones, lr * ones).flatten().tolist()


def test_always_never_every() -> None:
    assert all(speaks(trigger.always, 3, 1, 0.1)) and not any(speaks(trigger.never, 0, 1, 0.1))
    said = [speaks(trigger.every(3), t, 1, 0.1)[0] for t in range(7)]
    assert said == [False, False, True, False, False, True, False]


def test_a_norm_speaks_strictly_above_c_eta_squared() -> None:
    """c η² = 4 · 0.25 = 1: a gap of exactly 1 is silent; c = 0 and no gap at all is silent, too."""
    assert speaks(trigger.norm(4.0), 1, 0, 0.5) == [False, False, False, True]
    assert speaks(trigger.norm(0.0), 1, 0, 0.5) == [False, True, True, True]


def test_the_first_round_is_forced_or_not() -> None:
    assert all(speaks(trigger.norm(1e9), 0, 0, 0.5)) and not any(speaks(trigger.norm(1e9), 1, 0, 0.5))
    assert not any(speaks(trigger.norm(1e9, first=False), 0, 0, 0.5))


SCHEDULES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], dict[tuple[float, float], float]]] = {
    # 2.5, + 1.5 every 20 steps, at most 350
    "piecewise": (trigger.piecewise(2.5, 1.5, 20, 350.0),
                  {(0, 0.1): 2.5, (19, 0.1): 2.5, (20, 0.1): 4.0, (59, 0.1): 5.5,
                                                           (10_000, 0.1): 350.0}),
    # c₀ / η^{1 − ε} = 3 / √η
    "power": (trigger.power(3.0, 0.5), {(0, 0.25): 6.0, (9, 0.01): 30.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    schedule, expected = SCHEDULES[name]
    for (t, lr), c in expected.items():
        found = schedule(torch.tensor([[t]], dtype=torch.float64), torch.tensor([[lr]], dtype=torch.float64))
        assert float(found) == pytest.approx(c, rel=1e-14)
        above = torch.tensor([[c * lr**2 * 1.001], [c * lr**2 * 0.999]], dtype=torch.float64)
        assert speaks(trigger.norm(schedule), 1, t, lr, above) == [True, False]


def test_a_cap_holds_c_at_one_over_eta() -> None:
    """c = 50 at η = ¼: capped to 4, so what speaks is ‖·‖² > 4 / 16."""
    gap = torch.tensor([[0.24], [0.26], [3.0]], dtype=torch.float64)
    assert speaks(trigger.norm(50.0), 1, 0, 0.25, gap) == [False, False, False]
    assert speaks(trigger.norm(50.0, cap=True), 1, 0, 0.25, gap) == [False, True, True]
    assert speaks(trigger.norm(2.0, cap=True), 1, 0, 0.25, gap) == speaks(trigger.norm(2.0), 1, 0, 0.25, gap)


def test_who_took_no_step_has_no_threshold() -> None:
    """Before the first step the rate is 0, and c₀ / 0 · 0 is no number."""
    for which in (trigger.norm(4.0), trigger.norm(trigger.power(1.0, 0.5)), trigger.norm(4.0, cap=True)):
        assert speaks(which, 1, 0, 0.0) == [False, True, True, True]


def test_peers_have_thresholds_of_their_own() -> None:
    """Steps and rates are columns: 1 · ¼ and (1 + 3) · 1."""
    t, lr = torch.tensor([[0.0], [30.0]]), torch.tensor([[0.5], [1.0]])
    which = trigger.norm(trigger.piecewise(1.0, 1.0, 10))
    assert which(torch.tensor([[0.3], [3.9]]), 1, t, lr).tolist() == [[True], [False]]
    assert which(torch.tensor([[0.2], [4.1]]), 1, t, lr).tolist() == [[False], [True]]


# In a run ------------------------------------------------------------------------------------------------------------


def test_t_is_the_number_of_local_steps_and_eta_the_last_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []

    def schedule(t: Tensor, lr: Tensor) -> Tensor:
        seen.append((float(t[0]), float(lr[0])))
        return torch.zeros_like(t)

    method = SQuARM(SGD(lambda t: 1.0 / (t + 10), steps=5), compress.Sign(), 0.5, trigger.norm(schedule))
    Rounds(method, quadratic(column(1, 2, 3, 4)), graphs.ring(4)).go(4)
    assert seen == [(10, 1 / 19), (15, 1 / 24), (20, 1 / 29)]  # the first round is forced


def test_by_hand_who_is_heard() -> None:
    """F_i = ½(x − b_i)², b = (0, 0, 0, 8), η = ½, x⁰ = 0, and c η² = 1 (c = 4). Round 1: x = (0, 0, 0, 4), only
    4² > 1 speaks; x̂₃ = 4, and with γ = ¾ on the ring of thirds x = (1, 0, 1, 2). Round 2: half of it, (½, 0, ½, 5):
    gaps (¼, 0, ¼, 1): nobody speaks, for 1 is not above 1. Exchange with x̂ = (0, 0, 0, 4): x = (3/2, 0, 3/2, 3)."""
    b = column(0, 0, 0, 8)
    method = DFedAvg(SGD(0.5), by=Compressed(compress.Identity(), 0.75, trigger.norm(4.0, first=False)))
    run = Rounds(method, quadratic(b), graphs.ring(4))
    torch.testing.assert_close(run.go().models, column(1, 0, 1, 2), rtol=0, atol=1e-15)
    torch.testing.assert_close(run.go().models, column(1.5, 0, 1.5, 3), rtol=0, atol=1e-15)
    assert run.peers.state["spoke"].tolist() == [[0, 2], [0, 2], [0, 2], [1, 2]]


def test_per_tensor_each_tensor_speaks_for_itself() -> None:
    """Peers differ in the bias by far, in the weights not at all: with a trigger per tensor only the bias is said."""
    task = classifier((), heads=False)
    by = Compressed(compress.Identity(), 0.5, trigger.norm(1e12, per="tensor"))
    run = Rounds(DFedAvg(SGD(1e-9), by=by), task, graphs.ring(len(task.train)))
    run.go()  # the first round: all is said
    bias = run.peers.tensors("shared")[-1]
    run.train()
    before = run.peers.state["hat"].clone()
    run.peers.rows[2, bias] += 5.0
    run.exchange()
    moved = (run.peers.state["hat"] != before).nonzero()
    assert set(moved[:, 0].tolist()) == {2}
    assert set(moved[:, 1].tolist()) == set(range(bias.start, bias.stop))


SILENT = {"never": trigger.never, "an endless threshold": trigger.norm(1e300, first=False)}


@pytest.mark.parametrize("name", SILENT)
def test_silence_is_local(name: str) -> None:
    """SQuARM with c = ∞, and no forced first round, is Local with its momentum (6.1)."""
    step = SGD(0.2, steps=3, batch=5)
    method = SQuARM(step, compress.TopK(0.3), 0.7, SILENT[name], beta=0.0)
    task = classifier(())
    found = trajectory(method, task, graphs.ring(6), 4)
    assert torch.equal(found, trajectory(Local(step), task, graphs.isolated(6), 4))


def test_every_h_rounds_is_h_times_the_local_steps() -> None:
    """Where gossip is silent γ(W − I)X̂ still acts, unless it acts on nothing: W = I."""
    method = DFedAvg(SGD(0.1), by=Compressed(compress.Identity(), 1.0, trigger.every(3)))
    run = Rounds(method, quadratic(column(1, 2, 3, 10)), graphs.ring(4))
    hats = [run.go().peers.state["hat"].clone() for _ in range(6)]
    assert torch.equal(hats[0], hats[1]) and not torch.equal(hats[1], hats[2])
    assert torch.equal(hats[2], hats[4]) and not torch.equal(hats[4], hats[5])


WRONG = {
    "negative": (lambda: trigger.norm(-1.0), "a threshold is finite and 0 or more"),
    "nan": (lambda: trigger.norm(math.nan), "a threshold is finite and 0 or more"),
    "endless": (lambda: trigger.norm(math.inf), "a threshold is finite and 0 or more"),
    "every none": (lambda: trigger.every(0), "1 or more"),
    "every half": (lambda: trigger.every(1.5), "a whole number of rounds"),  # type: ignore[arg-type]
    "falling": (lambda: trigger.piecewise(1.0, -1.0, 10), "0 or more"),
    "negative start": (lambda: trigger.piecewise(-1.0, 1.0, 10), "0 or more"),
    "nan start": (lambda: trigger.piecewise(math.nan, 1.0, 10), "0 or more"),
    "most below start": (lambda: trigger.piecewise(5.0, 1.0, 10, 4.0), "most is at least start"),
    "every no step": (lambda: trigger.piecewise(1.0, 1.0, 0), "a whole number of steps"),
    "power 0": (lambda: trigger.power(1.0, 0.0), "eps lies between 0 and 1"),
    "power 1": (lambda: trigger.power(1.0, 1.0), "eps lies between 0 and 1"),
    "negative power": (lambda: trigger.power(-1.0, 0.5), "c0 is finite and 0 or more"),
    "a tensor of the whole": (lambda: Compressed(compress.TopK(3), 0.1, trigger.norm(1.0, per="tensor")), "per tensor"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_refused_in_one_sentence(name: str) -> None:
    refused_in_one_sentence(*WRONG[name])
