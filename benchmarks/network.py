"""An exchange of 100 MB with each of two neighbours over TLS on loopback, beside what a bare TLS socket moves.

One peer says 100 MB to each of two neighbours while it hears 100 MB from each; all three are processes. The bare side
is Python's `ssl` with the same key, cipher and pattern, in the faster of two forms: a thread per direction that
blocks, or one loop over sockets that do not. The sides alternate and the median of the ratios counts.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import selectors
import socket
import ssl
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

from covey.network import authority, identity
from covey.network.admission import Neighbour
from covey.network.over_grpc import GrpcTransport
from covey.network.transport import Part

NAMES = ("middle", "left", "right")
BYTES = 100_000_000
CIPHER = "TLS_AES_128_GCM_SHA256"  # what gRPC's TLS chooses where the processor has AES
_CONFIGURATION = f"openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nCiphersuites = {CIPHER}\n"


def of_transport(folder: Path, name: str, port: int, size: int, turns: int, together: Barrier) -> list[float]:
    """Seconds of each exchange, as one of the three sees them. What leaves is digested, as the audit log wants it."""
    prints = dict(line.split() for line in (folder / "prints").read_text().splitlines())
    files = folder / f"{name}.key", folder / f"{name}.crt", folder / "authority" / "authority.crt"
    others = NAMES[1:] if name == "middle" else NAMES[:1]
    at = None if name == "middle" else f"127.0.0.1:{port}"
    heard, connected = threading.Semaphore(0), threading.Semaphore(0)

    def deliver(other: str, frame: Part) -> None:
        heard.release()

    def leaving(other: str, parts: object) -> None:
        digest = hashlib.sha256()
        for part in parts:  # pyright: ignore
            digest.update(part)

    transport = GrpcTransport(
        name, [Neighbour(other, prints[other], at) for other in others], lambda: identity.load(name, *files),
        f"127.0.0.1:{port}" if name == "middle" else None, {}, size, leaving=leaving,
    )  # fmt: skip
    transport.start(deliver, lambda other: connected.release(), lambda other, why: None)
    for _ in others:
        connected.acquire()
    frame, seconds = memoryview(bytes(size)), list[float]()
    for turn in range(turns):
        together.wait()
        begin = time.perf_counter()
        for other in others:
            while not transport.send(other, [b"turn %d" % turn, frame[: size - 8]]):
                time.sleep(0.001)
        for _ in others:
            heard.acquire()
        seconds.append(time.perf_counter() - begin)
        together.wait()
    transport.close()
    return seconds


def of_socket(folder: Path, name: str, port: int, size: int, turns: int, together: Barrier, form: str) -> list[float]:
    """The same over bare sockets: two per neighbour where threads block, one where nothing does."""
    each = 2 if form == "threads" else 1
    if name == "middle":
        with socket.create_server(("127.0.0.1", port)) as server:
            together.wait()
            lines = [_wrapped(folder, name, server.accept()[0]) for _ in range(2 * each)]
    else:
        together.wait()
        lines = [_wrapped(folder, name, socket.create_connection(("127.0.0.1", port))) for _ in range(each)]
    for line in lines:
        cipher = line.cipher()
        assert cipher is not None and cipher[0] == CIPHER, cipher
    if each == 2:  # which of its lines a process says on: the dialler's first
        firsts = [line for line in lines if _first(line, name)]
        out, into = (list[ssl.SSLSocket](), firsts) if name == "middle" else (firsts, list[ssl.SSLSocket]())
        rest = [line for line in lines if line not in firsts]
        out, into = (rest, into) if name == "middle" else (out, rest)
        exchange: Callable[[], None] = lambda: _by_threads(out, into, size)  # noqa: E731
    else:
        exchange = lambda: _by_loop(lines, size)  # noqa: E731
    seconds = list[float]()
    for _ in range(turns):
        together.wait()
        begin = time.perf_counter()
        exchange()
        seconds.append(time.perf_counter() - begin)
        together.wait()
    return seconds


_order: dict[str, list[ssl.SSLSocket]] = {}


def _first(line: ssl.SSLSocket, name: str) -> bool:
    """Both ends agree which of two lines is the first: the dialler marks each with a byte."""
    if name == "middle":
        return line.recv(1) == b"1"
    lines = _order.setdefault(name, [])
    lines.append(line)
    line.sendall(b"%d" % len(lines))
    return len(lines) == 1


def _wrapped(folder: Path, name: str, line: socket.socket) -> ssl.SSLSocket:
    server = name == "middle"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(folder / "authority" / "authority.crt")
    context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    return context.wrap_socket(line, server_side=server)


def _by_threads(out: list[ssl.SSLSocket], into: list[ssl.SSLSocket], size: int) -> None:
    def hear(line: ssl.SSLSocket) -> None:
        room, at = memoryview(bytearray(size)), 0
        while at < size:
            at += line.recv_into(room[at:], 1 << 20)

    data = bytes(size)
    tasks = [threading.Thread(target=line.sendall, args=(data,)) for line in out]
    tasks += [threading.Thread(target=hear, args=(line,)) for line in into]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()


def _by_loop(lines: list[ssl.SSLSocket], size: int) -> None:
    data, watch = memoryview(bytes(size)), selectors.DefaultSelector()
    said, heard = dict.fromkeys(lines, 0), dict.fromkeys(lines, 0)
    rooms = {line: memoryview(bytearray(size)) for line in lines}
    for line in lines:
        line.setblocking(False)
        watch.register(line, selectors.EVENT_READ | selectors.EVENT_WRITE)
    waits = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
    while watch.get_map():
        for key, _ in watch.select():
            line: ssl.SSLSocket = key.fileobj  # pyright: ignore
            try:
                for _ in range(16):  # a record at a time, and several before the next look round
                    if heard[line] < size:
                        heard[line] += line.recv_into(rooms[line][heard[line] :], 1 << 20)
            except waits:
                pass
            try:
                if said[line] < size:
                    said[line] += line.send(data[said[line] : said[line] + (1 << 18)])
            except waits:
                pass
            if said[line] == heard[line] == size:
                watch.unregister(line)
            elif said[line] == size:
                watch.modify(line, selectors.EVENT_READ)


def _process(kind: str, folder: Path, name: str, port: int, size: int, turns: int, together: Barrier,
             out: multiprocessing.SimpleQueue[list[float]]) -> None:  # fmt: skip
    if kind == "transport":
        seconds = of_transport(folder, name, port, size, turns, together)
    else:
        seconds = of_socket(folder, name, port, size, turns, together, kind)
    if name == "middle":
        out.put(seconds)


def exchange(kind: str, folder: Path, size: int, turns: int) -> float:
    """Seconds of the fastest of some exchanges, which is the one that other work on the machine disturbed least."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["covey.network.over_grpc"])  # the imports, once
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together, out = context.Barrier(3), context.SimpleQueue()
    given = [(kind, folder, name, port, size, turns, together, out) for name in NAMES]
    processes = [context.Process(target=_process, args=one) for one in given]
    for one in processes:
        one.start()
    seconds = out.get()
    for one in processes:
        one.join()
    return min(seconds)


