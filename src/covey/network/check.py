"""Before the start: does every neighbour answer, is it who it should be, and does it mean the same run?

The check greets each neighbour as a run would and says nothing more. It works with neighbours that run, and with
neighbours that check at the same time, so the sites of a consortium do it together, on the telephone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from covey.network.admission import Neighbour
from covey.network.over_grpc import GrpcTransport, Report

Found = dict[str, str | None]  # neighbour -> what is wrong, or None where all is well

_SILENT = "It has not been heard; is it running, or checking, and does its file name this peer?"


@dataclass
class _Findings:
    names: list[str]
    say: Callable[[str, str | None], None]
    found: Found = field(default_factory=Found)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def report(self, name: str, sentence: str | None) -> None:
        with self.changed:
            if name in self.names and self.found.get(name, "") is not None:  # once well, it stays so
                if self.found.get(name, "") != sentence:
                    self.say(name, sentence)
                self.found[name] = sentence
            self.changed.notify_all()

    @property
    def well(self) -> bool:
        return all(name in self.found and self.found[name] is None for name in self.names)


def check(make: Callable[[Report], GrpcTransport], neighbours: list[Neighbour], seconds: float,
          say: Callable[[str, str | None], None]) -> Found:  # fmt: skip
    """Greet until all is well or the time is over; `say` is told of every change."""
    findings = _Findings([one.name for one in neighbours], say)
    transport = make(findings.report)
    transport.start(lambda name, frame: None, lambda name: None, lambda name, why: None)
    end = time.monotonic() + seconds
    try:
        with findings.changed:
            while not findings.well and (left := end - time.monotonic()) > 0:
                findings.changed.wait(left)
    finally:
        transport.close()
    return {name: findings.found.get(name, _SILENT) for name in findings.names}
