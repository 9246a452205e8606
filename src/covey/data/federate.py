"""Federated data from what a user has: arrays, a list of peers, torch Datasets, Hugging Face data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor

from covey.data.partition import Division, Labelled, Part, Plan, divide, hold_out_test
from covey.data.samples import Federated, Samples, Transform, starts_of
from covey.data.transform import guess_transform
from covey.errors import BadInput

Array = Tensor | np.ndarray[Any, Any]
TEST_FRACTION = 0.2
_MOST_CLASSES = 100_000


class Options(TypedDict, total=False):
    """The keywords of `federate` that all sources pass on."""

    peers: int | None
    partition: str
    seed: int
    samples: int | None
    test_samples: int | None
    reuse: bool
    classes: int | None
    transform: Transform | Literal["guess"] | None
    name: str


def federate(
    x_train: Array,
    y_train: Array,
    x_test: Array | None = None,
    y_test: Array | None = None,
    *,
    peers: int | None = None,
    partition: str = "iid",
    seed: int = 0,
    samples: int | None = None,
    test_samples: int | None = None,
    reuse: bool = False,
    users: Array | None = None,
    users_test: Array | None = None,
    classes: int | None = None,
    transform: Transform | Literal["guess"] | None = "guess",
    name: str = "arrays",
) -> Federated:
    """Divides samples among peers.

    partition: see `covey.data.partition`; "natural" makes a peer of each user that `users` names.
    samples, test_samples: at most so many per peer, in the peer's own mix of classes.
    reuse: issue the samples of a used-up class again, as some papers do; by default no two peers share one.
    x_test, y_test: where they are missing, a fifth of each user's samples, stratified, becomes the test set.
    transform: what makes numbers of x, a batch at a time; "guess" scales bytes that look like pictures to 0 … 1.

    Tensors keep their type; floating-point numpy arrays take torch's default type. Labels become int64.
    """
    x, y = tensors(x_train, y_train, "training")
    if len(y) == 0:
        raise BadInput("The training set is empty; give at least one sample per peer.")
    codes, codes_test = _user_codes(users, users_test)
    if x_test is None or y_test is None:
        if x_test is not None or y_test is not None or users_test is not None:
            raise BadInput("The test set is incomplete: give both x_test and y_test, or neither.")
        _check_length(codes, len(y), "users")
        kept, held = hold_out_test(TEST_FRACTION, Labelled(_codes(y), codes), seed)
        test_x, test_y = x[held], y[held]
        x, y = x[kept], y[kept]
        if codes is not None:
            codes, codes_test = codes[kept], codes[held]
    else:
        test_x, test_y = tensors(x_test, y_test, "test")
    _check_length(codes, len(y), "users")
    _check_length(codes_test, len(test_y), "users_test")
    _check_alike(x, test_x, y, test_y, "The test samples")
    count = _count_classes(y, test_y, classes)
    labels = (y, test_y) if count is not None else (torch.zeros(len(y)).long(), torch.zeros(len(test_y)).long())
    plan = Plan(peers, partition, seed, samples, test_samples, reuse)
    division = divide(plan, Labelled(labels[0], codes), Labelled(labels[1], codes_test), count)
    how = guess_transform(x) if transform == "guess" else transform
    whole = _assemble((x, y), (test_x, test_y), division, how, count, name, partition, seed)
    return whole if codes is None or codes_test is None else replace(whole, users=(codes, codes_test))


def from_peers(
    peers: Iterable[Sequence[Array]],
    *,
    classes: int | None = None,
    transform: Transform | Literal["guess"] | None = "guess",
    name: str = "peers",
) -> Federated:
    """Each peer brings its own (x_train, y_train, x_test, y_test)."""
    parts: list[tuple[Tensor, ...]] = []
    for i, own in enumerate(peers):
        if len(own) != 4:
            raise BadInput(f"Peer {i} brings {len(own)} arrays; give (x_train, y_train, x_test, y_test) for each peer.")
        train, test = tensors(own[0], own[1], f"training (peer {i})"), tensors(own[2], own[3], f"test (peer {i})")
        for (x, y), which in ((train, "training"), (test, "test")):
            if len(y) == 0:
                raise BadInput(f"Peer {i} has no {which} sample; every peer needs at least one.")
            first = parts[0] if parts else (x, y)
            _check_alike(first[0], x, first[1], y, f"The {which} samples of peer {i}")
        parts.append((*train, *test))
    if not parts:
        raise BadInput("There is no peer; give at least one (x_train, y_train, x_test, y_test).")
    x, y, test_x, test_y = (torch.cat([part[k] for part in parts]) for k in range(4))
    division = Division(_in_turn([len(part[1]) for part in parts]), _in_turn([len(part[3]) for part in parts]))
    how = guess_transform(x) if transform == "guess" else transform
    return _assemble((x, y), (test_x, test_y), division, how, _count_classes(y, test_y, classes), name, "given", None)


class MapDataset(Protocol):
    """A torch Dataset that knows its length: len(d), and d[i] -> (x, y)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


