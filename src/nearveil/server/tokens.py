"""Tokens: what a person proves who they are with, signed and with an end.

A token is ``nvt_<payload>.<signature>``, both in base64url without padding. The payload is a version, the end in
milliseconds since 1970, the person's mark and id; the signature is HMAC-SHA-256 over it. The mark is the store's: who
is erased and created anew, or has their tokens revoked, has another one, and the tokens made before are void.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

from nearveil.errors import UsageError

TOKEN_PREFIX = "nvt_"
PERSON_PATTERN = r"[A-Za-z0-9_.:@-]{1,128}"
"""What a person's id looks like."""
LONGEST_S = 30 * 86_400
"""No token is valid for longer."""

_VERSION = 2
_HEAD = struct.Struct(">BQQ")
# Signatures of tokens are signatures of nothing else.
_PURPOSE = b"nearveil person token\0"
_PERSON = re.compile(PERSON_PATTERN)
_TOKEN = re.compile(rf"{TOKEN_PREFIX}([A-Za-z0-9_-]{{24,194}})\.([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True, slots=True)
class Token:
    """What a valid token says.

    Attributes
    ----------
    expires_at : float
        Seconds since 1970.
    mark : int
        The person's, when the token was made.
    """

    person: str
    expires_at: float
    mark: int


def write_token(key: bytes, person: str, mark: int, *, now: float, expires_in_s: float) -> tuple[str, Token]:
    """Sign a token; return it and what it says."""
    if _PERSON.fullmatch(person) is None:
        raise UsageError("a person's id has 1 to 128 letters, digits or any of _ . : @ -")
    if not (math.isfinite(expires_in_s) and 0 < expires_in_s <= LONGEST_S):
        raise UsageError(f"a token is valid for more than 0 and at most {LONGEST_S:,} seconds (30 days)")
    ends_ms = math.floor((now + expires_in_s) * 1000)
    payload = _HEAD.pack(_VERSION, ends_ms, mark) + person.encode()
    return f"{TOKEN_PREFIX}{_to_text(payload)}.{_to_text(_signature(key, payload))}", Token(person, ends_ms / 1000, mark)


def read_token(key: bytes, text: str, *, now: float) -> Token | None:
    """Return what a token says, or None if it is forged, damaged, expired or of another version."""
    parts = _TOKEN.fullmatch(text)
    if parts is None:
        return None
    payload, signature = _from_text(parts[1]), _from_text(parts[2])
    if payload is None or signature is None or not hmac.compare_digest(signature, _signature(key, payload)):
        return None
    version, ends_ms, mark = _HEAD.unpack_from(payload)
    if version != _VERSION or not now < ends_ms / 1000 <= now + LONGEST_S:
        return None
    return Token(payload[_HEAD.size :].decode(), ends_ms / 1000, mark)


def _signature(key: bytes, payload: bytes) -> bytes:
    return hmac.digest(key, _PURPOSE + payload, hashlib.sha256)


def _to_text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _from_text(text: str) -> bytes | None:
    """Decode what `_to_text` wrote; the last character has bits to spare, and one spelling only is accepted."""
    if len(text) % 4 == 1:
        return None
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return raw if _to_text(raw) == text else None
