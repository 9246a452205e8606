"""What every compressor is: a map C with C(0) = 0 and E‖C(x) − x‖² ≤ (1 − ω)‖x‖² for a known ω in (0, 1]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from covey.compress.forms import Chosen, Form
from covey.compress.message import Message, Sparse
from covey.errors import BadInput
from covey.randomness import key, normal

_TRIED = 1 << 16


@dataclass(frozen=True)
class Compressor(ABC):
    """Frozen configuration; draws only from the keys that it is given."""

    @abstractmethod
    def form(self, x: Tensor, keys: Tensor) -> Form:
        """What is said of x [m, d], one key per row."""

    @abstractmethod
    def omega(self, d: int) -> float:
        """ω for vectors of d numbers: E‖C(x) − x‖² ≤ (1 − ω)‖x‖² for every x."""

    @abstractmethod
    def formula(self, d: int) -> float:
        """Bits of a message of d numbers, as papers count them (32 bits a number, ⌈log₂ d⌉ a position)."""

    @property
    def whole(self) -> bool:
        """Whether it is meant for the whole vector rather than for each tensor of a model."""
        return False

    @property
    def everything(self) -> bool:
        """Whether it says something of every number."""
        return True

    def kept(self, tensors: list[int]) -> float:
        """The share of the energy of standard normal numbers that it keeps, 1 − ‖C(x) − x‖² / ‖x‖², for tensors of
        these sizes; of large ones a part is tried."""
        wanted = [sum(tensors)] if self.whole else tensors
        kept = 0.0
        for place, d in enumerate(wanted):
            size = min(d, _TRIED)
            x = normal(key("kept", place)[None], size)
            error = self.shrunk(d, size)(x, key("kept", place, 1)[None]).dense - x
            kept += d / sum(wanted) * max(0.0, 1.0 - float(error.square().sum() / x.square().sum()))
        return kept

    def shrunk(self, d: int, size: int) -> Compressor:
        """The compressor that does to `size` numbers what this one does to d."""
        return self

    def require_fits(self, d: int) -> None:
        """Refuse vectors of d numbers that it cannot compress."""

    def __call__(self, x: Tensor, keys: Tensor | None = None, *, tensors: list[slice] | None = None,
                 send: Tensor | None = None) -> Message:  # fmt: skip
        """The message of each row of x [rows, d]: tensor by tensor, or of the whole vector where `tensors` is missing.

        send  bool [rows] or [rows, tensors]: who speaks (of what); silence is an empty message.
        """
        rows, d = x.shape
        tensors = [slice(0, d)] if tensors is None or self.whole else tensors
        keys = torch.zeros(rows, dtype=torch.int64) if keys is None else keys
        said = torch.ones(rows, 1, dtype=torch.bool) if send is None else send.cpu().view(rows, -1)
        said = said.expand(rows, len(tensors))
        speakers = said.any(1).nonzero()[:, 0]
        speaking = x if len(speakers) == rows else x[speakers.to(x.device)]
        forms = tuple(self.form(speaking[:, part], key(keys[speakers], i)) for i, part in enumerate(tensors))
        formula, encoded = torch.zeros(rows, dtype=torch.float64), torch.zeros(rows, dtype=torch.float64)
        for i, (form, part) in enumerate(zip(forms, tensors, strict=True)):
            formula += self.formula(part.stop - part.start) * said[:, i]
            encoded[speakers] += 8.0 * form.size().double() * said[speakers, i]
        content = content_of(forms, tensors, speakers.to(x.device), said[speakers].to(x.device), x)
        return Message(content, formula, encoded, forms, tuple(tensors), said)


@dataclass(frozen=True)
class Whole(Compressor):
    """Another compressor over the whole vector in the place of each tensor: one scale, one choice, for all of it."""

    inner: Compressor

    def form(self, x: Tensor, keys: Tensor) -> Form:
        return self.inner.form(x, keys)

    def omega(self, d: int) -> float:
        return self.inner.omega(d)

    def formula(self, d: int) -> float:
        return self.inner.formula(d)

    @property
    def whole(self) -> bool:
        return True

    @property
    def everything(self) -> bool:
        return self.inner.everything

    def shrunk(self, d: int, size: int) -> Compressor:
        return self.inner.shrunk(d, size)

    def require_fits(self, d: int) -> None:
        self.inner.require_fits(d)


def content_of(forms: tuple[Form, ...], tensors: list[slice], who: Tensor, said: Tensor, x: Tensor) -> Tensor | Sparse:
    """The decoded payload of those who speak; of x only the shape and the type count."""
    values = [form.inner.values() if isinstance(form, Chosen) else form.values() for form in forms]
    if not bool(said.all()):
        values = [torch.where(said[:, i : i + 1], value, 0.0) for i, value in enumerate(values)]
    if all(isinstance(form, Chosen) for form in forms):
        places = [
            form.index + part.start for form, part in zip(forms, tensors, strict=True) if isinstance(form, Chosen)
        ]
        rows, d = x.shape
        return Sparse(who, torch.cat(places, 1), torch.cat(values, 1), (rows, d))
    if len(who) == len(x):
        return values[0] if len(values) == 1 else torch.cat(values, 1)
    content = torch.zeros_like(x)
    content[who] = torch.cat(values, 1)
    return content


def some_of(k: int | float | None, fraction: float | None, name: str) -> None:
    """Refuse a k or a fraction that chooses nothing or everything."""
    if (k is None) == (fraction is None):
        raise BadInput(f"{name} takes k or fraction, one of them (k={k}, fraction={fraction}).")
    if k is not None and (k < 1 or k != int(k)):
        raise BadInput(f"{name}(k={k}) is out of range; k is a whole number of 1 or more.")
    if fraction is not None and not 0 < fraction < 1:
        raise BadInput(f"{name}(fraction={fraction}) is out of range; use a share above 0 and below 1, such as 0.01.")