def from_dataset(train: MapDataset, test: MapDataset | None = None, **options: Unpack[Options]) -> Federated:
    """A pair of map-style torch Datasets; each is read once, so a random transform in it is drawn once, too."""
    return federate(
        *_read_dataset(train, "training"), *((None, None) if test is None else _read_dataset(test, "test")), **options
    )


def from_huggingface(
    dataset: str | Mapping[str, Any],
    x: str,
    y: str,
    user: str | None = None,
    train: str = "train",
    test: str | None = "test",
    **options: Unpack[Options],
) -> Federated:
    """A DatasetDict (or the name of one on the hub, which needs the package `datasets`) and its columns.

    `user` names a column for the partition "natural"; test=None holds a fifth of the training samples out.
    """
    splits: Mapping[str, Any] = from_hub(dataset) if isinstance(dataset, str) else dataset
    options.setdefault("name", dataset if isinstance(dataset, str) else "huggingface")

    def column(split: str, name: str) -> np.ndarray[Any, Any]:
        if split not in splits:
            raise BadInput(f"The data set has no part '{split}'; it has {', '.join(sorted(splits))}.")
        if name not in splits[split].column_names:
            raise BadInput(f"The data set has no column '{name}'; it has {', '.join(splits[split].column_names)}.")
        return stack([np.asarray(value) for value in splits[split][name]], f"column '{name}'")

    held = (None, None) if test is None else (column(test, x), column(test, y))
    return federate(
        column(train, x),
        column(train, y),
        *held,
        users=None if user is None else column(train, user),
        users_test=None if user is None or test is None else column(test, user),
        **options,
    )


def from_hub(name: str) -> Mapping[str, Any]:
    """The parts of a data set on the hub."""
    try:
        import datasets  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]
    except ImportError:
        raise BadInput(f"To fetch '{name}' from the hub, install the package `datasets`.") from None
    try:
        return datasets.load_dataset(name)  # pyright: ignore
    except Exception as problem:  # the package raises whatever its transport raises
        why = f"{type(problem).__name__}: {problem}"
        raise BadInput(f"'{name}' could not be fetched from the hub ({why}).") from problem


def _read_dataset(dataset: MapDataset, which: str) -> tuple[Array, Array]:
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise BadInput(f"The {which} Dataset must be map-style (len and indexing); read an iterable one into a list.")
    xs: list[np.ndarray[Any, Any]] = []
    ys: list[np.ndarray[Any, Any]] = []
    for i in range(len(dataset)):
        x, y = dataset[i]
        xs.append(np.asarray(x))
        ys.append(np.asarray(y))
    return stack(xs, f"{which} Dataset"), stack(ys, f"{which} Dataset")


def stack(rows: list[np.ndarray[Any, Any]], where: str) -> np.ndarray[Any, Any]:
    """One array of rows, which must be equal in shape."""
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        small, large = sorted(shapes)[0], sorted(shapes)[-1]
        raise BadInput(f"The samples of the {where} differ in shape ({small} and {large}); make them equal first.")
    if not rows:
        raise BadInput(f"The {where} is empty.")
    return np.stack(rows)


