"""Keys, certificates and who believes whom."""

from __future__ import annotations

import ssl
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from covey.errors import BadInput
from covey.network import authority, identity
from network.consortium import Consortium

NOW = datetime.now(UTC)


def test_a_key_is_for_its_owner_alone_and_is_kept(tmp_path: Path) -> None:
    key, request, first = identity.create("north", tmp_path)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    content = key.read_bytes()
    assert identity.create("north", tmp_path) == (key, request, first) and key.read_bytes() == content
    key.chmod(0o640)
    with pytest.raises(BadInput, match="can be read by others; run: chmod 600"):
        identity.read_key(key)


def test_openssl_reads_what_was_written_and_agrees(tmp_path: Path) -> None:
    """Another implementation checks the request, the chain, the dates and the fingerprint."""
    made = Consortium.of(tmp_path, "north")
    authority_crt, certificate = made.believed, tmp_path / "north.crt"

    def openssl(*words: object) -> bytes:
        return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True).stdout

    openssl("req", "-verify", "-noout", "-in", tmp_path / "north.csr")
    for purpose in ("sslclient", "sslserver"):
        openssl("verify", "-purpose", purpose, "-CAfile", authority_crt, "-verify_hostname", "north", certificate)
    public = openssl("pkey", "-in", tmp_path / "north.key", "-pubout", "-outform", "DER")
    digest = subprocess.run(["openssl", "sha256", "-r"], input=public, capture_output=True, check=True).stdout
    assert made.prints["north"] == "sha256:" + digest.decode().split()[0]
    begins = openssl("x509", "-in", certificate, "-noout", "-startdate").decode().strip().removeprefix("notBefore=")
    assert datetime.now(UTC).timestamp() - ssl.cert_time_to_seconds(begins) == pytest.approx(86400, abs=60)


def test_a_renewed_certificate_keeps_the_fingerprint(tmp_path: Path) -> None:
    made = Consortium.of(tmp_path, "north")
    before, print_before = made.identity("north"), made.prints["north"]
    made.admit("north", days=200)
    after = made.identity("north")
    assert before.certificate[0].serial_number != after.certificate[0].serial_number
    assert before.fingerprint == after.fingerprint == made.prints["north"] == print_before


def test_a_signature_is_of_one_key_and_one_text(tmp_path: Path) -> None:
    made = Consortium.of(tmp_path, "north", "south")
    north, south = made.identity("north"), made.identity("south")
    signature = north.sign(b"text")
    assert identity.verify(north.public, signature, b"text")
    assert not identity.verify(north.public, signature, b"texT")
    assert not identity.verify(south.public, signature, b"text")
    assert not identity.verify(b"no key", signature, b"text") and not identity.verify(north.public, b"", b"text")


def test_an_rsa_key_of_ones_own_serves(tmp_path: Path) -> None:
    made, key = Consortium.of(tmp_path), tmp_path / "own.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    key.chmod(0o600)
    made.admit("own")  # the key is there, so it is taken
    own = made.identity("own")
    assert identity.verify(own.public, own.sign(b"text"), b"text")


def test_the_end_is_announced(tmp_path: Path) -> None:
    made = Consortium.of(tmp_path, "north")
    own = made.identity("north")
    assert own.warning(own.ends - timedelta(days=31)) is None
    said = own.warning(own.ends - timedelta(days=4, hours=1))
    assert said is not None and "The certificate of north ends in 4 days" in said


def test_a_clock_wrong_by_a_day_is_borne_and_no_more(tmp_path: Path) -> None:
    made = Consortium.of(tmp_path, "north")
    files = (tmp_path / "north.key", tmp_path / "north.crt", made.believed)
    identity.load("north", *files, now=NOW - timedelta(hours=23))
    for wrong in (NOW - timedelta(hours=25), NOW + timedelta(days=91)):
        with pytest.raises(BadInput, match="set the clock, or renew the certificate"):
            identity.load("north", *files, now=wrong)


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    made = Consortium.of(tmp_path)
    made.admit("north", days=3650)
    assert made.identity("north").ends == identity.read_certificates(made.believed)[0].not_valid_after_utc


def test_refused(tmp_path: Path) -> None:
    made, other = Consortium.of(tmp_path / "one", "north", "south"), Consortium.of(tmp_path / "two", "north")
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "text.pem").write_text("no certificate")
    cases = {
        "belongs to another key": ("north", one / "north.key", one / "south.crt", made.believed),
        "is for north, not for south": ("south", one / "north.key", one / "north.crt", made.believed),
        "was not signed by the authority": ("north", two / "north.key", two / "north.crt", made.believed),
        "holds no certificate": ("north", one / "north.key", one / "text.pem", made.believed),
        "cannot be read (No such file": ("north", one / "none.key", one / "north.crt", made.believed),
        "cannot be a peer's name": ("North Wing", one / "north.key", one / "north.crt", other.believed),
    }
    for words, files in cases.items():
        with pytest.raises(BadInput) as refusal:
            identity.load(*files)
        assert words in str(refusal.value) and "\n" not in str(refusal.value)
    with pytest.raises(BadInput, match="is no certificate request"):
        authority.sign(one / "text.pem", one / "authority", 10)
    with pytest.raises(BadInput, match=r"an authority in .* already"):
        authority.establish(one / "authority", 10)
