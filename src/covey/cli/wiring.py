"""The transport that the settings of a peer describe."""

from __future__ import annotations

from pathlib import Path

from covey.cli.site import Site
from covey.network import identity
from covey.network.admission import Neighbour
from covey.network.connection import Leaving
from covey.network.hello import Purpose
from covey.network.over_grpc import GrpcTransport, Report
from covey.network.settings import IdentityTable, Settings


def neighbours_of(settings: Settings) -> list[Neighbour]:
    return [Neighbour(one.name, one.fingerprint, one.address) for one in settings.neighbours]


def transport_of(site: Site, purpose: Purpose, report: Report, leaving: Leaving | None = None) -> GrpcTransport:
    settings = site.settings
    own = None if settings.network.plaintext else settings.identity
    if own is not None:
        load_identity(settings.name, own)  # refused now, and not in the background

    def read() -> identity.Identity:
        assert own is not None
        return load_identity(settings.name, own)

    return GrpcTransport(
        settings.name, neighbours_of(settings), None if own is None else read, settings.network.listen, site.accord,
        site.largest, purpose=purpose, leaving=leaving, report=report,
        revoked=lambda: _revoked(None if own is None else own.revoked),
    )  # fmt: skip


def load_identity(name: str, own: IdentityTable) -> identity.Identity:
    return identity.load(name, own.key, own.certificate, own.authority)


def _revoked(path: Path | None) -> frozenset[str]:
    """The fingerprints of the file, one a line; a file that is not there yet revokes nobody."""
    if path is None or not path.exists():
        return frozenset()
    return frozenset(word for line in path.read_text().splitlines() for word in line.split()[:1])
