"""`covey`: reads the command, runs it, and turns refusals into one sentence and exit code 2."""

from __future__ import annotations

import os
import re
import sys
import tomllib
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, TextIO

import tyro
from rich.console import Console
from tyro.conf import subcommand

from covey.cli import commands, peer
from covey.cli.adapt import Adapt, adapt
from covey.cli.commands import List, Report, pace_of
from covey.cli.demo import Demo, demo
from covey.cli.peer import Peer
from covey.cli.settings import Compare, Run, from_kept
from covey.cli.theory import Theory, theory
from covey.errors import BadInput, CoveyError, UnknownName

Command = Run | Compare | Adapt | Demo | Report | Theory | List | Peer


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, 2 for what is refused, 130 after Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 120  # rich takes 80 for a file or a pipe
    console, errors = Console(width=wide), Console(stderr=True, soft_wrap=True)
    command: Command | None = None
    with warnings.catch_warnings():
        _say_warnings_in_a_line(errors)
        try:
            command = parse(arguments)
            return _obey(command, console)
        except CoveyError as problem:
            _say(errors, "covey: ", str(problem), "bold red")
            return 2
        except BrokenPipeError:  # as in `covey list graphs | head -3`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
        except OSError as problem:
            _say(errors, "covey: ", f"The system refuses: {problem}.", "bold red")
            return 2
        except KeyboardInterrupt:
            _say(errors, "covey: ", _how_to_go_on(command), "bold yellow")
            return 130
        except SystemExit as stop:  # tyro has printed its help
            return stop.code if isinstance(stop.code, int) else 2


def _obey(command: Command, console: Console) -> int:
    match command:
        case Peer():
            return peer.obey(command, console)
        case Run() | Compare():
            commands.train(command, console)
        case Adapt():
            adapt(command, console)
        case Demo():
            demo(command, console)
        case Report():
            commands.report(command, console)
        case Theory():
            theory(command, console)
        case List():
            commands.say(command, console)
    return 0


def parse(arguments: list[str]) -> Command:
    """The command; with --config or --resume, what that run was asked for stands where nothing else is given."""
    named = {kind.__name__.lower(): kind for kind in (Run, Compare, Adapt, Demo, Report, Theory, List, Peer)}
    if arguments and not arguments[0].startswith("-") and arguments[0] not in named:
        raise UnknownName("command", arguments[0], named)
    earlier = _earlier(arguments)
    union: Any = None
    for name, kind in named.items():
        default = {"default": earlier} if type(earlier) is kind else {}
        one: Any = Annotated[kind, subcommand(name, **default)]
        union = one if union is None else union | one
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone, tyro.conf.OmitArgPrefixes,
              tyro.conf.OmitSubcommandPrefixes)  # fmt: skip
    description = "Personal models, trained among peers that have no server."
    with redirect_stderr(StringIO()) as said:
        try:
            return tyro.cli(union, args=arguments, prog="covey", description=description, config=config)
        except SystemExit as stop:
            if stop.code == 0:
                raise
            about = ["covey", *arguments[:1], "--help"] if arguments and arguments[0] in named else ["covey", "--help"]
            raise BadInput(f"{_in_a_sentence(said.getvalue())}; see {' '.join(about)}.") from None


def _in_a_sentence(box: str) -> str:
    """What tyro says in a box of several parts between rules: what is wrong, and perhaps a near name."""
    parts: list[list[str]] = [[]]
    for line in (line.strip("│ ") for line in box.splitlines() if line[:1] not in "╭╰"):
        if line and set(line) <= {"─", "-"}:
            parts.append([])
        else:
            parts[-1].append(line)
    titled = parts if "╭" in box else parts[1:]  # where there is no UTF-8 the title is a part of its own
    what, *rest = (" ".join(part).strip(" .:") for part in titled)
    near = [flag for part in rest for flag in re.findall(r"^Perhaps you meant: (--[\w-]+)", part)]
    return f"{what}; perhaps you meant {near[0]}" if near else what


def _earlier(arguments: list[str]) -> Run | Compare | None:
    """The run that is to be repeated (--config FILE) or continued (--resume DIR)."""
    if not arguments or arguments[0] not in ("run", "compare"):
        return None
    config, folder = _value(arguments, "--config"), _value(arguments, "--resume")
    if config is None and folder is None:
        return None
    path = Path(config) if config is not None else Path(folder or "") / "config.toml"
    if not path.is_file():
        raise BadInput(f"There is no run to {'repeat' if config else 'resume'}: {path} is missing.")
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise BadInput(f"{path} cannot be read ({problem}).") from problem
    earlier = from_kept(content.get("command", {}), path)
    if arguments[0] != type(earlier).__name__.lower():
        raise BadInput(f"{path} was written by `covey {type(earlier).__name__.lower()}`; use that.")
    return earlier if earlier.chunk or "run" not in content else replace(earlier, chunk=pace_of(content))


def _value(arguments: list[str], flag: str) -> str | None:
    for place, one in enumerate(arguments):
        if one == flag and place + 1 < len(arguments):
            return arguments[place + 1]
        if one.startswith(f"{flag}="):
            return one.partition("=")[2]
    return None


def _how_to_go_on(command: Command | None) -> str:
    if isinstance(command, Run | Compare):
        folder = command.resume or command.out
        if folder is not None and (folder / "config.toml").exists():
            return f"stopped; go on with: covey {type(command).__name__.lower()} --resume {folder}"
    return "stopped."


def _say(console: Console, head: str, text: str, style: str) -> None:
    console.print(head, style=style, end="")
    console.print(text, markup=False, highlight=False)


def _say_warnings_in_a_line(console: Console) -> None:
    """Each warning once, whatever numbers it names, and without the place in the code."""
    warnings.simplefilter("always", UserWarning)
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int,
             file: TextIO | None = None, line: str | None = None) -> None:  # fmt: skip
        kind = re.sub(r"\d+", "", str(message))[:60]
        if kind not in seen:
            seen.add(kind)
            _say(console, "warning: ", str(message).replace("\n", " "), "yellow")

    warnings.showwarning = show


__all__ = ["main"]
