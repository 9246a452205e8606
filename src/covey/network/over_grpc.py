"""The transport over gRPC: one stream in both directions per neighbour, under mutual TLS.

Both ends listen where they can and dial whom they can; a site without incoming connections only dials. Where both
dial, the stream dialled by the peer whose name comes first in the alphabet stays. The frames' bytes go to gRPC as
they are: there is no protocol buffer and no compiler of such.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import grpc
import grpc.aio

from covey.errors import BadInput, CoveyError
from covey.network import identity as own
from covey.network.accord import Accord, differences
from covey.network.admission import CONNECTED, Admission, Neighbour, Refused, require_loopback
from covey.network.channels import cause_of, certificates, channel_to, server_options
from covey.network.connection import Backoff, Connection, Leaving, Read, Write
from covey.network.hello import Answer, Hello, Purpose
from covey.network.pieces import Unfit
from covey.network.transport import Part

log = logging.getLogger("covey.network")
_EOF = cast(Any, grpc.aio).EOF
_SERVICE, _STREAM = "covey.Peer", "Talk"
_GREETING_SECONDS = 20.0  # for a neighbour to greet, before the connection is given up
_FLUSH_SECONDS = 5.0  # for what is queued, when this peer hangs up
_FIRST_SECONDS, _MOST_SECONDS = 0.2, 15.0  # between two tries to reach a neighbour
_YIELD_SECONDS = 0.5  # head start of the end whose dialling is preferred
_REVOKED_SECONDS = 5.0  # between two looks at the list of revoked keys

Deliver = Callable[[str, Part], None]
Up = Callable[[str], None]
Down = Callable[[str, str], None]
Report = Callable[[str, str | None], None]  # of this neighbour: what is wrong, or None when it greeted and agreed


class GrpcTransport:
    """See `Transport`.

    identity   reads key and certificates from the disk; called for every connection, so that they can be renewed.
               None: no TLS and no proof of anything, between addresses of this machine only
    listen     host:port to be reached at, None to dial only; port 0 takes any, see `port`
    largest    bytes of a frame; more is refused before memory is taken for it
    purpose    "check": neighbours are greeted and compared, and no frame is exchanged
    revoked    fingerprints that are refused although somebody still certifies them; asked every few seconds
    """

    def __init__(
        self,
        name: str,
        neighbours: Sequence[Neighbour],
        identity: Callable[[], own.Identity] | None,
        listen: str | None,
        accord: Accord,
        largest: int,
        *,
        purpose: Purpose = "run",
        leaving: Leaving | None = None,
        report: Report | None = None,
        revoked: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        if identity is None:
            require_loopback([listen, *(one.address for one in neighbours)])
        self.port: int | None = None
        self._name, self._listen, self._accord, self._largest = name, listen, accord, largest
        self._far = {one.name: one for one in neighbours}
        self._purpose: Purpose = purpose
        self._identity, self._leaving = identity, leaving
        self._rules = Admission(name, self._far, identity is not None, revoked)
        self._report: Report = report or (lambda name, sentence: None)
        self._live: dict[str, Connection] = {}
        self._random = random.Random()
        self._deliver: Deliver
        self._up: Up
        self._down: Down
        self._server: grpc.aio.Server | None = None
        self._served: tuple[bytes, bytes, bytes] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------------------------- what the protocol calls

    def start(self, deliver: Deliver, up: Up, down: Down) -> None:
        self._deliver, self._up, self._down = deliver, up, down
        asyncio.run_coroutine_threadsafe(self._begin(), _loop()).result()

    def send(self, neighbour: str, parts: Sequence[Part]) -> bool:
        connection = self._live.get(neighbour)
        return connection is not None and connection.offer(parts)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._finish(), _loop()).result()

    # ------------------------------------------------------------------------------------------ the loop's thread

    async def _begin(self) -> None:
        if self._listen is not None:
            self._server = await self._serve()
        self._tasks = [asyncio.create_task(self._keep_dialling(far)) for far in self._far.values() if far.address]
        self._tasks.append(asyncio.create_task(self._watch_revoked()))

    async def _finish(self) -> None:
        live, tasks = list(self._live.values()), self._tasks
        self._tasks = []
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(one.empty() for one in live)), _FLUSH_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in live:
            one.end("this peer hangs up")
        if self._server is not None:
            await self._server.stop(1.0)
            self._server = None

    async def _watch_revoked(self) -> None:
        while True:
            await asyncio.sleep(_REVOKED_SECONDS)
            revoked = self._rules.revoked()
            for name, connection in list(self._live.items()):
                if self._far[name].fingerprint in revoked:
                    connection.end(f"the key of {name} has been revoked")

    # ------------------------------------------------------------------------------------------ the answering end

    async def _serve(self) -> grpc.aio.Server:
        assert self._listen is not None
        server = grpc.aio.server(options=server_options())
        handler = grpc.stream_stream_rpc_method_handler(self._answer)  # no serialiser: a message is its bytes
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_STREAM: handler}),))
        try:
            if self._identity is None:
                self.port = server.add_insecure_port(self._listen)
            else:
                first = self._identity()
                self._served = first.pem()
                fetch = cast(Any, self._fetch)
                credentials = grpc.dynamic_ssl_server_credentials(certificates(first), fetch, True)
                self.port = server.add_secure_port(self._listen, credentials)
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise BadInput(f"Cannot listen at {self._listen}; is the address this machine's, and the port free?")
        await server.start()
        return server

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """New certificates for the handshake that begins; None where those served so far are still on the disk, or
        where there are none that can be served. Only what is new may be returned: gRPC replaces what it has without
        regard to other handshakes that begin at that moment, and has crashed when it did so every time."""
        assert self._identity is not None
        try:
            identity = self._identity()
        except CoveyError as problem:
            self._report(self._name, str(problem))
            return None
        if identity.pem() == self._served:
            return None
        self._served = identity.pem()
        return certificates(identity)

    async def _answer(self, _: Any, context: Any) -> None:
        """One incoming stream, from its greeting to its end."""
        read = _reader(context)
        try:
            message = await asyncio.wait_for(read(), _GREETING_SECONDS) or b""
            hello = Hello.decode(message)
            names, key = self._shown(context)
            self._admit(hello, names, key)
            answer = Answer(self._name, self._purpose, self._accord)
            if self._identity is not None:
                identity = self._identity()
                answer = answer.signed(message, key, identity.public, identity.sign)
        except (CoveyError, TimeoutError) as problem:
            await context.write(Answer("", "run", {}, refused=str(problem) or "no greeting came").encode())
            return
        await context.write(answer.encode())
        if self._agreed(hello.name, hello.accord, hello.purpose):
            await self._talk(hello.name, hello.name, read, context.write)

    def _shown(self, context: Any) -> tuple[Sequence[str], str]:
        """The names and the key of the dialler, as TLS verified them."""
        if self._identity is None:
            return (), ""
        return own.of_certificate(next(iter(context.auth_context().get("x509_pem_cert", ())), b""))

    def _admit(self, hello: Hello, names: Sequence[str], key: str) -> None:
        try:
            self._rules.admit(hello, names, key)
        except Refused as problem:
            self._report(hello.name, str(problem))
            raise
        live = self._live.get(hello.name)
        settled = live is not None and live.preferred and not self._rules.preferred(hello.name, hello.name)
        if settled and hello.purpose == "run":
            raise Refused(CONNECTED)

    # -------------------------------------------------------------------------------------------- the dialling end

    async def _keep_dialling(self, far: Neighbour) -> None:
        """Until this peer stops: while there is no stream with this neighbour, try for one."""
        backoff = Backoff(_FIRST_SECONDS, _MOST_SECONDS, self._random.random)
        if not self._rules.preferred(far.name, self._name):
            await asyncio.sleep(_YIELD_SECONDS)
        while True:
            if far.name not in self._live:
                try:
                    if await self._dial(far):
                        backoff.reset()
                except Refused as problem:
                    self._report(far.name, str(problem))
                except CoveyError as problem:
                    self._report(far.name, f"{far.name} at {far.address}: {problem}")
                except grpc.aio.AioRpcError as problem:
                    self._report(
                        far.name, f"{far.name} cannot be reached at {far.address}: {cause_of(problem, greeting=True)}."
                    )
                except TimeoutError:
                    self._report(far.name, f"{far.name} at {far.address} does not answer.")
            await asyncio.sleep(backoff.seconds())

    async def _dial(self, far: Neighbour) -> bool:
        """Greet, and talk until the stream ends; whether there was any talk."""
        assert far.address is not None
        self._rules.dial(far)
        identity = None if self._identity is None else self._identity()
        channel = channel_to(far.address, far.name, identity)
        try:
            call = cast(Any, channel.stream_stream(f"/{_SERVICE}/{_STREAM}"))()
            try:
                return await self._greet(far, identity, call)
            finally:
                call.cancel()
        finally:
            await channel.close()

    async def _greet(self, far: Neighbour, identity: own.Identity | None, call: Any) -> bool:
        hello = Hello.fresh(self._name, far.name, self._purpose, self._accord).encode()
        read = _reader(call)
        async with asyncio.timeout(_GREETING_SECONDS):
            await call.write(hello)
            message = await read()
        if message is None:
            raise Refused(f"{far.name} at {far.address} closed the connection without an answer.")
        answer = Answer.decode(message)
        if answer.refused == CONNECTED:
            return False
        self._rules.accept(answer, hello, far, identity)
        if not self._agreed(far.name, answer.accord, answer.purpose):
            return False
        return await self._talk(far.name, self._name, read, call.write)

    # ------------------------------------------------------------------------------------------------- both ends

    def _agreed(self, name: str, theirs: Accord, purpose: Purpose) -> bool:
        """Whether frames may be exchanged: settings are alike, and neither end is only checking."""
        self._report(name, differences(self._accord, theirs, name))
        return differences(self._accord, theirs, name) is None and purpose == self._purpose == "run"

    async def _talk(self, name: str, dialler: str, read: Read, write: Write) -> bool:
        """Carry frames until the stream ends; False where another stream with this neighbour is preferred."""
        connection = Connection(name, self._rules.preferred(name, dialler), read, write, self._largest)
        earlier = self._live.get(name)
        if earlier is not None:
            if earlier.preferred and not connection.preferred:
                return False
            self._drop(earlier, "replaced by a new connection")
        self._live[name] = connection
        self._up(name)
        why = "the other end hung up"
        try:
            await connection.carry(
                lambda frame: self._deliver(name, frame) if self._live.get(name) is connection else None,
                self._leaving,
            )
        except Unfit as problem:
            why = str(problem)
        except grpc.aio.AioRpcError as problem:
            why = f"the connection broke ({cause_of(problem)})"
        except (grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError) as problem:
            why = f"the connection broke ({problem})"
        except Exception as problem:  # of who takes the frames: this connection ends, and the others go on
            log.exception("a frame of %s could not be taken", name)
            why = f"{type(problem).__name__}: {problem}"
        finally:
            self._drop(connection, connection.ended or why)
        return True

    def _drop(self, connection: Connection, why: str) -> None:
        connection.end(why)
        if self._live.get(connection.name) is connection:
            del self._live[connection.name]
            self._down(connection.name, why)


def _loop() -> asyncio.AbstractEventLoop:
    """The process's one loop for all its transports: gRPC's events of a loop that is closed go astray."""
    with _made:
        return _new_loop()


_made = threading.Lock()


@cache
def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="covey transport", daemon=True).start()
    return loop


def _reader(stream: Any) -> Read:
    async def read() -> bytes | None:
        message = await stream.read()
        return None if message is _EOF else message

    return read
