"""A peer that carries frames and nothing else: it sends each frame that it hears back once, marked."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from covey.network.transport import Part

if TYPE_CHECKING:
    from network.consortium import Consortium

LARGEST = 1 << 24


def echo(made: Consortium, name: str, listen: str | None, neighbours: dict[str, str | None]) -> None:
    from network.consortium import Site

    site = Site(made, name, neighbours, listen, LARGEST)

    def deliver(other: str, frame: Part) -> None:
        if bytes(frame[:5]) != b"back ":
            site.say(other, b"back ", frame)

    site.transport.start(deliver, lambda other: None, lambda other, why: None)
    while True:
        time.sleep(1)


def start(made: Consortium, name: str, listen: str | None, neighbours: dict[str, str | None]) -> BaseProcess:
    """In a process of its own, of a server that has the imports behind it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["covey", "network.consortium"])
    process = context.Process(target=echo, args=(made, name, listen, neighbours), daemon=True)
    process.start()
    return process
