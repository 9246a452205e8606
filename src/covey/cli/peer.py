"""`covey peer …`: one peer of a run among real peers. What a command is asked for, and who does it.

Nothing here needs the packages of `covey[network]` until a command is obeyed.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg, subcommand

from covey.errors import BadInput

_File = Annotated[Positional[Path], arg(metavar="PEER.TOML")]


@dataclass(frozen=True, kw_only=True)
class Init:
    """Make a key, which stays here, and a request to certify it."""

    name: Annotated[Positional[str], arg(metavar="NAME")]  # the peer's name, as in the roster
    folder: Annotated[Path, arg(metavar="DIR")] = Path()  # where NAME.key and NAME.csr are written


@dataclass(frozen=True, kw_only=True)
class Establish:
    """Make the authority's key and certificate."""

    folder: Annotated[Path, arg(metavar="DIR")] = Path("authority")
    days: int = 3650  # until its certificate ends


@dataclass(frozen=True, kw_only=True)
class Sign:
    """Certify requests; the certificate is written beside each."""

    requests: Annotated[Positional[tuple[Path, ...]], arg(metavar="NAME.CSR")]
    folder: Annotated[Path, arg(metavar="DIR")] = Path("authority")
    days: int = 365  # until the certificate ends


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A small certificate authority, for a consortium that has none."""

    do: Annotated[Establish, subcommand("init")] | Annotated[Sign, subcommand("sign")]


@dataclass(frozen=True, kw_only=True)
class Check:
    """Before the start: certificates, every neighbour, and whether all mean the same run."""

    file: _File
    seconds: float = 60.0  # how long neighbours are waited for


@dataclass(frozen=True, kw_only=True)
class Go:
    """Run one peer, or go on with it."""

    file: _File


@dataclass(frozen=True, kw_only=True)
class Say:
    """What a running peer is doing."""

    file: _File
    json: bool = False  # everything, for programs


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Verify the log of all that left the site."""

    file: Annotated[Positional[Path], arg(metavar="AUDIT.JSONL")]
    link: str | None = None  # the last link that was kept elsewhere; it must be in the chain


@dataclass(frozen=True, kw_only=True)
class Up:
    """Start a whole covey on this machine, a process for each peer, to see it work."""

    peers: int = 5
    algorithm: Annotated[str, arg(metavar="NAME")] = "dfedalt"  # a name of `covey list algorithms`
    graph: Annotated[str, arg(metavar="NAME[:ARG]")] = "ring"  # a name of `covey list graphs`
    data: Annotated[str, arg(metavar="NAME")] = "digits"  # divided, and each peer given its part in a file
    partition: Annotated[str | None, arg(metavar="NAME[:ARG]")] = None  # by default pathological:5 for digits
    samples: int | None = 20  # at most so many training samples per peer
    model: Annotated[str, arg(metavar="NAME")] = "mlp"  # a name of `covey list models`
    rounds: int = 30
    seed: int = 0
    # of [algorithm] in peer.toml, as in --set lr=0.05; by default lr=0.1, batch=10 and epochs=5
    set: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE"), UseAppendAction] = ()
    out: Annotated[Path | None, arg(metavar="DIR")] = None  # a new folder for keys, files and logs


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One of several real peers, each beside its own data, with nobody in the middle."""

    do: (
        Annotated[Init, subcommand("init")]
        | Annotated[Authority, subcommand("authority")]
        | Annotated[Check, subcommand("check")]
        | Annotated[Go, subcommand("run")]
        | Annotated[Say, subcommand("status")]
        | Annotated[Audit, subcommand("audit")]
        | Annotated[Up, subcommand("up")]
    )


def obey(command: Peer, console: Console) -> int:
    """The exit code."""
    for package in ("grpc", "cryptography"):
        if importlib.util.find_spec(package) is None:
            raise BadInput(f"`covey peer` needs the package {package}; install it with: pip install 'covey[network]'")
    from covey.cli import covey_here, peer_run, peer_tools

    do = command.do
    match do:
        case Init():
            peer_tools.init(do, console)
        case Authority():
            if isinstance(do.do, Establish):
                peer_tools.establish(do.do, console)
            else:
                peer_tools.sign(do.do, console)
        case Check():
            return peer_tools.check(do, console)
        case Say():
            peer_tools.status(do, console)
        case Audit():
            peer_tools.audit(do, console)
        case Go():
            peer_run.run(do.file, console)
        case Up():
            return covey_here.up(do, console)
    return 0
