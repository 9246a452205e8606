"""From the name of a method and the settings to the algorithm object, by the fields that its class declares."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from covey import algorithms
from covey.algorithms import Algorithm
from covey.cli import compression
from covey.cli.settings import Settings
from covey.errors import BadInput, UnknownName
from covey.training import SGD


def known() -> dict[str, type[Algorithm]]:
    """Every method by its name on the command line."""
    classes = [getattr(algorithms, name) for name in algorithms.__all__]
    return {one.__name__.lower(): one for one in classes if not inspect.isabstract(one)}


def find(name: str) -> type[Algorithm]:
    if name.lower() not in known():
        raise UnknownName("algorithm", name, known())
    return known()[name.lower()]


def build(name: str, settings: Settings) -> Algorithm:
    """The method that `name` and the settings describe."""
    kind = find(name)
    own = own_fields(kind)
    given = extras(settings)
    for field in given:
        if field not in own:
            fitting = ", ".join(f"{one}=…" for one in own) or "none"
            raise BadInput(f"{kind.__name__} has no field '{field}' for --with; it has: {fitting}.")
    values: dict[str, Any] = {field: _convert(text, own[field], f"{field}={text}") for field, text in given.items()}
    if "rounds" in own:  # of what a method does over the whole run
        values.setdefault("rounds", settings.rounds)
    on = values.get("on", getattr(kind, "on", None))
    hints = get_type_hints(kind)
    for field in (one.name for one in fields(kind) if is_phase(hints[one.name])):
        if hints[field] is SGD or _has_own_flags(settings):  # a phase that may be missing is then like the other
            values[field] = _phase(kind, settings, field, on)
    return compression.applied(kind(**(compression.fields_of(kind, settings) | values)), settings)


def extras(settings: Settings) -> dict[str, str]:
    """`--with NAME=VALUE`, as given."""
    found: dict[str, str] = {}
    for text in settings.extra:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadInput(f"--with {text} should be written NAME=VALUE, as in --with order=cta.")
        found[name.strip()] = value.strip()
    return found


def own_fields(kind: type[Algorithm]) -> dict[str, Any]:
    """The fields that `--with` may set, and their types: all but the phases, which have flags of their own."""
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind) if not is_phase(hints[one.name])}


def is_phase(hint: Any) -> bool:
    return hint is SGD or SGD in get_args(hint)


def _has_own_flags(settings: Settings) -> bool:
    return any(given is not None for given in (settings.head_lr, settings.head_steps, settings.head_epochs))


def _phase(kind: type[Algorithm], settings: Settings, field: str, on: str | None) -> SGD:
    """`personal` is trained as the head, `finetune` by flags of its own, every other phase as the body."""
    s = settings
    lr, steps, epochs = s.lr, s.steps, s.epochs
    if field == "finetune":  # at one rate, whatever the round
        momentum = kind.habit.momentum if s.momentum is None else s.momentum
        return SGD(s.finetune_lr, epochs=s.finetune_epochs, batch=s.batch or None, momentum=momentum, clip=s.clip)
    if field == "personal":
        lr = s.lr if s.head_lr is None else s.head_lr
        given = s.head_steps is not None or s.head_epochs is not None
        steps = s.head_steps if given or s.steps is None else s.steps
        usual = s.epochs if kind.habit.head_epochs is None else kind.habit.head_epochs
        epochs = s.head_epochs if given or s.steps is not None else usual
    if steps is None and epochs is None:
        steps, epochs = (None, 1) if kind.habit.steps is None else (kind.habit.steps, None)
    momentum = kind.habit.momentum if s.momentum is None else s.momentum
    sam = 0.0 if s.sam is None else s.sam
    if kind.habit.sharp:
        sam = (s.rho if s.sam is None else s.sam) if on in (field, "both", None) else 0.0
    return SGD(
        lr, steps=steps, epochs=epochs, batch=s.batch or None, momentum=momentum, nesterov=s.nesterov,
        weight_decay=s.weight_decay, clip=s.clip, sam=sam, decay=s.decay,
    )  # fmt: skip


_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _convert(text: str, hint: Any, where: str) -> Any:
    """A value of the type that a field declares."""
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise BadInput(f"--with {where}: use one of {', '.join(map(str, get_args(hint)))}.")
        return text
    if is_dataclass(hint) and isinstance(hint, type):
        return _part(text, hint, where)
    plain: Mapping[type, Callable[[str], Any]] = {bool: lambda t: _WORDS[t.lower()], int: int, float: float, str: str}
    kinds = get_args(hint) or (hint,)
    if type(None) in kinds and text.lower() == "none":
        return None
    for kind in kinds:
        if kind in plain:
            try:
                return plain[kind](text)
            except (ValueError, KeyError):
                continue
    names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise BadInput(f"--with {where}: '{text}' is no {names}.")


def _part(text: str, base: type, where: str) -> Any:
    """`pushsum` or `pushsum:true`: a class of the package of `base`, with its fields in order."""
    name, *rest = text.split(":")
    package = sys.modules[base.__module__.rpartition(".")[0]]
    classes = [getattr(package, one) for one in getattr(package, "__all__", ())]
    fitting = {c.__name__.lower(): c for c in classes if issubclass(c, base) and not inspect.isabstract(c)}
    if name.lower() not in fitting:
        raise UnknownName(base.__name__.lower(), name, fitting)
    kind = fitting[name.lower()]
    hints = get_type_hints(kind)
    own = [one.name for one in fields(kind)]
    if len(rest) > len(own):
        raise BadInput(f"--with {where}: {name} takes {len(own)} values at most ({', '.join(own)}).")
    return kind(**{one: _convert(part, hints[one], where) for one, part in zip(own, rest, strict=False)})
