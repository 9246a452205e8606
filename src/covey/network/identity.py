"""Who a peer is: a private key that never leaves its machine, and a certificate that others believe.

A peer is known by the fingerprint of its public key, so a certificate may be renewed, and the authority changed,
without telling anybody. Files are PEM; keys are readable by their owner only.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from covey.errors import BadInput
from covey.network.names import require_name

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

BACKDATED = timedelta(days=1)  # certificates begin so much before they are signed: clocks may be wrong by that
WARN = timedelta(days=30)  # before a certificate ends

_SHA = hashes.SHA256()
_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)


@dataclass(frozen=True)
class Identity:
    """One peer's key and certificates, as they lie on the disk now.

    certificate  the peer's own first, then those between it and the authority, if there are any
    authority    the certificates of whom this peer believes; several while an authority is changed
    """

    name: str
    key: PrivateKey
    certificate: tuple[x509.Certificate, ...]
    authority: tuple[x509.Certificate, ...]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key.public_key())

    @property
    def public(self) -> bytes:
        return public_bytes(self.key.public_key())

    @property
    def ends(self) -> datetime:
        return self.certificate[0].not_valid_after_utc

    def sign(self, text: bytes) -> bytes:
        if isinstance(self.key, rsa.RSAPrivateKey):
            return self.key.sign(text, _PSS, _SHA)
        return self.key.sign(text, ec.ECDSA(_SHA))

    def pem(self) -> tuple[bytes, bytes, bytes]:
        """Key, certificates and authority, as TLS takes them."""
        return key_pem(self.key), _pem(self.certificate), _pem(self.authority)

    def warning(self, now: datetime | None = None) -> str | None:
        """A sentence where the certificate ends soon."""
        left = self.ends - (now or datetime.now(UTC))
        if left > WARN:
            return None
        return f"The certificate of {self.name} ends in {left.days} days ({self.ends:%Y-%m-%d %H:%M} UTC); renew it."


def load(name: str, key: Path, certificate: Path, authority: Path, now: datetime | None = None) -> Identity:
    """The identity that these files hold; refused where others would refuse it."""
    own = Identity(require_name(name), read_key(key), read_certificates(certificate), read_certificates(authority))
    first = own.certificate[0]
    if public_bytes(_supported(first.public_key(), certificate)) != own.public:
        raise BadInput(f"{certificate} belongs to another key than {key}; have the request of this key signed.")
    if name not in names_of(first):
        raise BadInput(f"{certificate} is for {', '.join(names_of(first)) or 'nobody'}, not for {name}.")
    _require_chain(own, certificate, authority)
    now = now or datetime.now(UTC)
    begins = first.not_valid_before_utc
    if not begins <= now <= own.ends:
        raise BadInput(
            f"{certificate} is valid from {begins:%Y-%m-%d %H:%M} to {own.ends:%Y-%m-%d %H:%M} UTC, and this machine's "
            f"clock says {now:%Y-%m-%d %H:%M}; set the clock, or renew the certificate."
        )
    return own


def create(name: str, folder: Path) -> tuple[Path, Path, str]:
    """A key and a request to certify it: their files and the fingerprint. A key that is there is kept, so that this
    also renews a request."""
    require_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    at, request = folder / f"{name}.key", folder / f"{name}.csr"
    key = read_key(at) if at.exists() else new_key(at)
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject(name))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    request.write_bytes(builder.sign(key, _SHA).public_bytes(serialization.Encoding.PEM))
    return at, request, fingerprint(key.public_key())


def new_key(at: Path) -> PrivateKey:
    """A key on the curve P-256, in a file that only its owner can read."""
    key = ec.generate_private_key(ec.SECP256R1())
    with os.fdopen(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key_pem(key))
    return key


def key_pem(key: PrivateKey) -> bytes:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain)


def read_key(path: Path) -> PrivateKey:
    content = read(path)
    if path.stat().st_mode & 0o077:
        raise BadInput(f"{path} can be read by others; run: chmod 600 {path}")
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise BadInput(f"{path} is no private key in PEM without a passphrase ({problem}).") from problem
    if not isinstance(key, PrivateKey):
        raise BadInput(f"{path} is neither an elliptic-curve nor an RSA key; make one with: covey peer init.")
    return key


def read_certificates(path: Path) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_pem_x509_certificates(read(path)))
    except ValueError as problem:
        raise BadInput(f"{path} holds no certificate in PEM ({problem}).") from problem


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise BadInput(f"{path} cannot be read ({problem.strerror}).") from problem


def public_bytes(key: PublicKey) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.DER, form)


def fingerprint(key: PublicKey | bytes) -> str:
    """`sha256:…` of the public key, whatever certificate it is in."""
    return "sha256:" + hashlib.sha256(key if isinstance(key, bytes) else public_bytes(key)).hexdigest()


def verify(public: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the holder of this public key signed the text."""
    try:
        key = serialization.load_der_public_key(public)
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, text, _PSS, _SHA)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, text, ec.ECDSA(_SHA))
        else:
            return False
    except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def of_certificate(pem: bytes) -> tuple[tuple[str, ...], str]:
    """The names in a certificate that TLS has verified, and the fingerprint of its key."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        return names_of(certificate), fingerprint(_supported(certificate.public_key(), Path("certificate")))
    except ValueError:
        return (), ""


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return tuple(extension.value.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return tuple(str(one.value) for one in common)


def subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _supported(key: object, where: Path) -> PublicKey:
    if not isinstance(key, PublicKey):
        raise BadInput(f"{where} holds neither an elliptic-curve nor an RSA key.")
    return key


def _require_chain(own: Identity, certificate: Path, authority: Path) -> None:
    """Each certificate signed by the next, the last one by somebody this peer believes."""
    *chain, last = own.certificate
    for one, above in zip(chain, own.certificate[1:], strict=True):
        if not _issued(one, above):
            raise BadInput(f"{certificate}: one of its certificates is not signed by the one that follows it.")
    if not any(_issued(last, one) or last == one for one in own.authority):
        raise BadInput(f"{certificate} was not signed by the authority of {authority}; name the one that signed it.")


def _issued(one: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        one.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _pem(certificates: tuple[x509.Certificate, ...]) -> bytes:
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)
