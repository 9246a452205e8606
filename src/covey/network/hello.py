"""How two neighbours greet each other on a new connection: the first message of each direction. Bytes in, bytes out.

    dialling end     hello   {version, name, to, nonce, purpose, accord}
    answering end    answer  {version, name, purpose, accord, public, signature}, or {version, refused}

TLS has shown the answering end the dialler's certificate. The dialling end knows from TLS only that the other has
some certificate for the right name, so the answer proves the key as well: it signs the hello, whose nonce is fresh,
together with the dialler's key as TLS showed it. Whoever stands between two peers has to dial under a key of its own,
and the answer it then gets is of no use to it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from covey.network.accord import Accord
from covey.network.pieces import Unfit

VERSION = 1  # of this greeting and of the frames after it
LARGEST = 1 << 20  # of a greeting
_LONGEST = 4096  # letters of one of its words
Purpose = Literal["run", "check"]

Sign = Callable[[bytes], bytes]
Verify = Callable[[bytes, bytes, bytes], bool]  # public key, signature, text
Fingerprint = Callable[[bytes], str]


@dataclass(frozen=True)
class Hello:
    """What the dialling end says."""

    name: str
    to: str
    nonce: str
    purpose: Purpose
    accord: Accord

    @classmethod
    def fresh(cls, name: str, to: str, purpose: Purpose, accord: Accord) -> Hello:
        return cls(name, to, secrets.token_hex(32), purpose, accord)

    def encode(self) -> bytes:
        return _encode({"name": self.name, "to": self.to, "nonce": self.nonce, "purpose": self.purpose,
                        "accord": dict(self.accord)})  # fmt: skip

    @classmethod
    def decode(cls, message: bytes) -> Hello:
        said = _decode(message)
        nonce = _text(said, "nonce")
        if len(nonce) != 64:
            raise Unfit("The greeting's nonce is too short.")
        return cls(_text(said, "name"), _text(said, "to"), nonce, _purpose(said), _accord(said))


@dataclass(frozen=True)
class Answer:
    """What the answering end says; `refused` is why it will not talk."""

    name: str
    purpose: Purpose
    accord: Accord
    public: bytes = b""
    signature: bytes = b""
    refused: str = ""

    def encode(self) -> bytes:
        if self.refused:
            return _encode({"refused": self.refused})
        return _encode({"name": self.name, "purpose": self.purpose, "accord": dict(self.accord),
                        "public": base64.b64encode(self.public).decode(),
                        "signature": base64.b64encode(self.signature).decode()})  # fmt: skip

    @classmethod
    def decode(cls, message: bytes) -> Answer:
        said = _decode(message)
        if "refused" in said:
            return cls("", "run", {}, refused=_text(said, "refused"))
        try:
            public, signature = (base64.b64decode(_text(said, key), validate=True) for key in ("public", "signature"))
        except ValueError:
            raise Unfit("The answer's key or signature is not base64.") from None
        return cls(_text(said, "name"), _purpose(said), _accord(said), public, signature)

    def signed(self, hello: bytes, dialler: str, public: bytes, sign: Sign) -> Answer:
        """This answer with the proof that its sender has the key `public`; `dialler` is the fingerprint that TLS
        showed of the one who said hello."""
        signature = sign(_transcript(hello, dialler, self.name, self.accord))
        return Answer(self.name, self.purpose, self.accord, public, signature)

    def proves(self, hello: bytes, dialler: str, wanted: str, fingerprint: Fingerprint, verify: Verify) -> bool:
        """Whether the holder of the key with the fingerprint `wanted` gave this answer to my hello, and to me."""
        text = _transcript(hello, dialler, self.name, self.accord)
        return fingerprint(self.public) == wanted and verify(self.public, self.signature, text)


def _transcript(hello: bytes, dialler: str, name: str, accord: Accord) -> bytes:
    """What an answer signs."""
    parts = (hello, dialler.encode(), name.encode(), json.dumps(dict(accord), sort_keys=True).encode())
    return b"covey answer 1" + b"".join(hashlib.sha256(part).digest() for part in parts)


def _encode(said: Mapping[str, Any]) -> bytes:
    return json.dumps({"version": VERSION, **said}).encode()


def _decode(message: bytes) -> dict[str, Any]:
    if len(message) > LARGEST:
        raise Unfit(f"A greeting of {len(message)} bytes is too long.")
    try:
        said = json.loads(message)
    except (ValueError, RecursionError):
        raise Unfit("The other end does not greet as a covey peer does.") from None
    if not isinstance(said, dict) or not isinstance(said.get("version"), int):
        raise Unfit("The other end does not greet as a covey peer does.")
    if said["version"] != VERSION:
        raise Unfit(f"The other end speaks version {said['version']}, this one {VERSION}; use the same release.")
    return cast("dict[str, Any]", said)


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    if not isinstance(value, str):
        raise Unfit(f"The greeting lacks '{key}'.")
    if not _fit(value):
        raise Unfit(f"The greeting's '{key}' is too long, or no text.")
    return value


def _fit(text: str) -> bool:
    """Whether a stranger's words may be shown to an operator and written into a log."""
    return len(text) <= _LONGEST and text.isprintable()


def _purpose(said: Mapping[str, Any]) -> Purpose:
    if said.get("purpose") not in get_args(Purpose):
        raise Unfit("The greeting says no purpose that is known here.")
    return said["purpose"]


def _accord(said: Mapping[str, Any]) -> Accord:
    table = said.get("accord")
    if not isinstance(table, dict):
        raise Unfit("The greeting lacks 'accord'.")
    known = cast("dict[str, Any]", table)
    if not all(_fit(key) and isinstance(value, str) and _fit(value) for key, value in known.items()):
        raise Unfit("The greeting's accord holds more than words.")
    return cast("dict[str, str]", known)
