"""How alike peers are: cosines by hand, what counts, and what a run leaves."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import covey
from covey import SGD, Task, algorithms, graphs
from covey.measure.similarity import cosines, in_short, similarities
from engines.table import PEERS, task


def test_cosines_by_hand() -> None:
    root = 1 / math.sqrt(2)
    rows = torch.tensor([[2, 0], [1, 1], [0, 3], [-1, 0]], dtype=torch.float64)
    wanted = torch.tensor([[1, root, 0, -1], [root, 1, root, -root], [0, root, 1, 0], [-1, -root, 0, 1]]).double()
    torch.testing.assert_close(cosines(rows), wanted, rtol=0, atol=1e-7)
    torch.testing.assert_close(cosines(7 * rows), cosines(rows))
    found = cosines(torch.tensor([[1.0, 2.0], [0.0, 0.0]]))
    assert found[0, 0] == pytest.approx(1) and found[1].isnan().all() and found[0, 1].isnan()


def test_cosines_of_long_rows_are_those_of_torch() -> None:
    rows = torch.randn(3, 150_000, generator=torch.Generator().manual_seed(0))
    rows[1] += rows[0]
    for i in range(3):
        for j in range(3):
            wanted = torch.cosine_similarity(rows[i].double(), rows[j].double(), dim=0)
            torch.testing.assert_close(cosines(rows)[i, j], wanted)


def test_each_matrix_is_of_its_own_columns_and_statistics_do_not_count() -> None:
    own = task()
    rows = torch.randn(PEERS, own.layout.width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = similarities(own, rows)
    assert set(before) == {"labels", "heads", "representations"}
    named = own.layout.unpack(rows)
    heads = torch.cat([named["head.weight"].flatten(1), named["head.bias"]], dim=1)
    torch.testing.assert_close(before["heads"], torch.cosine_similarity(heads[:, None], heads[None], dim=2))
    counts = [torch.bincount(own.data.train.of(i)[1], minlength=3).double() for i in range(PEERS)]  # type: ignore[union-attr]
    torch.testing.assert_close(before["labels"][1, 4], torch.cosine_similarity(counts[1], counts[4], dim=0))
    named["body.1.running_mean"] += 100.0
    after = similarities(own, rows)
    assert all(torch.equal(before[name], after[name]) for name in before)
    named["head.bias"] += 100.0
    after = similarities(own, rows)
    assert torch.equal(after["representations"], before["representations"])
    assert bool((after["heads"] > 0.9).all())


def test_what_does_not_exist_is_left_out() -> None:
    whole = task().whole()
    rows = whole.start(torch.arange(PEERS), 0, "common")
    assert set(similarities(whole, rows)) == {"labels", "representations"}
    function = Task.from_function(lambda p, b: (p["x"] - b).square().sum(), {"x": torch.zeros(2)}, torch.ones(3, 2))
    assert set(similarities(function, torch.ones(3, 2))) == {"representations"}


def test_in_short() -> None:
    def symmetric(a: float, b: float, c: float) -> torch.Tensor:
        return torch.tensor([[1, a, b], [a, 1, c], [b, c, 1]], dtype=torch.float64)

    labels, heads = symmetric(0.0, 0.5, 1.0), symmetric(0.2, 0.3, 0.4)
    found = in_short({"labels": labels, "heads": heads, "representations": symmetric(1, 1, 1)})
    wanted = {"labels": 0.5, "heads": 0.3, "representations": 1.0, "heads_with_labels": 1.0}
    assert found == pytest.approx(wanted)
    assert in_short({"labels": labels, "heads": -heads})["heads_with_labels"] == pytest.approx(-1)
    assert math.isnan(in_short({"labels": symmetric(1, 1, 1), "heads": heads})["heads_with_labels"])
    assert math.isnan(in_short({"labels": torch.ones(2, 2), "heads": torch.ones(2, 2)})["heads_with_labels"])


def test_a_run_leaves_its_matrices(tmp_path: Path) -> None:
    method = algorithms.DFedAlt(SGD(0.1, steps=2, batch=4), SGD(0.1, batch=4))
    run = covey.simulate(method, task(), graphs.ring(PEERS), 2, out=tmp_path / "run", similarity=True, init="heads")
    stored = np.load(tmp_path / "run" / "similarity.npz")
    assert set(stored.files) == {"labels", "heads", "representations"}
    for name in stored.files:
        assert stored[name].shape == (PEERS, PEERS) and np.allclose(stored[name], run.similarity[name].numpy())
        assert np.allclose(stored[name], stored[name].T) and np.allclose(np.diag(stored[name]), 1)
    assert run.summary()["similarity"] == in_short(run.similarity)
    without = covey.simulate(method, task(), graphs.ring(PEERS), 1, out=tmp_path / "other")
    assert not (tmp_path / "other" / "similarity.npz").exists() and "similarity" not in without.summary()


def test_heads_follow_labels_and_representations_agree() -> None:
    """Figure 3 of DePRL in small: heads of unlike peers differ as their classes do, representations hardly."""
    data = covey.data.load("digits", peers=10, partition="pathological:3", samples=30)
    own = Task.from_module(covey.models.mlp(64, 20, 10), data, personal="head")
    method = algorithms.DePRL(SGD(0.1, epochs=2, batch=10), SGD(0.1, epochs=1, batch=10))
    run = covey.simulate(method, own, graphs.ring(10), 10, evaluate_every=10, similarity=True)
    found = run.summary()["similarity"]
    assert found["heads_with_labels"] > 0.8 and found["representations"] > 0.95 > found["heads"]
