"""host:port."""

from __future__ import annotations

import ipaddress

from covey.errors import BadInput


def split_address(address: str) -> tuple[str, int]:
    """Host and port; [::1]:7001 for IPv6."""
    host, colon, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not bare or not port.isdigit() or int(port) > 65535 or (":" in bare and bare == host):
        raise BadInput(f"'{address}' is no address; write host:port, such as east.example.org:7001 or [::1]:7001.")
    return bare, int(port)


def is_loopback(address: str) -> bool:
    """Whether the address is this machine's own and can be reached from no other."""
    host, _ = split_address(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
