"""Whom the transport keeps out; each case is refused by name, and no frame of theirs arrives."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.errors import BadInput
from covey.network import hello, identity
from covey.network.admission import Neighbour
from covey.network.hello import Answer, Hello
from covey.network.over_grpc import GrpcTransport
from network.consortium import Consortium, Site, free_port

OTHER = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return Consortium.of(tmp_path_factory.mktemp("pki"), "a", "b", "c")


def stays_out(a: Site, b: Site, words: str, where: Site) -> None:
    said = where.wait_report(words)
    assert "\n" not in said
    time.sleep(0.2)
    assert a.events == b.events == [] and not b.say("a", b"frame") and a.frames == []


def test_a_stranger_with_a_good_certificate(made: Consortium) -> None:
    with Site(made, "a", {"b": None}) as a, Site(made, "c", {"a": a.address}, None) as c:
        stays_out(a, c, "a turned c away: it is no neighbour of a", a)
        c.wait_report("a turned c away")


def test_a_neighbour_who_speaks_for_another(made: Consortium) -> None:
    """c holds a certificate of the consortium, and says it is b."""
    with (
        Site(made, "a", {"b": None}) as a,
        Site(made, "b", {"a": a.address}, None, identity=lambda: made.identity("c")) as c,
    ):
        stays_out(a, c, "somebody with the certificate of c says to be it", a)


def test_another_key_under_the_same_name_at_the_answering_end(made: Consortium, tmp_path: Path) -> None:
    """The authority was talked into a second certificate for b: the fingerprint tells."""
    with Site(made, "a", {"b": None}, prints={"b": OTHER}) as a, Site(made, "b", {"a": a.address}, None) as b:
        stays_out(a, b, f"its key is {made.prints['b']}, not the {OTHER}", a)


def test_another_key_under_the_same_name_at_the_dialled_end(made: Consortium) -> None:
    with Site(made, "a", {"b": None}) as a, Site(made, "b", {"a": a.address}, None, prints={"a": OTHER}) as b:
        said = b.wait_report(f"shows the key {made.prints['a']}, not the {OTHER} known here")
        assert "\n" not in said and b.events == [] and b.frames == []


def test_an_unknown_authority(made: Consortium, tmp_path: Path) -> None:
    other = Consortium.of(tmp_path, "a", "b")
    with Site(made, "a", {"b": None}) as a, Site(other, "b", {"a": a.address}, None) as b:
        stays_out(a, b, "certificate is not accepted", b)


def test_a_client_certificate_of_an_unknown_authority(made: Consortium, tmp_path: Path) -> None:
    """The dialler believes the other, who does not believe it."""
    other = Consortium.of(tmp_path, "b")

    def mixed() -> identity.Identity:
        return replace(other.identity("b"), authority=made.identity("a").authority)

    with Site(made, "a", {"b": None}) as a, Site(made, "b", {"a": a.address}, None, identity=mixed) as b:
        stays_out(a, b, "perhaps it does not accept this peer's certificate", b)


def test_an_expired_certificate(made: Consortium, tmp_path: Path) -> None:
    old = Consortium.of(tmp_path, "b")
    old.admit("a", days=5, now=datetime.now(UTC) - timedelta(days=10))

    def expired() -> identity.Identity:
        files = tmp_path / "a.key", tmp_path / "a.crt", old.believed
        return identity.load("a", *files, now=datetime.now(UTC) - timedelta(days=8))

    with Site(old, "a", {"b": None}, identity=expired) as a, Site(old, "b", {"a": a.address}, None) as b:
        stays_out(a, b, "its certificate is not accepted here (certificate has expired)", b)


def test_a_revoked_key_is_turned_away_at_once_and_cut_off_later(
    made: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.network.over_grpc._REVOKED_SECONDS", 0.1)
    revoked: set[str] = set()
    listed = {"revoked": lambda: frozenset(revoked)}
    with Site(made, "a", {"b": None}, **listed) as a, Site(made, "b", {"a": a.address}, None) as b:
        b.wait_up("a")
        revoked.add(made.prints["b"])
        a.wait_down("b")
        a.wait_report("a turned b away: its key has been revoked")
        b.wait_report("its key has been revoked")


def test_another_address_book(made: Consortium) -> None:
    """b dials a where c is: TLS sees that the certificate is for another name."""
    with Site(made, "c", {"b": None}) as c, Site(made, "b", {"a": c.address}, None) as b:
        stays_out(c, b, "a cannot be reached", b)
        assert c.frames == []


def test_different_settings_are_named_at_both_ends(made: Consortium) -> None:
    one, two = ({"algorithm.lr": lr, "seed": "0", "version.torch": lr} for lr in ("0.1", "0.2"))
    with Site(made, "a", {"b": None}, accord=one) as a, Site(made, "b", {"a": a.address}, None, accord=two) as b:
        stays_out(a, b, "The settings differ: algorithm.lr is 0.1 here and 0.2 at b; make them alike.", a)
        b.wait_report("algorithm.lr is 0.2 here and 0.1 at a")


def test_who_only_checks_is_greeted_and_hears_nothing(made: Consortium) -> None:
    with Site(made, "a", {"b": None}) as a, Site(made, "b", {"a": a.address}, None, purpose="check") as b:
        a.wait(lambda: ("b", None) in a.reports)
        b.wait(lambda: ("a", None) in b.reports)
        stays_out_events = a.events + b.events
        assert stays_out_events == [] and not a.say("b", b"frame")


def test_whoever_stands_between_gets_an_answer_that_is_of_no_use(made: Consortium) -> None:
    """The man in the middle has even a certificate for the right name from the right authority: it passes the hello on
    to the true b under its own key, and b's answer, signed for that key, does not satisfy a."""
    a, b, m = (made.identity(name) for name in "abc")
    wanted = Hello.fresh("a", "b", "run", {"seed": "0"}).encode()
    answer = Answer("b", "run", {"seed": "0"}).signed(wanted, m.fingerprint, b.public, b.sign)
    check = (b.fingerprint, identity.fingerprint, identity.verify)
    assert not answer.proves(wanted, a.fingerprint, *check)
    honest = Answer("b", "run", {"seed": "0"}).signed(wanted, a.fingerprint, b.public, b.sign)
    assert honest.proves(wanted, a.fingerprint, *check)
    assert not honest.proves(Hello.fresh("a", "b", "run", {"seed": "0"}).encode(), a.fingerprint, *check)  # replayed
    assert not replace(honest, accord={"seed": "1"}).proves(wanted, a.fingerprint, *check)
    assert not replace(honest, public=m.public).proves(wanted, a.fingerprint, *check)
    assert Answer.decode(honest.encode()) == honest and Hello.decode(wanted).encode() == wanted


