"""A peer that carries frames and nothing else: it sends each frame that it hears back once, marked."""

from __future__ import annotations

import multiprocessing
import time
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from covey.network.transport import Part

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

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


def dial_again_and_again(made: Consortium, seconds: float, connections: Synchronized[int]) -> None:
    """All but the first dial the first, which ends every stream as soon as it sees it."""
    from covey.network import over_grpc
    from network.consortium import Site

    over_grpc._FIRST_SECONDS = over_grpc._MOST_SECONDS = 0.01
    over_grpc._YIELD_SECONDS = 0.0
    first, *others = made.prints
    end = time.monotonic() + seconds
    with Site(made, first, dict.fromkeys(others)) as one, ExitStack() as all_up:
        for name in others:
            all_up.enter_context(Site(made, name, {first: one.address}, None))
        while time.monotonic() < end:
            time.sleep(0.02)
            for stream in list(one.transport._live.values()):
                over_grpc._loop().call_soon_threadsafe(stream.end, "again")
        connections.value = sum(what == "up" for what, _ in one.events)


def storm(made: Consortium, seconds: float) -> tuple[BaseProcess, Synchronized[int]]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["covey", "network.consortium"])
    connections = context.Value("i", 0)
    process = context.Process(target=dial_again_and_again, args=(made, seconds, connections), daemon=True)
    process.start()
    return process, connections


def start(made: Consortium, name: str, listen: str | None, neighbours: dict[str, str | None]) -> BaseProcess:
    """In a process of its own, of a server that has the imports behind it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["covey", "network.consortium"])
    process = context.Process(target=echo, args=(made, name, listen, neighbours), daemon=True)
    process.start()
    return process
