"""`--compress signtopk:0.01 --trigger norm:2.5 --gamma auto`: from words to the exchange that they mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace

from covey import compress, trigger
from covey.algorithms.algorithm import Algorithm, Cooperative
from covey.cli.settings import Settings
from covey.compress import Compressor
from covey.errors import BadInput, UnknownName
from covey.exchange import Compressed, CompressedPush, Copies, ErrorFeedback, Gossip, PushSum
from covey.exchange.gamma import Gamma
from covey.trigger import Trigger

_TRIGGERS: dict[str, Callable[..., Trigger]] = {
    "always": lambda: trigger.always,
    "never": lambda: trigger.never,
    "every": lambda h: trigger.every(int(h)),
    "norm": lambda start, add=0.0, every=1.0, most=float("inf"): trigger.norm(
        trigger.piecewise(start, add, int(every), most) if add else start
    ),
}


def known() -> dict[str, type[Compressor]]:
    """Every compressor by its name on the command line."""
    classes = [getattr(compress, name) for name in compress.__all__]
    return {c.__name__.lower(): c for c in classes if issubclass(c, Compressor) and not inspect.isabstract(c)}


def compressor_of(text: str) -> Compressor:
    """`sign`, `topk:100`, `topk:0.01`, `qsgd:15`, `qtopk:0.01:15`."""
    name, *rest = text.split(":")
    if name.lower() not in known():
        raise UnknownName("compressor", name, known())
    kind = known()[name.lower()]
    own = [one.name for one in fields(kind) if one.name != "fraction"]
    if len(rest) > len(own):
        raise BadInput(f"--compress {text}: {name} takes {len(own)} numbers at most ({', '.join(own)}).")
    try:
        return kind(**{field: _number(part) for field, part in zip(own, rest, strict=False)})
    except TypeError:
        raise BadInput(f"--compress {text} should be written {name}:{':'.join(own).upper()}.") from None
    except ValueError as problem:
        raise problem if isinstance(problem, BadInput) else BadInput(f"--compress {text}: {problem}.") from None


def trigger_of(text: str) -> Trigger:
    """`always`, `never`, `every:H`, `norm:C` or `norm:START:ADD:EVERY[:MOST]`; with `:tensor`, per tensor."""
    name, *rest = text.split(":")
    if name not in _TRIGGERS:
        raise UnknownName("trigger", name, _TRIGGERS)
    per_tensor = bool(rest) and rest[-1] == "tensor"
    try:
        made = _TRIGGERS[name](*(float(part) for part in (rest[:-1] if per_tensor else rest)))
    except (TypeError, ValueError) as problem:
        if isinstance(problem, BadInput):
            raise
        raise BadInput(
            f"--trigger {text}: write always, never, every:H, norm:C or norm:START:ADD:EVERY[:MOST]."
        ) from None
    return replace(made, per="tensor") if per_tensor else made


def gamma_of(text: str) -> Gamma:
    if text in ("auto", "usual", "theory"):
        return text
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"--gamma {text} is neither a number nor auto, usual or theory.") from None


def fields_of(kind: type[Algorithm], settings: Settings) -> dict[str, object]:
    """What these flags say of a method that compresses by itself (`choco`, `sparq`, `squarm`, `saddlepoint`)."""
    own = {one.name for one in fields(kind) if one.init}
    if "compressor" not in own:
        return {}
    if settings.compress is None:
        raise BadInput(f"{kind.__name__} compresses what it says; name how, such as --compress signtopk:0.01.")
    found: dict[str, object] = {"compressor": compressor_of(settings.compress)}
    if "gamma" in own:
        found["gamma"] = gamma_of(settings.gamma)
    if settings.trigger is not None:
        if "trigger" not in own:
            raise BadInput(f"{kind.__name__} has no trigger; take sparq or squarm, or leave --trigger out.")
        found["trigger"] = trigger_of(settings.trigger)
    return found


def compressible(method: Algorithm) -> bool:
    """Whether peers gossip or push among themselves, so that a compressed exchange can take the place of theirs."""
    return isinstance(method, Cooperative) and isinstance(method.by, Gossip | PushSum) and method.needs != "server"


def applied(method: Algorithm, settings: Settings) -> Algorithm:
    """The method by a compressed exchange, where that is asked for."""
    s = settings
    if s.compress is None or (isinstance(method, Cooperative) and isinstance(method.by, Compressed | Copies)):
        if s.trigger is not None and s.compress is None:
            raise BadInput("--trigger needs --compress: without public copies nobody knows what has changed.")
        return method
    if not isinstance(method, Cooperative) or not compressible(method):
        name = type(method).__name__
        raise BadInput(f"{name} cannot be compressed; --compress is for methods whose peers gossip or push.")
    how, pushes = compressor_of(s.compress), isinstance(method.by, PushSum)
    if s.feedback:
        gamma = gamma_of(s.gamma)
        if pushes or s.trigger is not None or isinstance(gamma, str):
            raise BadInput("--feedback is for gossip without a trigger, and wants a number for --gamma, such as 0.1.")
        return replace(method, by=ErrorFeedback(how, gamma))
    silence = trigger.always if s.trigger is None else trigger_of(s.trigger)
    exchange = CompressedPush if pushes else Compressed
    return replace(method, by=exchange(how, gamma_of(s.gamma), silence, known=s.init != "all"))


def _number(text: str) -> int | float:
    return int(text) if text.isdigit() else float(text)
