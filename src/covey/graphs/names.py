"""Graphs by name, as on the command line: `ring`, `torus:8x8`, `random_directed:10:pull`, `server:0.1:size`.

`:fixed` at the end keeps the first connected round of a changing graph; `:absent:P` lets each peer be absent in a round
with probability P.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

from covey.errors import BadInput, UnknownName
from covey.graphs import builders, schedules
from covey.graphs.absence import absent
from covey.graphs.graph import Graph

_BUILDERS: dict[str, Callable[..., Graph]] = {
    build.__name__: build
    for build in (
        builders.full,
        builders.ring,
        builders.torus,
        builders.grid,
        builders.exponential,
        schedules.one_peer_exponential,
        builders.erdos_renyi,
        builders.random_doubly_stochastic,
        schedules.random_directed,
        schedules.random_undirected,
        schedules.epidemic,
        schedules.server,
        builders.isolated,
        builders.centre,
    )
}


def _usage(name: str) -> str:
    """`random_directed:K[:WEIGHTS]`, from the builder's signature."""
    parts = name + ("[:AxB]" if name in ("torus", "grid") else "")
    for argument in _arguments(name):
        word = argument.name.upper()
        parts += f":{word}" if argument.default is inspect.Parameter.empty else f"[:{word}]"
    return parts


def _arguments(name: str) -> list[inspect.Parameter]:
    """What may follow the name: not the number of peers and not the seed, which belong to the run."""
    parameters = inspect.signature(_BUILDERS[name]).parameters.values()
    return [one for one in parameters if one.name not in ("n", "a", "b", "seed")]


def _summary(build: Callable[..., Graph]) -> str:
    return (inspect.getdoc(build) or "").split("\n", 1)[0]


NAMES: tuple[tuple[str, str], ...] = tuple((_usage(name), _summary(build)) for name, build in _BUILDERS.items())
"""How each graph is written, and what it is."""


def parse(text: str, n: int) -> Graph:
    """The graph of n peers that `text` names."""
    name, *rest = text.strip().split(":")
    if rest and rest[-1] == "fixed":
        return schedules.fixed(parse(text.strip().removesuffix(":fixed"), n))
    if len(rest) > 1 and rest[-2] == "absent":
        return _absent(":".join([name, *rest[:-2]]), rest[-1], n)
    if name not in _BUILDERS:
        raise UnknownName("graph", name, _BUILDERS)
    builders.at_least_one(n)
    sides = _sides(name, n, rest) if name in ("torus", "grid") else (n,)
    arguments = _arguments(name)
    needed = sum(one.default is inspect.Parameter.empty for one in arguments)
    if not needed <= len(rest) <= len(arguments):
        raise BadInput(f"Graph '{text}' should be written {_usage(name)}.")
    given = {one.name: _value(one, part, text, name) for one, part in zip(arguments, rest, strict=False)}
    return _BUILDERS[name](*sides, **given)


def _absent(text: str, probability: str, n: int) -> Graph:
    try:
        return absent(parse(text, n), float(probability))
    except ValueError as problem:
        if isinstance(problem, BadInput):
            raise
        raise BadInput(f"'{text}:absent:{probability}' needs a probability, as in {text}:absent:0.2.") from None


def _value(argument: inspect.Parameter, part: str, text: str, name: str) -> int | float | str:
    if argument.name == "weights":
        return part
    try:
        return int(part) if part.isdigit() or argument.name == "k" else float(part)
    except ValueError:
        kind = "whole number" if argument.name == "k" else "number"
        raise BadInput(f"'{part}' in graph '{text}' should be a {kind}: {_usage(name)}.") from None


def _sides(name: str, n: int, rest: list[str]) -> tuple[int, int]:
    """Takes `8x8` off the arguments, or finds the sides that are most alike."""
    shortest = 3 if name == "torus" else 1
    if rest and rest[0][:1].isdigit():
        given = rest.pop(0)
        a, _, b = given.partition("x")
        if not (a.isdigit() and b.isdigit()):
            raise BadInput(f"The sides of a {name} are written 8x8, not '{given}'.")
        if int(a) * int(b) != n:
            raise BadInput(
                f"A {name} of {a} x {b} has {int(a) * int(b)} peers, not {n}; write {name} for fitting sides."
            )
        return int(a), int(b)
    for a in range(math.isqrt(n), shortest - 1, -1):
        if n % a == 0:
            return a, n // a
    raise BadInput(
        f"{n} peers cannot form a {name}, both of whose sides are at least {shortest}; ring takes any number."
    )
