"""Whom a peer talks to, and how it knows that it is them: decisions only, no connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from covey.errors import BadInput, CoveyError
from covey.network.addresses import is_loopback
from covey.network.hello import Answer, Hello
from covey.network.identity import Identity, fingerprint, verify

CONNECTED = "connected already"  # the one refusal that is no fault


class Refused(CoveyError):
    """One of the two ends will not talk to the other, for the reason given."""


@dataclass(frozen=True)
class Neighbour:
    """Whom this peer talks to; without an address the neighbour dials."""

    name: str
    fingerprint: str
    address: str | None = None


@dataclass(frozen=True)
class Admission:
    """The rules of the peer `name`. secure: there is TLS, and so something to prove."""

    name: str
    neighbours: Mapping[str, Neighbour]
    secure: bool
    revoked: Callable[[], frozenset[str]]

    def preferred(self, other: str, dialler: str) -> bool:
        """Whether a stream with `other`, dialled by `dialler`, is the one that stays where both ends dial."""
        return dialler == min(other, self.name)

    def admit(self, hello: Hello, names: Sequence[str], key: str) -> None:
        """Refuse who dialled, unless it is a neighbour; names and key are of the certificate that TLS verified."""
        why = self._fault(hello, names, key)
        if why is not None:
            raise Refused(f"{self.name} turned {hello.name} away: {why}.")

    def _fault(self, hello: Hello, names: Sequence[str], key: str) -> str | None:
        far = self.neighbours.get(hello.name)
        if self.secure and hello.name not in names:
            return f"somebody with the certificate of {', '.join(names)} says to be it"
        if far is None:
            return f"it is no neighbour of {self.name}"
        if hello.to != self.name:
            return f"it looks for {hello.to}, and this is {self.name}"
        if self.secure and key != far.fingerprint:
            return f"its key is {key}, not the {far.fingerprint} that is known here"
        return "its key has been revoked" if key in self.revoked() else None

    def dial(self, far: Neighbour) -> None:
        """Refuse to dial whose key has been revoked."""
        if far.fingerprint in self.revoked():
            raise Refused(f"The key of {far.name} has been revoked.")

    def accept(self, answer: Answer, hello: bytes, far: Neighbour, me: Identity | None) -> None:
        """Refuse who answered, unless it proves to be the neighbour that was dialled."""
        if answer.refused:
            raise Refused(answer.refused)
        if answer.name != far.name:
            raise Refused(f"At {far.address} is {answer.name}, not {far.name}.")
        if me is not None and not answer.proves(hello, me.fingerprint, far.fingerprint, fingerprint, verify):
            shown, known = fingerprint(answer.public), far.fingerprint
            raise Refused(f"{far.name} at {far.address} shows the key {shown}, not the {known} known here.")


def require_loopback(addresses: Sequence[str | None]) -> None:
    """Without TLS nothing leaves the machine."""
    for one in addresses:
        if one is not None and not is_loopback(one):
            raise BadInput(f"Without TLS only addresses of this machine are served, such as 127.0.0.1:7001, not {one}.")
