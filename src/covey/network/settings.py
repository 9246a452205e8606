"""peer.toml: all that one peer of a run is told. Relative paths begin where the file lies.

    name = "north"                          one of the roster
    roster = ["north", "east", "south"]     every peer of the run, in the order that all of them write

    [run]        rounds, graph, seed, …     alike at every peer
    [algorithm]  name, lr, epochs, …        in the words of `covey run`, alike at every peer
    [model]      name or entry              alike at every peer
    [data]       file or entry              this peer's own
    [identity]   key, certificate, …        see `covey peer init`
    [network]    folder, listen, status, …
    [[neighbours]]  name, fingerprint, address; without an address the neighbour dials

An entry is "package.module:function", a function without arguments: of data, (x, y, x_test, y_test); of a model, a
`torch.nn.Module`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from covey.errors import BadInput
from covey.network.addresses import is_loopback, split_address
from covey.network.names import require_name
from covey.network.tables import read_table

_FINGERPRINT = re.compile("sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class RunTable:
    """Alike at every peer."""

    rounds: int
    graph: str = "ring"  # a name of `covey list graphs`
    seed: int = 0
    init: Literal["common", "heads", "all"] = "common"
    evaluate_every: int = 1
    allow_unsound: bool = False
    device: str = "cpu"
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class DataTable:
    """This peer's own samples."""

    file: Path | None = None  # .npz with x_train, y_train, x_test, y_test, or x, y
    entry: str | None = None
    classes: int | None = None  # how many there are at all peers together
    labels: tuple[str, ...] = ()  # their names, in the order of their numbers


@dataclass(frozen=True, kw_only=True)
class ModelTable:
    name: str | None = None  # a name of `covey list models`
    entry: str | None = None
    personal: tuple[str, ...] | None = None  # prefixes of what stays here; by default the head


@dataclass(frozen=True, kw_only=True)
class IdentityTable:
    key: Path
    certificate: Path
    authority: Path  # of whom this peer believes
    revoked: Path | None = None  # fingerprints, one a line, that are refused whatever their certificates say


@dataclass(frozen=True, kw_only=True)
class NetworkTable:
    folder: Path  # what the run writes: its state, metrics and the audit log
    listen: str | None = None  # host:port; without it this peer only dials
    status: str = "127.0.0.1:0"  # where `covey peer status` and Prometheus ask; port 0: any
    patience: float = 30.0  # the least seconds that a connected neighbour is given
    grace: float = 0.0  # the least seconds that a neighbour whose connection fell is given to come back
    plaintext: bool = False  # no TLS, between processes of this machine, to try something


@dataclass(frozen=True, kw_only=True)
class NeighbourTable:
    name: str
    fingerprint: str = ""
    address: str | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One peer.toml."""

    name: str
    roster: tuple[str, ...]
    run: RunTable
    algorithm: Mapping[str, Any]
    model: ModelTable
    data: DataTable
    network: NetworkTable
    identity: IdentityTable | None = None
    neighbours: tuple[NeighbourTable, ...] = field(default=())


def read_settings(path: Path) -> Settings:
    """The settings that a file holds; the first mistake in it is the sentence of the error."""
    try:
        given = tomllib.loads(path.read_text())
    except OSError as problem:
        raise BadInput(f"{path} cannot be read ({problem.strerror}).") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadInput(f"{path} is not TOML: {problem}.") from problem
    try:
        settings = read_table(Settings, given, "the file", path.absolute().parent)
        _check(settings)
    except BadInput as problem:
        raise BadInput(f"{path}: {problem}") from problem
    return settings


def _check(settings: Settings) -> None:
    _check_names(settings)
    run, data, model = settings.run, settings.data, settings.model
    if run.rounds < 1 or run.evaluate_every < 1 or (run.threads is not None and run.threads < 1):
        raise BadInput("rounds, evaluate_every and threads in [run] must be 1 or more.")
    if not isinstance(settings.algorithm.get("name"), str):
        raise BadInput("[algorithm] lacks 'name', which is a name of `covey list algorithms`.")
    for table, here in (("[data]", (data.file, data.entry)), ("[model]", (model.name, model.entry))):
        if sum(one is not None for one in here) != 1:
            first = "file" if table == "[data]" else "name"
            raise BadInput(f"{table} wants one of '{first}' and 'entry'.")
    if data.labels and data.classes not in (None, len(data.labels)):
        raise BadInput(f"[data] says classes = {data.classes}, and names {len(data.labels)} labels.")
    if settings.network.patience <= 0:
        raise BadInput(f"patience = {settings.network.patience} in [network] must be above 0 seconds.")
    if settings.network.grace < 0:
        raise BadInput(f"grace = {settings.network.grace} in [network] is a number of seconds, 0 or more.")
    _check_addresses(settings)


def _check_names(settings: Settings) -> None:
    roster = settings.roster
    for name in roster:
        require_name(name)
    if len(set(roster)) < len(roster) or len(roster) < 2:
        raise BadInput("The roster must name at least two peers, each once.")
    if settings.name not in roster:
        raise BadInput(f"'{settings.name}' is not in the roster ({', '.join(roster)}); add it there, at every peer.")
    seen = {settings.name}
    for one in settings.neighbours:
        if one.name not in roster:
            raise BadInput(f"The neighbour '{one.name}' is not in the roster ({', '.join(roster)}).")
        if one.name in seen:
            raise BadInput(f"[[neighbours]] names '{one.name}' twice, or it is this peer itself.")
        seen.add(one.name)


def _check_addresses(settings: Settings) -> None:
    network, addresses = settings.network, [one.address for one in settings.neighbours if one.address is not None]
    for one in (network.status, network.listen, *addresses):
        if one is not None:
            split_address(one)
    if network.listen is None:
        for one in settings.neighbours:
            if one.address is None:
                raise BadInput(
                    f"'{one.name}' has no address and this peer does not listen, so neither can dial; give one of them."
                )
    if network.plaintext:
        for one in (network.listen, *addresses):
            if one is not None and not is_loopback(one):
                raise BadInput(f"plaintext = true is for addresses of this machine, such as 127.0.0.1:7001, not {one}.")
        return
    if settings.identity is None:
        raise BadInput("The table [identity] is missing; make a key and a request with: covey peer init NAME.")
    for one in settings.neighbours:
        _check_fingerprint(one)


def _check_fingerprint(one: NeighbourTable) -> None:
    if not _FINGERPRINT.fullmatch(one.fingerprint):
        said = f"has '{one.fingerprint}'" if one.fingerprint else "lacks one"
        raise BadInput(
            f"A fingerprint is the line sha256:… of `covey peer init`, and the neighbour '{one.name}' {said}."
        )