def test_without_tls_only_this_machine(made: Consortium) -> None:
    def between(listen: str | None, address: str | None) -> GrpcTransport:
        return GrpcTransport("a", [Neighbour("b", "", address)], None, listen, {}, 1000)

    for listen, address in (("0.0.0.0:0", None), (None, "10.0.0.1:7001"), ("127.0.0.1:0", "east.example.org:7001")):
        with pytest.raises(BadInput, match="Without TLS only addresses of this machine"):
            between(listen, address)
    with Site(None, "a", {"b": None}) as a, Site(None, "b", {"a": a.address}, None) as b:
        b.wait_up("a")
        assert b.say("a", b"plain")
        a.wait_frames(1)


def test_without_tls_an_address_of_another_is_noticed_all_the_same(made: Consortium) -> None:
    with Site(None, "c", {"b": None}) as c, Site(None, "b", {"a": c.address}, None) as b:
        stays_out(c, b, "c turned b away: it looks for a, and this is c", c)


def test_plain_text_and_tls_do_not_meet(made: Consortium) -> None:
    with Site(made, "a", {"b": None}) as a, Site(None, "b", {"a": a.address}, None) as b:
        stays_out(a, b, "a cannot be reached", b)


def test_a_taken_port_is_a_sentence(made: Consortium) -> None:
    with (
        Site(made, "a", {"b": None}) as a,
        pytest.raises(BadInput, match=f"Cannot listen at {a.address}; is the address this machine's"),
    ):
        Site(made, "b", {"a": None}, a.address).__enter__()
    with Site(made, "b", {"a": f"127.0.0.1:{free_port()}"}, None) as b:
        b.wait_report("nobody listens there")


@pytest.mark.parametrize("message", [b"", b"\0" * 40, b"[]", b'{"version": 1}', b'{"version": 2, "name": "b"}',
                                     b'{"version": 1, "name": "b", "to": "a", "nonce": "", "purpose": "run"}',
                                     b"[" * 100_000])  # fmt: skip
def test_no_greeting(message: bytes) -> None:
    for kind in (Hello, Answer):
        with pytest.raises(hello.Unfit):
            kind.decode(message)


_VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner) |
                       st.dictionaries(st.text(max_size=4), inner), max_leaves=6)  # fmt: skip
_HELLO = {"version": 1, "name": "b", "to": "a", "nonce": "0" * 64, "purpose": "run", "accord": {"seed": "0"},
          "public": "", "signature": ""}  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(key=st.sampled_from([*_HELLO, "accord.seed", "refused"]), value=_VALUES)
def test_a_greeting_with_one_thing_wrong(key: str, value: object) -> None:
    """A valid greeting of which one value is replaced is read, or refused as unfit; nothing else happens."""
    changed = dict(_HELLO, accord={"seed": value}) if key == "accord.seed" else _HELLO | {key: value}
    for kind in (Hello, Answer):
        try:
            read = kind.decode(json.dumps(changed).encode())
        except hello.Unfit as problem:
            assert "\n" not in str(problem)
        else:
            assert all(isinstance(one, str) and one.isprintable() for pair in read.accord.items() for one in pair)


def test_a_stranger_cannot_write_on_the_operators_terminal() -> None:
    for words in ("\x1b[2Jall is well", "line\nline", "x" * 5000):
        with pytest.raises(hello.Unfit):
            Hello.decode(json.dumps(_HELLO | {"accord": {"seed": words}}).encode())
        with pytest.raises(hello.Unfit):
            Answer.decode(json.dumps({"version": 1, "refused": words}).encode())
