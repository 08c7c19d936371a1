"""Access: who is calling, by a platform's key or by a person's token."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nearveil.errors import UsageError
from nearveil.nearby.stores.base import PlatformKey, Store, StoreError
from nearveil.server.problems import not_ready, unauthorised
from nearveil.server.tokens import TOKEN_PREFIX
from nearveil.server.tokens import read_token, write_token

KEY_PREFIX = "nvk_"
HORIZON_S = 5.0
"""A key that was removed from the store works no longer than this."""

_SECRET_BYTES = 32
_SECOND_LOOK_S = 1.0
_LONGEST_HEADER = 300
_MOST_REMEMBERED = 20_000
_KEY = re.compile(rf"{KEY_PREFIX}[A-Za-z0-9_-]{{43}}")
_KEY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: a platform by the name of its key, or a person by their id and the mark on their token."""

    kind: Literal["platform", "person"]
    name: str
    mark: int = 0


def new_platform_key(name: str) -> tuple[str, PlatformKey]:
    """Return a fresh secret, to be shown once, and what is kept of it.

    Examples
    --------
    >>> secret, kept = new_platform_key("web-shop")
    >>> secret[:4], kept.name, len(kept.digest)
    ('nvk_', 'web-shop', 32)
    """
    if _KEY_NAME.fullmatch(name) is None:
        raise UsageError("a key's name has 1 to 64 letters, digits or any of _ . -")
    secret = KEY_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    return secret, PlatformKey(name=name, digest=_digest(secret))


class Access:
    """Tells callers apart.

    Parameters
    ----------
    store : Store
        Where the digests of platform keys are kept.
    token_key : bytes
        Signs people's tokens.
    clock : callable, optional
        Seconds since 1970.
    """

    def __init__(self, store: Store, token_key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._store, self._token_key, self._clock = store, token_key, clock
        self._keys: list[PlatformKey] = []
        self._read_at: float | None = None
        self._known: dict[bytes, _Known] = {}

    def __repr__(self) -> str:
        return f"Access({len(self._keys)} platform keys)"

    def identify(self, authorization: str | None) -> Caller:
        """Return who calls with this header; raises the problem ``unauthorised``."""
        if authorization is None or len(authorization) > _LONGEST_HEADER or not authorization.isascii():
            raise unauthorised()
        # What was found out is looked up by a digest, so that the time it takes says nothing about a secret.
        digest, now = _digest(authorization), self._clock()
        known = self._known.get(digest)
        if known is None or not known.since <= now < known.until:
            known = self._find(authorization, now)
            self._remember(digest, known)
        return known.caller

    def known(self, authorization: str | None) -> Caller | None:
        """Return who calls with this header, if it was found out lately."""
        if authorization is None or len(authorization) > _LONGEST_HEADER or not authorization.isascii():
            return None
        known = self._known.get(_digest(authorization))
        return known.caller if known is not None and known.since <= self._clock() < known.until else None

    def issue_token(self, person: str, mark: int, expires_in_s: float) -> tuple[str, float]:
        """Return a token of a person with this mark, and when it expires, in seconds since 1970."""
        text, token = write_token(self._token_key, person, mark, now=self._clock(), expires_in_s=expires_in_s)
        return text, token.expires_at

    def reread(self) -> None:
        """Look into the store at the next call: keys were made or removed."""
        self._read_at = None
        self._known.clear()

    # -- finding out -------------------------------------------------------------------------------------------

    def _find(self, authorization: str, now: float) -> _Known:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() == "bearer" and secret.startswith(TOKEN_PREFIX):
            token = read_token(self._token_key, secret, now=now)
            if token is not None:
                return _Known(Caller("person", token.person, token.mark), now, token.expires_at)
        elif scheme.lower() == "bearer" and _KEY.fullmatch(secret):
            name = self._platform(_digest(secret), now)
            if name is not None and self._read_at is not None:
                return _Known(Caller("platform", name), now, self._read_at + HORIZON_S)
        raise unauthorised()

    def _platform(self, digest: bytes, now: float) -> str | None:
        """Return the name of a key, looking into the store if what was read before is too old."""
        self._read_keys_after(HORIZON_S, now)
        name = self._name_of(digest)
        if name is None and self._read_keys_after(_SECOND_LOOK_S, now):
            name = self._name_of(digest)
        return name

    def _name_of(self, digest: bytes) -> str | None:
        # All keys are compared, whichever fits.
        fitting = [key.name for key in self._keys if hmac.compare_digest(key.digest, digest)]
        return fitting[0] if fitting else None

    def _read_keys_after(self, age_s: float, now: float) -> bool:
        # A clock that was set back must not keep a removed key alive.
        if self._read_at is not None and 0 <= now - self._read_at < age_s:
            return False
        try:
            self._keys = self._store.keys()
        except StoreError:
            raise not_ready() from None
        self._read_at = now
        return True

    def _remember(self, digest: bytes, known: _Known) -> None:
        if len(self._known) >= _MOST_REMEMBERED:
            for oldest in list(self._known)[: _MOST_REMEMBERED // 4]:
                self._known.pop(oldest, None)
        self._known[digest] = known


@dataclass(frozen=True, slots=True)
class _Known:
    """A caller found before, and the time within which that need not be found out again."""

    caller: Caller
    since: float
    until: float


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
