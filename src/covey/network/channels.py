"""How gRPC is set up: certificates, options, and what its errors mean."""

from __future__ import annotations

import os
from collections.abc import Mapping

import grpc
import grpc.aio

from covey.network.addresses import is_loopback
from covey.network.identity import Identity
from covey.network.pieces import PIECE

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own log on stderr repeats what is reported in a sentence

Options = list[tuple[str, int | str]]


def server_options() -> Options:
    """A port belongs to one peer; a neighbour has one stream, and a second one while it dials anew."""
    return _options({"grpc.so_reuseport": 0, "grpc.max_concurrent_streams": 2})


def channel_to(address: str, name: str, identity: Identity | None) -> grpc.aio.Channel:
    """A connection to the peer `name`, whose certificate must bear that name; without an identity, in plain text."""
    extra: dict[str, int | str] = {"grpc.use_local_subchannel_pool": 1}  # a handshake of its own, with the
    if is_loopback(address):  #                                            certificates as they are now
        extra["grpc.enable_http_proxy"] = 0
    if identity is None:
        return grpc.aio.insecure_channel(address, options=_options(extra))
    key, certificate, authority = identity.pem()
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    extra["grpc.ssl_target_name_override"] = name
    return grpc.aio.secure_channel(address, credentials, options=_options(extra))


def certificates(identity: Identity) -> grpc.ServerCertificateConfiguration:
    key, certificate, authority = identity.pem()
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authority)


def _options(extra: Mapping[str, int | str]) -> Options:
    common: dict[str, int | str] = {
        "grpc.max_receive_message_length": PIECE + 4096,
        "grpc.max_send_message_length": PIECE + 4096,
        "grpc.http2.max_frame_size": (1 << 24) - 1,  # 16 kB by default: measured 1.4 times slower
        "grpc.keepalive_time_ms": 20_000,  # a dead line is noticed within 30 s
        "grpc.keepalive_timeout_ms": 10_000,
        "grpc.keepalive_permit_without_calls": 1,
        "grpc.http2.max_pings_without_data": 0,
        "grpc.http2.min_ping_interval_without_data_ms": 10_000,
        "grpc.http2.min_recv_ping_interval_without_data_ms": 10_000,
        "grpc.max_reconnect_backoff_ms": 1000,  # the pauses are made in over_grpc.py
    }
    return [*(common | dict(extra)).items()]


def cause_of(problem: grpc.aio.AioRpcError, greeting: bool = False) -> str:
    """The end of gRPC's long explanation, which is the cause."""
    text = (problem.details() or problem.code().name).strip().rstrip(".")
    if "CERTIFICATE_VERIFY_FAILED" in text:
        cause = text.partition("CERTIFICATE_VERIFY_FAILED: ")[2].partition(":")[0]
        return f"its certificate is not accepted here ({cause})"
    if "onnection refused" in text:
        return "nobody listens there"
    if greeting and ("Socket closed" in text or "Connection reset" in text or "handshake" in text):
        return "it hung up before the greeting; perhaps it does not accept this peer's certificate, or speaks no TLS"
    return text.rpartition("last error: ")[2].removeprefix("UNAVAILABLE: ")
