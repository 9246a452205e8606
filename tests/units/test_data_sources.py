"""Where data come from: named sets, files, arrays, peers, Datasets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from covey.data import NAMES, Images, federate, from_dataset, from_huggingface, from_peers, load
from covey.data import sources as sources_module
from covey.data.synthetic import synthetic
from covey.data.text import encode, role_windows
from covey.errors import BadInput, UnknownName


def stored(name: str) -> None:
    folder = os.environ.get("COVEY_DATA")
    if not folder or not (Path(folder) / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz is not under COVEY_DATA")


def test_importing_the_data_needs_torch_and_numpy_only() -> None:
    code = (
        "import sys\n"
        "class No:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] in {'datasets', 'PIL', 'huggingface_hub', 'pandas', 'torchvision', 'sklearn'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import covey.data, covey.models\n"
        "covey.data.load('digits', peers=3)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_digits_are_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COVEY_DATA", raising=False)
    data = load("digits", peers=10, partition="dirichlet:0.1", seed=0)
    x, y = data.train.of(0)
    assert x.shape == (100, 1, 8, 8) and x.dtype == torch.float32 and y.dtype == torch.int64
    assert data.train.arrays[0].dtype == torch.uint8 and data.classes == 10
    x = data.train.pooled(torch.arange(1000))[0]
    assert float(x.mean()) == pytest.approx(0, abs=1e-3) and float(x.std()) == pytest.approx(1, abs=1e-3)
    assert data.describe()["partition"] == "dirichlet:0.1" and data.describe()["data_seed"] == 0


@pytest.mark.parametrize(
    ("name", "shape", "classes", "sizes"),
    [
        ("mnist", (1, 28, 28), 10, (60000, 10000)),
        ("fashion_mnist", (1, 28, 28), 10, (60000, 10000)),
        ("cifar10", (3, 32, 32), 10, (50000, 10000)),
        ("cifar100", (3, 32, 32), 100, (50000, 10000)),
        ("tiny_imagenet", (3, 64, 64), 50, (5000, 1000)),
    ],
)
def test_pictures(name: str, shape: tuple[int, ...], classes: int, sizes: tuple[int, int]) -> None:
    stored(name)
    data = load(name, peers=20)
    assert (len(data.train.index), len(data.test.index)) == sizes and data.classes == classes
    assert data.train.arrays[0].dtype == torch.uint8
    x, y = data.train.pooled(torch.arange(500))
    assert tuple(x.shape[1:]) == shape and int(y.max()) < classes
    assert x.mean((0, 2, 3)).abs().max() < 0.15 and (x.std((0, 2, 3)) - 1).abs().max() < 0.15


def test_hapt_is_divided_by_person() -> None:
    stored("hapt")
    data = load("hapt", seed=1)
    assert len(data) == 30 and data.classes == 12 and data.partition == "natural"
    with np.load(Path(os.environ["COVEY_DATA"]) / "hapt.npz") as file:
        people, labels, windows = file["user"].astype(int), file["y"].astype(int), file["x"]
    sizes = np.bincount(people)[1:]
    assert (data.train.counts + data.test.counts).tolist() == sizes.tolist()
    assert data.test.counts.tolist() == [round(0.2 * int(n)) for n in sizes]
    for person in (0, 29):
        whole = np.bincount(labels[people == person + 1] - 1, minlength=12)
        test = torch.bincount(data.test.of(person)[1], minlength=12).numpy()
        assert np.abs(test - 0.2 * whole).max() <= 1
    sums = torch.cat([data.train.arrays[0], data.test.arrays[0]]).double().sum((1, 2)).sort().values
    assert torch.equal(sums, torch.from_numpy(windows).double().sum((1, 2)).sort().values)  # each window once


def test_hapt_pooled_into_many_peers() -> None:
    """Drawing anew until every peer has 12 samples never ends here: some are moved, and that is on record."""
    stored("hapt")
    data = load("hapt", peers=128, partition="dirichlet_classes:0.1", seed=0)
    counts = data.train.counts
    assert len(data) == 128 and int(counts.min()) == 12 and int(counts.max()) > 300
    assert len(data.train.index.unique()) == len(data.train.index) == 8742
    assert 0 < data.moved == data.describe()["moved"] < 0.02 * 8742
    mine, pooled = data.class_counts().double(), data.class_counts().sum(0).double()
    assert float((mine.max(1).values / mine.sum(1)).mean()) > 0.6 > 2 * float(pooled.max() / pooled.sum())


def test_shakespeare_by_role() -> None:
    stored("shakespeare_roles")
    data = load("shakespeare", peers=10, seed=0, samples=50, test_samples=10)
    x, y = data.train.of(0)
    assert x.shape[1:] == (80,) and x.dtype == torch.int64 and int(x.max()) < 96 and data.classes == 96
    assert len(data) == 10 and y.ndim == 1 and data.train.arrays[0].dtype == torch.uint8


def test_windows_end_where_the_role_and_its_part_end() -> None:
    text = np.frombuffer(("a" * 50 + "b" * 50 + "c" * 5).encode(), np.uint8)
    found = role_windows(text, np.array([50, 100, 105]), window=4, stride=3)
    a, b = encode(np.frombuffer(b"ab", np.uint8))
    assert set(found["user_train"].tolist()) == {0, 1}  # the third role is too short
    for part, size in (("train", 40), ("test", 10)):
        for user, letter in ((0, a), (1, b)):
            mine = found[f"user_{part}"] == user
            assert (found[f"x_{part}"][mine] == letter).all() and (found[f"y_{part}"][mine] == letter).all()
            assert mine.sum() == len(range(0, size - 4, 3))


def test_characters_are_numbered() -> None:
    assert encode(np.frombuffer(b"\n ~A\x80", np.uint8)).tolist() == [0, 1, 95, 34, 1]


def test_synthetic_peers_do_not_depend_on_how_many_there_are() -> None:
    few, many = synthetic(3, seed=5), synthetic(8, seed=5)
    assert torch.equal(few[0], many[0][: 3 * 125]) and torch.equal(few[1], many[1][: 3 * 125])
    data = load("synthetic", peers=6, samples=300, test_samples=70)
    assert data.train.counts.tolist() == [300] * 6 and data.test.counts.tolist() == [70] * 6 and data.classes == 10
    assert len(load("synthetic", peers=4, partition="dirichlet:1")) == 4


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    x, y, user = np.random.default_rng(0).random((40, 3)), np.arange(40) % 2, np.repeat(["ann", "bo"], 20)
    np.savez(tmp_path / "mine.npz", x=x, y=y, user=user)
    data = load(str(tmp_path / "mine.npz"))
    assert len(data) == 2 and data.train.counts.tolist() == [16, 16] and data.train.arrays[0].dtype == torch.float32
    np.savez(tmp_path / "halves.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    assert load(str(tmp_path / "halves.npz"), peers=4).train.counts.tolist() == [10] * 4
    np.savez(tmp_path / "poor.npz", x_train=x)
    with pytest.raises(BadInput, match="lacks y_train, x_test, y_test"):
        load(str(tmp_path / "poor.npz"), peers=2)
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(BadInput, match="cannot be read"):
        load(str(tmp_path / "broken.npz"), peers=2)
    with pytest.raises(BadInput, match="There is no file"):
        load(str(tmp_path / "none.npz"), peers=2)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", x=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(BadInput, match="plain arrays"):
        load(str(tmp_path / "evil.npz"), peers=1)


def test_a_missing_set_says_where_was_looked_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVEY_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=r"not at .*mnist\.npz, and download=False; put mnist\.npz"):
        load("mnist", peers=2, download=False)
    with pytest.raises(BadInput, match=r"harbox.*cannot be downloaded; put harbox\.npz \(arrays x, y, user\)"):
        load("harbox")
    monkeypatch.delenv("COVEY_DATA")
    with pytest.raises(BadInput, match=r"COVEY_DATA names no folder"):
        load("harbox")
    np.savez(tmp_path / "harbox.npz", x=np.zeros((4, 900)), y=np.zeros(4))
    monkeypatch.setenv("COVEY_DATA", str(tmp_path))
    with pytest.raises(BadInput, match="lacks user"):
        load("harbox")


def test_a_set_that_is_nowhere_else_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVEY_DATA", str(tmp_path))
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    pictures = [image.fromarray(np.full((28, 28), i, np.uint8)) for i in range(12)]
    half = {"image": pictures, "label": [i % 10 for i in range(12)]}
    monkeypatch.setattr(sources_module, "from_hub", lambda name: {"train": half, "test": half})
    data = load("mnist", peers=2)
    assert data.train.arrays[0].shape == (12, 28, 28) and data.train.arrays[0].dtype == torch.uint8

    def fail(name: str) -> Mapping[str, Any]:
        raise BadInput("No network.")

    monkeypatch.setattr(sources_module, "from_hub", fail)
    with pytest.raises(BadInput, match=r"not at .*; No network\. Or put mnist\.npz"):
        load("mnist", peers=2)


def test_names() -> None:
    assert set(NAMES) == {
        "cifar10", "cifar100", "digits", "fashion_mnist", "hapt", "harbox", "mnist", "shakespeare", "synthetic",
        "tiny_imagenet",
    }  # fmt: skip
    with pytest.raises(UnknownName, match="did you mean 'mnist'"):
        load("minst", peers=2)
    with pytest.raises(BadInput, match="Say among how many peers"):
        load("digits")
    with pytest.raises(BadInput, match="how many peers to generate"):
        load("synthetic")


def test_arrays_become_tensors() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((30, 4)), np.arange(30, dtype=np.uint8) % 3
    data = federate(x, y, x, y, peers=3, name="mine")
    assert data.train.arrays[0].dtype == torch.float32 and data.train.arrays[1].dtype == torch.int64
    assert data.name == "mine" and data.classes == 3 and data.train.transform is None
    doubles = torch.from_numpy(x)
    assert federate(doubles, torch.from_numpy(y), peers=3).train.arrays[0].dtype == torch.float64
    pictures = (x[:, :, None] * 255).astype(np.uint8)
    data = federate(pictures, y, pictures, y, peers=3)
    assert data.train.transform == Images("hw") and data.train.of(0)[0].shape == (10, 1, 4, 1)
    assert federate(pictures, y, pictures, y, peers=3, transform=None).train.of(0)[0].dtype == torch.uint8
    assert federate(x, y.astype(np.uint16), x, y, peers=3).classes == 3
    assert federate(x, y, x, y, peers=3, classes=7).classes == 7


def test_arrays_that_do_not_fit_are_refused() -> None:
    x, y = torch.zeros(10, 2), torch.zeros(10).long()
    for arguments, options, says in [
        ((x, y[:9], x, y), {}, "10 training samples but 9 labels"),
        ((x, y, x, y[:9]), {}, "10 test samples but 9 labels"),
        ((x, y, x[:, :1], y), {}, r"shape \(1,\)"),
        ((x, y, x.double(), y), {}, "float64"),
        ((x, y, x, y.double()), {}, "labels"),
        ((x, y, x), {}, "give both x_test and y_test, or neither"),
        ((x, y, x, y), {"users": y[:4]}, "users has 4 entries"),
        ((x, y, x, y), {"users_test": y}, "without users"),
        ((x, y, x, y), {"classes": 0}, "label 0"),
        ((x, y - 1, x, y), {"classes": 3}, "no|not one whole"),
        ((np.array(["a"] * 10), y, x, y), {}, "holds no numbers"),
        ((torch.tensor(1.0), y, x, y), {}, "single number"),
        ((x, y, x[:0], y[:0]), {}, "no test sample"),
    ]:
        with pytest.raises(BadInput, match=says):
            federate(*arguments, peers=2, **options)  # type: ignore[arg-type]


def test_peers_bring_their_own() -> None:
    own = [
        (torch.full((n, 2), float(n)), torch.arange(n), torch.full((2, 2), float(-n)), torch.arange(2)) for n in (3, 5)
    ]
    data = from_peers(own)
    assert data.train.counts.tolist() == [3, 5] and data.test.counts.tolist() == [2, 2] and data.classes == 5
    for i, (x, y, x_test, y_test) in enumerate(own):
        assert torch.equal(data.train.of(i)[0], x) and torch.equal(data.train.of(i)[1], y)
        assert torch.equal(data.test.of(i)[0], x_test) and torch.equal(data.test.of(i)[1], y_test)
    x, y, x_test, y_test = own[0]
    for peers, says in [
        ([], "There is no peer"),
        ([(x, y)], "Peer 0 brings 2 arrays"),
        ([own[0], (x[:0], y[:0], x_test, y_test)], "Peer 1 has no training sample"),
        ([own[0], (x, y, x_test[:0], y_test[:0])], "Peer 1 has no test sample"),
        ([own[0], (x[:, :1], y, x_test[:, :1], y_test)], "training samples of peer 1 have inputs of shape"),
        ([own[0], (x, y[:2], x_test, y_test)], "3 training .peer 1. samples but 2 labels"),
    ]:
        with pytest.raises(BadInput, match=says):
            from_peers(peers)  # type: ignore[arg-type]


def test_torch_datasets() -> None:
    x, y = torch.arange(40.0).reshape(20, 2), torch.arange(20) % 4
    whole = torch.utils.data.TensorDataset(x, y)
    data = from_dataset(whole, whole, peers=4, partition="iid", seed=1)
    assert torch.equal(data.train.arrays[0], x) and torch.equal(data.train.arrays[1], y)
    assert len(from_dataset(whole, peers=4).test.index) == 4
    with pytest.raises(BadInput, match="map-style"):
        from_dataset(iter([1]), peers=1)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="differ in shape"):
        from_dataset([(torch.zeros(1), 0), (torch.zeros(2), 1)], peers=1)  # type: ignore[arg-type]


def test_hugging_face_data_sets() -> None:
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    half = datasets.Dataset.from_dict(
        {"v": [[float(i), 1.0] for i in range(12)], "l": [i % 3 for i in range(12)], "who": list("abab" * 3)}
    )
    both = datasets.DatasetDict({"train": half, "test": half})
    data = from_huggingface(both, x="v", y="l", peers=3, partition="pathological:1")
    assert len(data) == 3 and data.classes == 3 and data.train.of(0)[0].shape == (4, 2)
    assert len(from_huggingface(both, "v", "l", user="who", partition="natural")) == 2
    assert len(from_huggingface(both, "v", "l", test=None, peers=2).test.index) == 2
    with pytest.raises(BadInput, match="no column 'w'; it has v, l, who"):
        from_huggingface(both, x="w", y="l", peers=2)
    with pytest.raises(BadInput, match="no part 'valid'; it has test, train"):
        from_huggingface(both, "v", "l", test="valid", peers=2)
