"""The data sets that covey knows by name, and where they are looked for.

In this order: embedded in the package (digits) · the file <name>.npz in the folder that the environment variable
COVEY_DATA names · a download through the package `datasets`, where that is installed. Files hold plain arrays:

    mnist fashion_mnist     x_train, x_test uint8 [n, 28, 28]; y_train, y_test 0 … 9
    cifar10 cifar100        x_* uint8 [n, 32, 32, 3]; y_* 0 … 9 or 0 … 99 (the fine classes)
    tiny_imagenet           x_* uint8 [n, 64, 64, 3]; y_* 0 … classes - 1
    hapt                    x float32 [n, 128, 6]; y 1 … 12; user
    harbox                  x float32 [n, 900] (100 samples × 9 axes); y 0 … 4; user; or its own files (`harbox.py`)
    shakespeare             in shakespeare_roles.npz: text uint8 (all roles one after another), ends, role
    any path.npz            x_train, y_train, x_test, y_test[, user_train, user_test], or x, y[, user]

Sets with users are divided by user unless told otherwise; where there is no test set, a fifth of each user's samples is
held out, stratified by class. The windows of hapt overlap by half, so a test window
is no training window, but its two halves may well lie in two training windows: its accuracies are optimistic.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np

from covey.data import harbox
from covey.data.federate import federate, from_hub, from_peers, stack
from covey.data.samples import Federated, Transform
from covey.data.synthetic import synthetic
from covey.data.text import SYMBOLS, role_windows
from covey.data.transform import Images, Tokens
from covey.errors import BadInput, UnknownName

Arrays = dict[str, np.ndarray[Any, Any]]


def _as_stored(arrays: Arrays) -> Arrays:
    return arrays


def _from_one(arrays: Arrays) -> Arrays:
    return arrays | {"y": arrays["y"].astype(np.int64) - 1}


def _roles(arrays: Arrays) -> Arrays:
    return role_windows(arrays["text"], arrays["ends"])


@dataclass(frozen=True)
class Source:
    """One named set: its file, what turns its arrays into x and y, and its name and columns on the hub."""

    transform: Transform | Literal["guess"] | None = None
    classes: int | None = None
    file: str = ""  # without .npz; the name of the set unless given
    needs: tuple[str, ...] = ("x_train", "y_train", "x_test", "y_test")
    prepare: Callable[[Arrays], Arrays] = _as_stored
    hub: tuple[str, str, str, str] | None = None  # name, column of x, column of y, test split


_BY_USER = ("x", "y", "user")
_CIFAR_10 = Images("hwc", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
_CIFAR_100 = Images("hwc", (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
_TINY = Images("hwc", (0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821))
_SOURCES = {
    "digits": Source(Images("hw", (0.3049,), (0.3760,), top=16.0), 10),
    "mnist": Source(Images("hw", (0.1307,), (0.3081,)), 10, hub=("ylecun/mnist", "image", "label", "test")),
    "fashion_mnist": Source(
        Images("hw", (0.2860,), (0.3530,)), 10, hub=("zalando-datasets/fashion_mnist", "image", "label", "test")
    ),
    "cifar10": Source(_CIFAR_10, 10, hub=("uoft-cs/cifar10", "img", "label", "test")),
    "cifar100": Source(_CIFAR_100, 100, hub=("uoft-cs/cifar100", "img", "fine_label", "test")),
    "tiny_imagenet": Source(_TINY, hub=("zh-plus/tiny-imagenet", "image", "label", "valid")),
    "hapt": Source(classes=12, needs=_BY_USER, prepare=_from_one),
    "harbox": Source(classes=5, needs=_BY_USER),
    "shakespeare": Source(Tokens(), SYMBOLS, file="shakespeare_roles", needs=("text", "ends"), prepare=_roles),
}
NAMES = tuple(sorted([*_SOURCES, "synthetic"]))


def load(
    name: str,
    *,
    peers: int | None = None,
    partition: str | None = None,
    seed: int = 0,
    samples: int | None = None,
    test_samples: int | None = None,
    reuse: bool = False,
    download: bool = True,
) -> Federated:
    """A named set (or the path of an .npz file), divided among peers.

    partition: see `covey.data.partition`; the default is "natural" for sets with users (then `peers` may be left out)
    and "iid" for all others. The other keywords are those of `federate`; download=False never asks the network.
    """
    source, arrays = _obtain(name, peers, seed, samples or 0, test_samples or 0, download)
    x, y, x_test, y_test, users, users_test = _named(arrays, name)
    return federate(
        x,
        y,
        x_test,
        y_test,
        users=users,
        users_test=users_test,
        classes=source.classes,
        transform=source.transform,
        name=name,
        peers=peers,
        partition=partition or ("iid" if users is None else "natural"),
        seed=seed,
        samples=samples,
        test_samples=test_samples,
        reuse=reuse,
    )


def load_own(path: Path, classes: int | None = None) -> Federated:
    """The samples of one peer, from its own file, in the order in which they lie there. classes: of all peers
    together, where this one may lack some."""
    x, y, x_test, y_test, _, _ = _named(read_file(path), str(path))
    if x_test is None or y_test is None:
        return federate(x, y, peers=1, classes=classes, name=path.name)
    return from_peers([(x, y, x_test, y_test)], classes=classes, name=path.name)


def _obtain(
    name: str, peers: int | None, seed: int, samples: int, test_samples: int, download: bool
) -> tuple[Source, Arrays]:
    if name == "synthetic":
        if peers is None:
            raise BadInput("Say for how many peers to generate the synthetic set, as in peers=20.")
        each = max(125, 5 * samples // 4 + 2, 5 * test_samples)  # of which a fifth is for testing
        x, y, user = synthetic(peers, seed, each)
        return Source(classes=10), {"x": x.numpy(), "y": y.numpy(), "user": user.numpy()}
    if name.endswith(".npz"):
        return Source("guess"), read_file(Path(name).expanduser())
    if name not in _SOURCES:
        raise UnknownName("data set", name, NAMES)
    source = _SOURCES[name]
    arrays = _find(name, source, download)
    missing = [k for k in source.needs if k not in arrays]
    if missing:
        raise BadInput(f"The file of '{name}' lacks {', '.join(missing)}; it must hold {', '.join(source.needs)}.")
    return source, source.prepare(arrays)


def _find(name: str, source: Source, download: bool) -> Arrays:
    """Embedded, under COVEY_DATA, or from the network; else one sentence that says where was looked."""
    embedded = resources.files("covey.data") / f"{name}.npz"
    if embedded.is_file():
        with resources.as_file(embedded) as path:
            return read_file(path)
    folder, file = os.environ.get("COVEY_DATA"), f"{source.file or name}.npz"
    if folder:
        path = Path(folder).expanduser() / file
        if path.is_file():
            return read_file(path)
        if name == "harbox" and (path.parent / harbox.FOLDER).is_dir():
            return harbox.read_harbox(path.parent / harbox.FOLDER)
        looked = f"it is not at {path}"
    else:
        looked = "the environment variable COVEY_DATA names no folder to look in"
    remedy = f"put {file} (arrays {', '.join(source.needs)}) into the folder that COVEY_DATA names"
    if source.hub is None:
        raise BadInput(f"The data set '{name}' was not found: {looked}, and it cannot be downloaded; {remedy}.")
    if not download:
        raise BadInput(f"The data set '{name}' was not found: {looked}, and download=False; {remedy}.")
    try:
        return _download(source.hub)
    except BadInput as problem:
        raise BadInput(f"The data set '{name}' was not found: {looked}; {problem} Or {remedy}.") from problem


def _download(hub: tuple[str, str, str, str]) -> Arrays:
    name, x, y, test = hub
    splits = from_hub(name)
    arrays: Arrays = {}
    for part, split in (("train", "train"), ("test", test)):
        for key, column in (("x", x), ("y", y)):
            rows = [_pixels(value, grey="mnist" in name) for value in splits[split][column]]
            arrays[f"{key}_{part}"] = stack(rows, f"column '{column}'")
    return arrays


def _pixels(value: Any, grey: bool) -> np.ndarray[Any, Any]:
    """A picture as bytes (some of Tiny-ImageNet's are grey), a label as it is."""
    return np.asarray(value.convert("L" if grey else "RGB") if hasattr(value, "convert") else value)


def read_file(path: Path) -> Arrays:
    if not path.is_file():
        raise BadInput(f"There is no file {path}.")
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise BadInput(f"{path} cannot be read as an .npz file of plain arrays ({problem}).") from problem


_Array = np.ndarray[Any, Any]
_Optional = _Array | None


def _named(arrays: Arrays, name: str) -> tuple[_Array, _Array, _Optional, _Optional, _Optional, _Optional]:
    """x, y, x_test, y_test, users, users_test."""
    if "x" in arrays and "y" in arrays:
        return arrays["x"], arrays["y"], None, None, arrays.get("user"), None
    keys = ("x_train", "y_train", "x_test", "y_test", "user_train", "user_test")
    missing = [k for k in keys[:4] if k not in arrays]
    if missing:
        raise BadInput(
            f"'{name}' lacks {', '.join(missing)}; it must hold x_train, y_train, x_test, y_test, or x, y[, user]."
        )
    x, y, x_test, y_test = (arrays[k] for k in keys[:4])
    return x, y, x_test, y_test, arrays.get("user_train"), arrays.get("user_test")