def tensors(x: Array, y: Array, which: str) -> tuple[Tensor, Tensor]:
    """Samples and labels as tensors of equal length; whole-number labels as int64."""
    inputs, labels = _tensor(x), _tensor(y)
    if inputs.ndim == 0 or labels.ndim == 0:
        raise BadInput(f"The {which} samples are a single number; give arrays whose first axis is the sample.")
    if len(inputs) != len(labels):
        raise BadInput(f"There are {len(inputs)} {which} samples but {len(labels)} labels; each sample needs one.")
    for values, what in ((inputs, "sample"), (labels, "label")):
        if (values.is_floating_point() or values.is_complex()) and not bool(values.isfinite().all()):
            first = int((~values.isfinite()).nonzero()[0, 0])
            raise BadInput(f"The {which} {what} number {first} holds a value that is not finite; clean the data first.")
    return inputs, labels if labels.is_floating_point() or labels.is_complex() else labels.long()


def _tensor(value: Array) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise BadInput(f"An array of type {array.dtype} holds no numbers; encode it as numbers first.")
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float64 if torch.get_default_dtype() == torch.float64 else np.float32))
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:  # torch can do little with these types
        array = array.astype(np.int64)
    return torch.from_numpy(array if array.flags.writeable and array.flags.c_contiguous else array.copy())


def _user_codes(users: Array | None, users_test: Array | None) -> tuple[Tensor | None, Tensor | None]:
    """Names or numbers of users as 0, 1, …, alike in both."""
    if users is None or users_test is None:
        if users is None and users_test is not None:
            raise BadInput("users_test is given without users.")
        return (None if users is None else torch.from_numpy(_unique(np.asarray(users)))), None
    both = _unique(np.concatenate([np.asarray(users), np.asarray(users_test)]))
    return torch.from_numpy(both[: len(users)]), torch.from_numpy(both[len(users) :])


def _unique(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if values.ndim != 1:
        raise BadInput(f"users must be a vector, one per sample; it has the shape {values.shape}.")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _codes(y: Tensor) -> Tensor:
    """What to stratify by: whole-number labels, else nothing."""
    return y if y.ndim == 1 and y.dtype == torch.int64 else torch.zeros(len(y), dtype=torch.int64)


def _check_length(users: Tensor | None, samples: int, which: str) -> None:
    if users is not None and len(users) != samples:
        raise BadInput(f"{which} has {len(users)} entries for {samples} samples; it needs one per sample.")


def _check_alike(x: Tensor, other_x: Tensor, y: Tensor, other_y: Tensor, who: str) -> None:
    for one, two, what in ((x, other_x, "inputs"), (y, other_y, "labels")):
        if one.shape[1:] != two.shape[1:] or one.dtype != two.dtype:
            raise BadInput(
                f"{who} have {what} of shape {tuple(two.shape[1:])} and type {two.dtype}, the others of shape "
                f"{tuple(one.shape[1:])} and type {one.dtype}; make them alike."
            )


def _count_classes(y: Tensor, test_y: Tensor, declared: int | None) -> int | None:
    """How many classes there are, or None where the labels are no classes."""
    if y.ndim != 1 or y.dtype != torch.int64 or len(y) == 0 or min(int(v.min()) for v in (y, test_y) if len(v)) < 0:
        if declared is not None:
            raise BadInput(f"classes={declared} is given, but the labels are not one whole number ≥ 0 per sample.")
        return None
    seen = max(int(v.max()) for v in (y, test_y) if len(v)) + 1
    if seen > _MOST_CLASSES:
        raise BadInput(f"A label {seen - 1} means {seen} classes; number the labels from 0, or make them floats.")
    if declared is not None and declared < seen:
        raise BadInput(f"classes={declared} is given, but there is a label {seen - 1}; labels run from 0.")
    return declared or seen


def _in_turn(counts: list[int]) -> Part:
    sizes = torch.tensor(counts)
    return Part(torch.arange(int(sizes.sum())), starts_of(sizes))


def _assemble(
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    division: Division,
    transform: Transform | None,
    classes: int | None,
    name: str,
    partition: str,
    seed: int | None,
) -> Federated:
    return Federated(
        Samples(train, division.train.index, division.train.starts, transform),
        Samples(test, division.test.index, division.test.starts, transform),
        classes=classes,
        name=name,
        partition=partition,
        seed=seed,
        moved=division.moved,
    )
