"""What a peer is doing, for people and for Prometheus: GET /metrics, and the same as JSON at GET /status."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from covey.errors import BadInput
from covey.network.addresses import split_address

Now = Callable[[], Mapping[str, Any]]  # `Status.as_dict`, and what the process adds to it

_PRESENCES = ("alive", "late", "gone", "unseen")
# name: (kind, help, key in the status)
_OF_THE_PEER = {
    "covey_round": ("gauge", "The round under way, from 0.", "round"),
    "covey_rounds": ("gauge", "The rounds that were asked for.", "rounds"),
    "covey_rounds_skipped_total": ("counter", "Rounds that neighbours played without this peer.", "skipped"),
    "covey_started_seconds": ("gauge", "When the process began, in seconds since 1970.", "started"),
    "covey_certificate_ends_seconds": ("gauge", "When this peer's certificate ends.", "certificate_ends"),
}
_OF_A_NEIGHBOUR = {
    "covey_neighbour_since_seconds": ("gauge", "Since when it is what it is.", "since"),
    "covey_neighbour_missed_total": ("counter", "Rounds that went on without it.", "missed"),
    "covey_neighbour_sent_bytes_total": ("counter", "Bytes said to it.", "bytes_out"),
    "covey_neighbour_received_bytes_total": ("counter", "Bytes heard from it.", "bytes_in"),
    "covey_neighbour_resent_total": ("counter", "Messages said again.", "resent"),
    "covey_neighbour_duplicates_total": ("counter", "Messages heard again.", "twice"),
    "covey_neighbour_stale_total": ("counter", "Messages of rounds that were over.", "stale"),
    "covey_neighbour_refused_total": ("counter", "Frames that were refused.", "refused"),
    "covey_neighbour_waiting": ("gauge", "Messages that it has not kept yet.", "waiting"),
}


def exposition(status: Mapping[str, Any]) -> str:
    """The status in Prometheus' text format, version 0.0.4."""
    lines: list[str] = []
    own = {"peer": status["name"], "run": status["run"]}

    def metric(name: str, kind: str, about: str, values: Sequence[tuple[Mapping[str, str], float]]) -> None:
        if values:
            lines.extend((f"# HELP {name} {about}", f"# TYPE {name} {kind}"))
            lines.extend(f"{name}{_labels(labels)} {_number(value)}" for labels, value in values)

    for name, (kind, about, key) in _OF_THE_PEER.items():
        metric(name, kind, about, [(own, status[key])] if key in status else [])
    losses = [(own | {"phase": phase}, value) for phase, value in status["losses"].items()]
    metric("covey_loss", "gauge", "The mean training loss of the last round.", losses)
    doing = [(own | {"doing": status["doing"]}, 1.0)]
    metric("covey_doing", "gauge", "1 for what the peer is at.", doing)
    failed = [(own, float(bool(status["last_error"])))]
    metric("covey_error", "gauge", "1 where the last thing that happened was an error.", failed)
    far: Mapping[str, Mapping[str, Any]] = status["neighbours"]
    presence = [
        (own | {"neighbour": other, "presence": one}, float(them["presence"] == one))
        for other, them in far.items()
        for one in _PRESENCES
    ]
    metric("covey_neighbour_presence", "gauge", "1 for what the neighbour is now.", presence)
    for name, (kind, about, key) in _OF_A_NEIGHBOUR.items():
        values = [(own | {"neighbour": other}, them[key]) for other, them in far.items() if key in them]
        metric(name, kind, about, values)
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{quoted(text)}"' for name, text in labels.items()) + "}"


def _number(value: float) -> str:
    """Losses may be infinite or no number; Prometheus has words for that."""
    if value != value:
        return "NaN"
    return {float("inf"): "+Inf", float("-inf"): "-Inf"}.get(value) or repr(value)


class Board:
    """Serves the status at an address until it is closed."""

    def __init__(self, address: str, now: Now) -> None:
        host, port = split_address(address)
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(now))
        except OSError as problem:
            raise BadInput(
                f"The status cannot be shown at {address} ({problem.strerror}); name a free port."
            ) from problem
        self._server.daemon_threads = True
        self.address = f"{host}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="covey status", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(now: Now) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds that a caller may take

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._reply(200, "text/plain; version=0.0.4", exposition(now()))
            elif self.path in ("/", "/status"):
                self._reply(200, "application/json", json.dumps(now(), default=str))
            else:
                self._reply(404, "text/plain", "There is /metrics and /status.\n")

        def _reply(self, code: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: whoever asks every second fills no log."""

    return Handler
