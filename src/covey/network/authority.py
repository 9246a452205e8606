"""A small certificate authority, for a consortium that has none: it says which names belong to which keys.

It signs requests and does nothing else; its key belongs on a machine that runs no peer. Whoever has it can name new
peers, but not speak for an old one: peers also know each other's keys by fingerprint.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID as Use
from cryptography.x509.oid import NameOID

from covey.errors import BadInput
from covey.network.identity import (
    BACKDATED,
    PrivateKey,
    PublicKey,
    fingerprint,
    new_key,
    read,
    read_certificates,
    read_key,
    subject,
)
from covey.network.names import require_name

_KEY, _CERTIFICATE = "authority.key", "authority.crt"


def establish(folder: Path, days: int, now: datetime | None = None) -> Path:
    """A new authority: its key and the certificate to hand to every peer."""
    at = folder / _CERTIFICATE
    if at.exists() or (folder / _KEY).exists():
        raise BadInput(f"There is an authority in {folder} already; name another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    key = new_key(folder / _KEY)
    name, begin = subject("covey authority"), now or datetime.now(UTC)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _certificate(name, name, key.public_key(), begin, _days(days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True).add_extension(own, critical=False)
    at.write_bytes(_signed(builder, key))
    return at


def sign(request: Path, folder: Path, days: int, now: datetime | None = None) -> tuple[str, Path, str]:
    """Certify a request: the name, the certificate's file beside the request, and the fingerprint to compare."""
    try:
        asked = x509.load_pem_x509_csr(read(request))
    except ValueError as problem:
        raise BadInput(f"{request} is no certificate request in PEM ({problem}).") from problem
    key, common = asked.public_key(), asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not asked.is_signature_valid or not isinstance(key, PublicKey) or len(common) != 1:
        raise BadInput(f"{request} is no valid request for one name; make one with: covey peer init NAME.")
    name = require_name(str(common[0].value))
    own, issuer = read_key(folder / _KEY), read_certificates(folder / _CERTIFICATE)[0]
    begin = now or datetime.now(UTC)
    end = min(begin + _days(days), issuer.not_valid_after_utc)  # nothing outlives who vouches for it
    builder = _certificate(asked.subject, issuer.subject, key, begin, end - begin)
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs=False), True),
        (x509.ExtendedKeyUsage([Use.SERVER_AUTH, Use.CLIENT_AUTH]), False),  # either end may dial
        (x509.SubjectAlternativeName([x509.DNSName(name)]), False),  # this name, whatever else was asked for
        (x509.SubjectKeyIdentifier.from_public_key(key), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(own.public_key()), False),
    ):
        builder = builder.add_extension(extension, critical)
    at = request.with_suffix(".crt")
    fresh = at.with_suffix(".new")  # a running peer reads the file at any moment: never half of it
    fresh.write_bytes(_signed(builder, own))
    fresh.replace(at)
    return name, at, fingerprint(key)


def _days(days: int) -> timedelta:
    if not 1 <= days <= 36500:
        raise BadInput(f"A certificate for {days} days is of no use; say 1 to 36500.")
    return timedelta(days=days)


def _certificate(name: x509.Name, issuer: x509.Name, key: PublicKey, begin: datetime, time: timedelta
                 ) -> x509.CertificateBuilder:  # fmt: skip
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(begin - BACKDATED).not_valid_after(begin + time)


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _signed(builder: x509.CertificateBuilder, key: PrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