def measure(size: int = BYTES, rounds: int = 3, turns: int = 3) -> list[dict[str, float]]:
    """MB/s in and out of the middle peer, by side, once per round."""
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        authority.establish(folder / "authority", 2)
        prints = ""
        for name in NAMES:
            _, request, fingerprint = identity.create(name, folder)
            authority.sign(request, folder / "authority", 1)
            prints += f"{name} {fingerprint}\n"
        (folder / "prints").write_text(prints)
        (folder / "openssl.cnf").write_text(_CONFIGURATION)
        os.environ["OPENSSL_CONF"] = str(folder / "openssl.cnf")  # the only way to choose a cipher of TLS 1.3
        for _ in range(rounds):
            sides = {kind: exchange(kind, folder, size, turns) for kind in ("transport", "threads", "loop")}
            found.append({kind: 4 * size / seconds / 1e6 for kind, seconds in sides.items()})
    return found


def main() -> None:
    print(
        f"{'':8}{'covey MB/s':>12}{'bare, threads':>15}{'bare, loop':>12}{'ratio':>8}   (of the faster; at least 0.6)"
    )
    ratios: list[float] = []
    for number, found in enumerate(measure(), 1):
        ratios.append(found["transport"] / max(found["threads"], found["loop"]))
        row = "".join(f"{found[kind]:{width}.0f}" for kind, width in (("transport", 12), ("threads", 15), ("loop", 12)))
        print(f"round {number:<2}{row}{ratios[-1]:8.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    sys.exit(main())
