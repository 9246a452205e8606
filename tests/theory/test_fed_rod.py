"""Fed-RoD: balanced softmax, two heads on one input, and what reaches which of them (docs/papers.md, 3.9)."""

from __future__ import annotations

import math
from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import covey
from covey import SGD, BadInput, Task
from covey.algorithms import FedPer, FedRoD
from covey.graphs import server
from covey.tasks.two_heads import TwoHeads, TwoHeadTask, balanced
from theory.problems import classifier, random
from theory.recorded import recorded
from theory.rounds import Rounds

N, WIDTH, CLASSES, BATCH = 5, 4, 3, 4
LR = 0.3


def scores(value: tuple[float, ...]) -> nn.Linear:
    """A head that says these scores of every input."""
    head = nn.Linear(1, len(value), dtype=torch.float64)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(torch.tensor(value, dtype=torch.float64))
    return head


def pair(generic: tuple[float, ...], own: tuple[float, ...], counts: tuple[float, ...]) -> TwoHeads:
    heads = TwoHeads(scores(generic), len(counts), scores(own))
    heads.counts.copy_(torch.tensor(counts))
    return heads


INPUT = torch.ones(1, 1, dtype=torch.float64)


@pytest.mark.parametrize(("y", "expected"), [(0, 0.287682), (1, 1.386294)])
def test_balanced_softmax(y: int, expected: float) -> None:
    """Scores (0, 0), counts (3, 1): −ln 3/4 and ln 4. Equal counts are plain cross-entropy."""
    said = pair((0, 0), (0, 0), (3, 1))(INPUT)
    assert float(F.cross_entropy(said[:, 0], torch.tensor([y])).detach()) == pytest.approx(expected, abs=6e-7)
    even = pair((0.3, -1), (0, 0), (2, 2))(INPUT)[:, 0]
    plain = F.cross_entropy(torch.tensor([[0.3, -1.0]], dtype=torch.float64), torch.tensor([y]))
    assert float(F.cross_entropy(even, torch.tensor([y])).detach()) == pytest.approx(float(plain), abs=1e-15)


def test_an_absent_class_has_probability_zero_and_moves_nothing() -> None:
    """Counts (3, 0, 1): the softmax is that of the two others, and the absent score has gradient 0, not almost 0."""
    heads = pair((0.5, 9.0, -0.5), (0, 0, 0), (3, 0, 1))
    said = heads(INPUT)[:, 0]
    value = F.cross_entropy(said, torch.tensor([2]))
    odds = 3 * math.exp(0.5), math.exp(-0.5)
    assert float(value.detach()) == pytest.approx(-math.log(odds[1] / sum(odds)), abs=1e-14)
    (slope,) = torch.autograd.grad(value, [heads.generic.bias])
    assert slope.isfinite().all() and float(slope[1]) == 0.0 and float(slope[0]) > 0


def test_without_a_personal_say_both_predictions_are_one() -> None:
    heads = pair((0.5, 9.0, -0.5), (0, 0, 0), (3, 0, 1)).eval()
    assert heads(INPUT).tolist() == [[0.5, 9.0, -0.5]]  # no log n at test
    assert pair((1, 2, 3), (3, 1, 0), (1, 1, 1)).eval()(INPUT).tolist() == [[4.0, 3.0, 3.0]]


