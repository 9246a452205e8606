"""Any module of the user's, unchanged: what it may contain, and what comes back out."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

import covey
from covey import SGD, Task, algorithms, graphs
from covey.peers import Peers
from covey.training.pace import Pace


def data(peers: int = 4, width: int = 5, size: int = 12) -> covey.data.Federated:
    generator = torch.Generator().manual_seed(0)
    parts = []
    for _ in range(peers):
        x = torch.randn(size + 4, width, generator=generator)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
        parts.append((x[:size], y[:size], x[size:], y[size:]))
    return covey.data.from_peers(parts)


def run(module: nn.Module, chunk: int | None = None) -> covey.Run:
    task = Task.from_module(module, data(), personal="head")
    method = algorithms.DFedAvgMP(SGD(0.1, steps=4, batch=4, momentum=0.9))
    return covey.simulate(method, task, graphs.ring(4), rounds=3, seed=1, chunk=chunk)


class Headed(nn.Module):
    def __init__(self, body: nn.Module, width: int = 6) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class Branching(nn.Module):
    """Cannot be stacked: it looks at the numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return y if y.sum().item() > 0 else -y


class InPlace(nn.Module):
    """Writes into what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        x -= 1.0
        return self.linear(x)


class Tied(nn.Module):
    """One weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(5, 5, bias=False)
        self.down = nn.Linear(5, 5, bias=False)
        self.down.weight = self.up.weight
        self.out = nn.Linear(5, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.down(self.up(x).relu()))


class Sequence(nn.Module):
    """Recurrent: fused kernels that vmap does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 6, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x[:, :, None])[0][:, -1]


BODIES = {
    "plain": lambda: nn.Sequential(nn.Linear(5, 6), nn.Tanh()),
    "batch norm": lambda: nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU()),
    "group norm": lambda: nn.Sequential(nn.Linear(5, 6), nn.GroupNorm(2, 6), nn.ReLU()),
    "dropout": lambda: nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.3)),
    "branching": Branching,
    "in place": InPlace,
    "tied": Tied,
    "recurrent": Sequence,
}


@pytest.mark.parametrize("name", BODIES)
def test_every_kind_of_module_trains_alike_in_any_chunk(name: str) -> None:
    torch.manual_seed(0)
    module = Headed(BODIES[name]())
    first = {k: v.clone() for k, v in module.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = run(module)
        alone = run(module, chunk=1)
    torch.testing.assert_close(measured.rows, alone.rows, rtol=2e-4, atol=2e-5)
    assert all(torch.equal(first[k], v) for k, v in module.state_dict().items()), "the user's module is untouched"
    assert alone.history[-1]["train_loss"] < alone.history[0]["train_loss"]


@pytest.mark.parametrize("name", BODIES)
def test_one_peer_equals_a_plain_loop(name: str) -> None:
    """Whole-batch steps against torch.optim, on a module of the same start."""
    if name == "dropout":
        pytest.skip("its masks are keyed by peer, not by torch's generator")
    torch.manual_seed(0)
    module = Headed(BODIES[name]())
    parts = data()
    task = Task.from_module(module, parts, personal="head")
    peers = Peers(task, torch.arange(4), 4, pace=Pace.fixed(1))
    peers.train(SGD(0.1, steps=5, momentum=0.9, nesterov=True, weight_decay=0.01))
    for peer in range(4):
        x, y = parts.train.of(peer)
        optimiser = torch.optim.SGD(module.parameters(), 0.1, 0.9, nesterov=True, weight_decay=0.01)
        before = {k: v.clone() for k, v in module.state_dict().items()}
        module.train()
        for _ in range(5):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(x.clone()), y).backward()
            optimiser.step()
        ours = task.state_dict(peers.rows[peer])
        for key, value in module.state_dict().items():
            if "num_batches" not in key:
                torch.testing.assert_close(ours[key], value, rtol=1e-5, atol=1e-6)
        module.load_state_dict(before)


def test_in_place_modules_do_not_touch_the_data() -> None:
    parts = data()
    before = parts.train.arrays[0].clone()
    task = Task.from_module(Headed(InPlace()), parts, personal="head")
    covey.simulate(algorithms.Local(SGD(0.1, steps=3)), task, graphs.isolated(4), rounds=2, chunk=1)
    assert torch.equal(parts.train.arrays[0], before)


def test_what_cannot_be_stacked_is_said() -> None:
    with pytest.warns(UserWarning, match="one at a time"):
        run(Headed(Branching()))


@pytest.mark.parametrize("name", ["plain", "batch norm", "tied", "recurrent"])
def test_an_exported_model_predicts_as_in_the_run(name: str) -> None:
    torch.manual_seed(0)
    module = Headed(BODIES[name]())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = run(module)
    fresh = Headed(BODIES[name]())
    fresh.load_state_dict(done.state_dict(2))
    x, y = data().test.of(2)
    accuracy = (fresh.eval()(x).argmax(1) == y).double().mean()
    assert float(accuracy) == pytest.approx(float(done.scores["mixed"].values["accuracy"][2]))


@pytest.mark.parametrize("policy", ["group", "personal"])
def test_statistics_follow_their_policy(policy: str) -> None:
    """Running means of a shared BatchNorm are averaged with neighbours, or stay at home."""
    torch.manual_seed(0)
    module = Headed(BODIES["batch norm"]())
    task = Task.from_module(module, data(), personal="head", statistics=policy)  # type: ignore[arg-type]
    done = covey.simulate(algorithms.DFedAvgMP(SGD(0.1, steps=2)), task, graphs.full(4), rounds=2)
    means = done.params["body.1.running_mean"]
    assert means.abs().sum() > 0
    assert bool((means == means[0]).all()) == (policy == "group")


def test_a_second_look_at_a_batch_does_not_move_statistics() -> None:
    """SAM passes twice over a batch; momentum 0.1 of BatchNorm applies once."""
    torch.manual_seed(0)
    module = Headed(BODIES["batch norm"]())
    task = Task.from_module(module, data(), personal="head")
    means = []
    for sam in (0.0, 0.05):
        for chunk in (1, 4):
            peers = Peers(task, torch.arange(4), 4, pace=Pace.fixed(chunk))
            peers.train(SGD(0.1, steps=1, sam=sam))
            means.append(peers.task.layout.unpack(peers.rows)["body.1.running_mean"].clone())
    for other in means[1:]:
        torch.testing.assert_close(other, means[0])
    before = peers.rows.clone()
    peers.grad()
    assert torch.equal(peers.rows, before)


def test_both_thread_counts_agree() -> None:
    before = torch.get_num_threads()
    rows = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            rows.append(run(Headed(BODIES["plain"]()), chunk=4).rows)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(rows[0], rows[1], rtol=1e-5, atol=1e-6)


def test_init_says_what_differs_at_the_start() -> None:
    task = Task.from_module(Headed(BODIES["plain"]()), data(), personal="head")
    for init, body_differs, head_differs in (("common", 0, 0), ("heads", 0, 1), ("all", 1, 1)):
        peers = Peers(task, torch.arange(4), 4, seed=3, init=init)  # type: ignore[arg-type]
        for rows, differs in ((peers.shared, body_differs), (peers.personal, head_differs)):
            assert bool((rows[1:] != rows[0]).any()) == bool(differs)
        again = Peers(task.select(torch.tensor([2])), torch.tensor([2]), 4, seed=3, init=init)  # type: ignore[arg-type]
        assert torch.equal(again.rows[0], peers.rows[2])
