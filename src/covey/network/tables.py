"""A table of a TOML file as a typed dataclass: whatever is not known, missing or of another type is one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from covey.errors import BadInput

T = TypeVar("T")
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", Path: "the path of a file"}


def read_table(kind: type[T], given: Mapping[str, Any], where: str, home: Path) -> T:
    """An instance of the dataclass `kind`. where: the table's name for sentences; home: where relative paths begin."""
    hints = get_type_hints(kind)
    known = {one.name: one for one in fields(cast(Any, kind))}
    for name in given:
        if name not in known:
            raise BadInput(f"There is no setting '{name}' in {where}; {nearest(name, known)}")
    lacking = [name for name, one in known.items() if name not in given and _required(one)]
    if lacking:
        raise BadInput(f"{where} lacks '{lacking[0]}', which is {described(hints[lacking[0]])}.")
    return kind(**{name: _value(value, hints[name], name, where, home) for name, value in given.items()})


def nearest(name: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"known are {', '.join(sorted(known))}."


def described(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(f"'{one}'" for one in get_args(hint))
    if get_origin(hint) is tuple:
        return "a list, each " + described(get_args(hint)[0])
    if get_origin(hint) is Mapping or is_dataclass(hint):
        return "a table"
    kinds = [one for one in get_args(hint) or (hint,) if one is not type(None)]
    return " or ".join(described(one) if get_origin(one) or is_dataclass(one) else _KINDS[one] for one in kinds)


def _required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _value(value: Any, hint: Any, name: str, where: str, home: Path) -> Any:
    for one in _choices(hint):
        if get_origin(one) is Literal and value in get_args(one):
            return value
        if get_origin(one) is Mapping and isinstance(value, dict):
            return cast("dict[str, Any]", value)
        if get_origin(one) is tuple and isinstance(value, list):
            inner = get_args(one)[0]
            return tuple(
                _value(each, inner, f"{name}[{k}]", where, home) for k, each in enumerate(cast("list[Any]", value))
            )
        if is_dataclass(one) and isinstance(value, dict):
            inside = (
                f"[{name}]"
                if "[" not in name
                else f"[[{name.partition('[')[0]}]] number {int(name[:-1].partition('[')[2]) + 1}"
            )
            return read_table(cast("type[Any]", one), cast("dict[str, Any]", value), inside, home)
        if one is Path and isinstance(value, str):
            return home / Path(value).expanduser()
        if one is float and type(value) is int:
            return float(value)
        if isinstance(one, type) and type(value) is one:
            return value
    said = (
        "a table"
        if isinstance(value, dict)
        else repr(cast(Any, value)).lower()
        if isinstance(value, bool)
        else repr(value)
    )
    raise BadInput(f"{name} = {said} in {where} should be {described(hint)}.")


def _choices(hint: Any) -> tuple[Any, ...]:
    """The kinds that a hint allows; a Literal, a list or a table is one kind."""
    return (hint,) if get_origin(hint) in (Literal, tuple, Mapping) else get_args(hint) or (hint,)
