"""Identities for tests, and peers that only carry frames."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from covey.network import authority
from covey.network.admission import Neighbour
from covey.network.identity import Identity, create, load
from covey.network.over_grpc import GrpcTransport
from covey.network.transport import Part


@dataclass
class Consortium:
    """An authority, and the identities it certified."""

    folder: Path
    prints: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, folder: Path, *names: str) -> Consortium:
        made = cls(folder)
        authority.establish(folder / "authority", 365)
        for name in names:
            made.admit(name)
        return made

    def admit(self, name: str, days: int = 90, **more: Any) -> None:
        _, request, self.prints[name] = create(name, self.folder)
        authority.sign(request, self.folder / "authority", days, **more)

    def identity(self, name: str, certificate: str | None = None) -> Identity:
        return load(name, self.folder / f"{name}.key", self.folder / f"{certificate or name}.crt", self.believed)

    @property
    def believed(self) -> Path:
        return self.folder / "authority" / "authority.crt"


class Site:
    """A transport, and what it called back."""

    def __init__(self, consortium: Consortium | None, name: str, neighbours: dict[str, str | None],
                 listen: str | None = "127.0.0.1:0", largest: int = 1 << 20, accord: dict[str, str] | None = None,
                 prints: dict[str, str] | None = None, **more: Any) -> None:  # fmt: skip
        known = prints or (consortium.prints if consortium is not None else {})
        far = [Neighbour(other, known.get(other, ""), address) for other, address in neighbours.items()]
        self.name = name
        self.events: list[tuple[str, str]] = []
        self.frames: list[tuple[str, bytes]] = []
        self.reports: list[tuple[str, str | None]] = []
        more.setdefault("report", lambda name, sentence: self.reports.append((name, sentence)))
        identity = None if consortium is None else more.pop("identity", lambda: consortium.identity(name))
        self.transport = GrpcTransport(name, far, identity, listen, accord or {}, largest, **more)
        self._changed = threading.Condition()

    def __enter__(self) -> Site:
        self.transport.start(self._deliver, self._event("up"), lambda name, why: self._event("down")(name))
        return self

    def __exit__(self, *_: object) -> None:
        self.transport.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.transport.port}"

    def _deliver(self, name: str, frame: Part) -> None:
        with self._changed:
            self.frames.append((name, bytes(frame)))
            self._changed.notify_all()

    def _event(self, what: str) -> Callable[[str], None]:
        def happened(name: str) -> None:
            with self._changed:
                self.events.append((what, name))
                self._changed.notify_all()

        return happened

    def wait(self, until: Callable[[], bool], seconds: float = 20.0) -> None:
        """Until something has happened."""
        end = time.monotonic() + seconds
        with self._changed:
            while not until():
                left = end - time.monotonic()
                assert left > 0, (self.name, self.events, self.reports, len(self.frames))
                self._changed.wait(min(left, 0.05))

    def wait_up(self, *names: str, seconds: float = 20.0) -> None:
        self.wait(lambda: self.up >= set(names), seconds)

    def wait_down(self, *names: str, seconds: float = 20.0) -> None:
        self.wait(lambda: not self.up & set(names), seconds)

    def wait_frames(self, count: int, seconds: float = 20.0) -> None:
        self.wait(lambda: len(self.frames) >= count, seconds)

    def wait_report(self, words: str, seconds: float = 20.0) -> str:
        def found() -> list[str]:
            return [text for _, text in self.reports if text is not None and words in text]

        self.wait(lambda: bool(found()), seconds)
        return found()[0]

    @property
    def up(self) -> set[str]:
        now: set[str] = set()
        for what, name in list(self.events):
            now = now | {name} if what == "up" else now - {name}
        return now

    def say(self, name: str, *parts: Part) -> bool:
        return self.transport.send(name, list(parts))


def frames_of(site: Site, name: str) -> Sequence[bytes]:
    return [frame for whose, frame in site.frames if whose == name]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
