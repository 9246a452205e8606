"""`--compress signtopk:0.01 --trigger norm:2.5 --gamma auto`: from words to the exchange that they mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace

from covey import compress, trigger
from covey.algorithms.algorithm import Algorithm, Cooperative
from covey.cli.settings import Settings
from covey.compress import Compressor, Whole
from covey.errors import BadInput, UnknownName
from covey.exchange import Compressed, CompressedPush, ErrorFeedback, Gossip, PushSum
from covey.exchange.gamma import Gamma
from covey.trigger import Norm, Trigger

_TRIGGERS: dict[str, Callable[..., Trigger]] = {
    "always": lambda: trigger.always,
    "never": lambda: trigger.never,
    "every": trigger.every,
    "norm": lambda c, *rising: trigger.norm(trigger.piecewise(c, *rising) if rising else c),
    "power": lambda c0, eps: trigger.norm(trigger.power(c0, eps)),
}
_WRITTEN = "always, never, every:H, norm:C, norm:START:ADD:EVERY[:MOST] or power:C0:EPS"


def known() -> dict[str, type[Compressor]]:
    """Every compressor by its name on the command line."""
    classes = [getattr(compress, name) for name in compress.__all__]
    return {c.__name__.lower(): c for c in classes if issubclass(c, Compressor) and not inspect.isabstract(c)}


def compressor_of(text: str) -> Compressor:
    """`sign`, `topk:100`, `topk:0.01`, `qsgd:15`, `qtopk:0.01:15`; `whole:` before any of them."""
    name, *rest = text.split(":")
    if name.lower() == "whole" and rest:
        return Whole(compressor_of(":".join(rest)))
    if name.lower() not in known():
        raise UnknownName("compressor", name, known())
    kind = known()[name.lower()]
    own = [one.name for one in fields(kind) if one.name != "fraction"]
    if len(rest) > len(own):
        raise BadInput(f"--compress {text}: {name} takes {len(own)} numbers at most ({', '.join(own)}).")
    numbers = [_number(part, f"--compress {text}") for part in rest]
    try:
        return kind(**dict(zip(own, numbers, strict=False)))
    except TypeError:
        raise BadInput(f"--compress {text} should be written {':'.join([name, *own]).upper()}.") from None


def trigger_of(text: str) -> Trigger:
    """`always`, `every:H`, `norm:C`, …; with `:tensor` at its end per tensor, with `:cap` c_t is at most 1/η_t."""
    name, *rest = text.lower().split(":")
    if name not in _TRIGGERS:
        raise UnknownName("trigger", name, _TRIGGERS)
    words = {"tensor", "cap"} & set(rest)
    numbers = [_number(part, f"--trigger {text}") for part in rest if part not in words]
    try:
        made = _TRIGGERS[name](*numbers)
    except TypeError:
        raise BadInput(f"--trigger {text} should be written {_WRITTEN}.") from None
    if "cap" in words:
        if not isinstance(made, Norm):
            raise BadInput(f"--trigger {text}: only a threshold can be capped (norm, power).")
        made = replace(made, cap=True)
    return replace(made, per="tensor") if "tensor" in words else made


def gamma_of(text: str | None) -> Gamma:
    if text is None:
        return "auto"
    if text in ("auto", "usual", "theory"):
        return text
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"--gamma {text} is neither a number nor auto, usual or theory.") from None


def fields_of(kind: type[Algorithm], settings: Settings) -> dict[str, object]:
    """What these flags say of a method that compresses by itself (`choco`, `sparq`, `squarm`)."""
    own = {one.name for one in fields(kind) if one.init}
    if "compressor" not in own:
        return {}
    if settings.compress is None:
        raise BadInput(f"{kind.__name__} compresses what it says; name how, such as --compress signtopk:0.01.")
    if settings.feedback:
        raise BadInput(f"{kind.__name__} keeps public copies; error feedback is for methods such as dfedavg.")
    found: dict[str, object] = {"compressor": compressor_of(settings.compress), "gamma": gamma_of(settings.gamma)}
    if settings.trigger is not None:
        if "trigger" not in own:
            raise BadInput(f"{kind.__name__} has no trigger; take sparq or squarm, or leave --trigger out.")
        found["trigger"] = trigger_of(settings.trigger)
    return found


def compressible(method: Algorithm) -> bool:
    """Whether peers gossip or push among themselves, so that a compressed exchange can take the place of theirs."""
    apart = method.needs in ("server", "changing")
    return isinstance(method, Cooperative) and isinstance(method.by, Gossip | PushSum) and not apart


def applied(method: Algorithm, settings: Settings) -> Algorithm:
    """The method by a compressed exchange, where that is asked for."""
    s = settings
    if s.compress is None:
        asked = {"--trigger": s.trigger, "--gamma": s.gamma, "--feedback": s.feedback or None}
        for flag in (name for name, value in asked.items() if value is not None):
            raise BadInput(f"{flag} belongs to a compressed exchange; say how it is compressed, as in --compress sign.")
        return method
    if isinstance(method, Cooperative) and isinstance(method.by, Compressed):
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


def _number(text: str, where: str) -> int | float:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise BadInput(f"{where}: '{text}' is no number.") from None