def parts() -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Unequal peers, of whom some lack a class."""
    found = []
    for i, size in enumerate((9, 7, 12, 5, 8)):
        x = random(size, WIDTH, seed=i)
        y = (x[:, 0] > 0).long() + (torch.arange(size) % 2 if i % 2 else 0)
        found.append((x, y, x, y))
    return found


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        layers = OrderedDict(body=nn.Linear(WIDTH, 6), bend=nn.Tanh(), head=nn.Linear(6, CLASSES))
        return nn.Sequential(layers).double()


def task(**how: object) -> Task:
    return Task.from_module(network(), recorded(parts()), personal="head", **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("chunk", [1, N])
def test_equals_a_naive_loop(chunk: int) -> None:
    """Two losses, two detached ends, three parts: written out with autograd for one peer at a time."""
    run = Rounds(FedRoD(SGD(LR, epochs=2, batch=BATCH)), task(), server(N, 3, seed=2), chunk=chunk)
    run.peers.grad()
    data = run.peers.task.train
    data.take()  # type: ignore[attr-defined]
    first = {name: value.detach().clone() for name, value in network().named_parameters()}
    shared = dict(first)
    own = [{name: first[f"head.{name}"] for name in ("weight", "bias")} for _ in range(N)]
    for _ in range(3):
        run.go()
        batches = data.take()  # type: ignore[attr-defined]
        here = [i for i in range(N) if batches[i]]
        assert len(here) == 3
        trained = []
        for i in here:
            x, y = parts()[i][:2]
            count = torch.bincount(y, minlength=CLASSES).double()
            w, g = dict(shared), own[i]
            for batch in batches[i]:
                w = {name: value.detach().requires_grad_() for name, value in w.items()}
                g = {name: value.detach().requires_grad_() for name, value in g.items()}
                z = torch.tanh(x[batch] @ w["body.weight"].T + w["body.bias"])
                generic = z @ w["head.weight"].T + w["head.bias"]
                likely = torch.where(count > 0, generic + count.clamp(min=1).log(), -torch.inf)
                (F.cross_entropy(likely, y[batch])).backward()
                personal = z.detach() @ g["weight"].T + g["bias"]
                (F.cross_entropy(generic.detach() + personal, y[batch])).backward()
                w = {name: value - LR * value.grad for name, value in w.items()}  # type: ignore[operator]
                g = {name: value - LR * value.grad for name, value in g.items()}  # type: ignore[operator]
            own[i] = {name: value.detach() for name, value in g.items()}
            trained.append(w)
        shared = {name: (sum(w[name] for w in trained) / 3).detach() for name in shared}  # type: ignore[union-attr]
        found = run.peers.task.layout.unpack(run.models)
        for i in range(N):
            for name in ("weight", "bias"):
                torch.testing.assert_close(found[f"head.own.{name}"][i], own[i][name], rtol=0, atol=1e-13)
                torch.testing.assert_close(found[f"head.generic.{name}"][i], shared[f"head.{name}"], rtol=0, atol=1e-13)
                torch.testing.assert_close(found[f"body.{name}"][i], shared[f"body.{name}"], rtol=0, atol=1e-13)


def test_body_and_generic_head_do_not_feel_the_personal_one() -> None:
    runs = [Rounds(FedRoD(SGD(LR, epochs=1, batch=BATCH)), task(), server(N, 3, seed=2)) for _ in range(2)]
    runs[1].peers.personal = runs[1].peers.personal + 0.7
    runs[1].peers.rows[:, runs[1].peers.task.layout.statistics["head.counts"].columns] -= 0.7
    for run in runs:
        run.go(3)
    assert torch.equal(runs[0].peers.shared, runs[1].peers.shared)
    assert not torch.equal(runs[0].peers.personal, runs[1].peers.personal)


def test_both_accuracies_are_reported_and_the_model_fits_the_users_module() -> None:
    """`generic` is o_G alone; a linear pair adds up to one layer, which says o_G + o_P."""
    run = covey.simulate(FedRoD(SGD(LR, epochs=2, batch=BATCH)), task(), server(N, 3), rounds=3, chunk=N)
    assert {"accuracy", "loss"} <= run.history[-1]["generic"].keys() and "generic" in run.summary()["accuracy"]
    assert run.history[-1]["generic"] != run.history[-1]["mixed"]
    x = random(7, WIDTH, seed=50)
    both = run.peers.task.layout.unpack(run.rows)
    for i in range(N):
        module = network()
        module.load_state_dict(run.state_dict(i))
        z = torch.tanh(x @ both["body.weight"][i].T + both["body.bias"][i])
        said = sum(z @ both[f"head.{head}.weight"][i].T + both[f"head.{head}.bias"][i] for head in ("generic", "own"))
        torch.testing.assert_close(module(x), said, rtol=0, atol=1e-12)


def test_class_counts_are_each_peers_own_and_never_move() -> None:
    run = Rounds(FedRoD(SGD(LR, epochs=1, batch=BATCH)), task().hold_out(0.3, 0), server(N)).go(2)
    counts = run.peers.task.layout.unpack(run.peers.rows)["head.counts"]
    assert torch.equal(counts, run.peers.task.data.class_counts().double())  # type: ignore[union-attr]
    assert bool((counts == 0).any()) and not bool((counts == counts[0]).all())


@pytest.mark.parametrize("hyper", [None, 3])
def test_scores_of_classes_that_nobody_has(hyper: int | None) -> None:
    """A module may be wider than the data: such a class has probability 0 in training, and its score never moves."""
    wide = nn.Sequential(OrderedDict(body=nn.Linear(WIDTH, 6), head=nn.Linear(6, CLASSES + 2))).double()
    task = Task.from_module(wide, recorded(parts()), personal="head")
    run = Rounds(FedRoD(SGD(LR, epochs=1, batch=BATCH), hyper), task, server(N)).go(2)
    found = run.peers.task.layout.unpack(run.peers.rows)
    assert torch.equal(found["head.counts"][:, CLASSES:], torch.zeros(N, 2, dtype=torch.float64))
    still = wide.head.bias.detach()[CLASSES:]  # type: ignore[union-attr]
    torch.testing.assert_close(found["head.generic.bias"][0, CLASSES:], still, rtol=0, atol=1e-15)  # averaged
    assert not torch.equal(found["head.generic.bias"][0, :CLASSES], wide.head.bias[:CLASSES])  # type: ignore[union-attr]


def test_a_hyper_network_makes_the_personal_heads() -> None:
    """Nothing trained is personal; peers of equal shares of classes have equal heads, others differ."""
    run = Rounds(FedRoD(SGD(LR, epochs=1, batch=BATCH), hyper=4), task(), server(N)).go(4)
    layout = run.peers.task.layout
    assert layout.trained("personal").start == layout.trained("personal").stop
    assert bool((run.peers.shared == run.peers.shared[:1]).all())
    x = random(1, WIDTH, seed=3)
    said = torch.stack([run.peers.task.predict_at(
        {n: v[i] for n, v in layout.unpack(run.peers.rows).items() if n in layout.parameters},
        {n: v[i] for n, v in layout.unpack(run.peers.rows).items() if n in layout.statistics}, x)[0]
        for i in range(N)])  # fmt: skip
    share = run.peers.task.data.class_counts().double()  # type: ignore[union-attr]
    share = share / share.sum(1, keepdim=True)
    for i in range(N):
        for j in range(i):
            assert torch.equal(share[i], share[j]) == torch.equal(said[i], said[j])
    before = torch.get_rng_state()
    TwoHeadTask(task(), hyper=4)
    assert torch.equal(before, torch.get_rng_state())


def test_it_begins_as_fedper_would_and_hyper_like_linear() -> None:
    """The personal head, and what the hyper-network makes, begin as copies of the head: o_G + o_P is twice o_G."""
    x = random(3, WIDTH, seed=9)
    plain = network()(x)
    for hyper in (None, 4):
        two = TwoHeadTask(task(), hyper)
        torch.testing.assert_close(two.module.eval()(x), 2 * plain, rtol=0, atol=1e-12)
        torch.testing.assert_close(two.module.train()(x)[:, 0], plain, rtol=0, atol=1e-12)  # counts are 1 there


class Middle(nn.Module):
    """`head` is a layer, but not what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(WIDTH, 6, dtype=torch.float64)
        self.head = nn.Linear(6, CLASSES, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.head(self.body(x)), dim=1)


REFUSED = {
    "function": (lambda: classifier(), "is a function"),
    "regression": (lambda: task(loss=lambda p, y: (p[:, 0] - y).square().mean()), "classification by cross-entropy"),
    "no head": (lambda: Task.from_module(network(), recorded(parts())), "name that layer"),
    "two parts": (lambda: Task.from_module(network(), recorded(parts()), personal=("head.weight", "body.bias")),
                  "does not name one submodule"),
    "not the last": (lambda: Task.from_module(Middle(), recorded(parts()), personal="head"), "is not a row of scores"),
    "the body": (lambda: Task.from_module(network(), recorded(parts()), personal="body"), "is not a row of scores"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(BadInput, match=words):
        FedRoD(SGD(LR)).prepare(make())


def test_hidden_units() -> None:
    with pytest.raises(BadInput, match="hyper=0"):
        FedRoD(SGD(LR), hyper=0).prepare(task())


def test_it_is_not_fedper_and_the_loss_has_both_terms() -> None:
    said = torch.stack([torch.zeros(2, 3), torch.ones(2, 3)], 1)
    assert float(balanced(said, torch.tensor([0, 1]))) == pytest.approx(2 * math.log(3), abs=1e-6)
    two, one = (Rounds(m(SGD(LR, epochs=1, batch=BATCH)), task(), server(N)).go(2) for m in (FedRoD, FedPer))
    a, b = (run.peers.task.layout.unpack(run.peers.rows)["body.weight"] for run in (two, one))
    assert float((a - b).abs().max()) > 1e-3
