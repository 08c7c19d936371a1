"""Who is calling: a platform by its key, or a person by a token that is signed and expires.

A token is ``nvt_<payload>.<signature>``, both in base64url without padding. The payload is a version, the end in
milliseconds since 1970, the person's mark and id; the signature is HMAC-SHA-256 over it. The mark is the store's: who
is erased and created anew, or has their tokens revoked, has another one, and the tokens made before are void.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import struct
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from nearveil.errors import UsageError
from nearveil.nearby.stores.base import PlatformKey, Store, StoreError, is_person_id
from nearveil.server.problems import Problem, forbidden, missing_scope, not_ready, unauthorised
from nearveil.server.scopes import ALL_SCOPES, Rule, Scope

TOKEN_PREFIX = "nvt_"  # noqa: S105 - how a token begins, no secret
LONGEST_KEY_NAME = 64
KEY_NAME_PATTERN = r"\.*[A-Za-z0-9_-][A-Za-z0-9_.-]*"
"""Not only dots: clients that tidy paths up would make another path of them."""
LONGEST_TOKEN_S = 30 * 86_400
"""No token is valid for longer."""

_VERSION = 2
_HEAD = struct.Struct(">BQQ")
# Signatures of tokens cannot be used for anything else.
_PURPOSE = b"nearveil person token\0"
_TOKEN = re.compile(rf"{TOKEN_PREFIX}([A-Za-z0-9_-]{{24,194}})\.([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """Content of a valid token.

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


def write_token(key: bytes, person: str, mark: int, *, now: float, expires_in_s: float) -> tuple[str, TokenClaims]:
    """Sign a token; return it and its content."""
    if not is_person_id(person):
        raise UsageError("a person's id has 1 to 128 letters, digits or any of _ . : @ -, and not only dots")
    if not (math.isfinite(expires_in_s) and 0 < expires_in_s <= LONGEST_TOKEN_S):
        raise UsageError(f"a token is valid for more than 0 and at most {LONGEST_TOKEN_S:,} seconds (30 days)")
    ends_ms = math.floor((now + expires_in_s) * 1000)
    payload = _HEAD.pack(_VERSION, ends_ms, mark) + person.encode()
    return f"{TOKEN_PREFIX}{_to_text(payload)}.{_to_text(_signature(key, payload))}", TokenClaims(
        person, ends_ms / 1000, mark
    )


def read_token(key: bytes, text: str, *, now: float) -> TokenClaims | None:
    """Return the content of a token, or None if it is forged, damaged, expired or of another version."""
    parts = _TOKEN.fullmatch(text)
    if parts is None:
        return None
    payload, signature = _from_text(parts[1]), _from_text(parts[2])
    if payload is None or signature is None or not hmac.compare_digest(signature, _signature(key, payload)):
        return None
    version, ends_ms, mark = _HEAD.unpack_from(payload)
    if version != _VERSION or not now < ends_ms / 1000 <= now + LONGEST_TOKEN_S:
        return None
    return TokenClaims(payload[_HEAD.size :].decode(), ends_ms / 1000, mark)


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


# KnownPeople: whether a person still exists, without a query of the store for every request.


HORIZON_S = 5.0
"""How long somebody is known here at most, and a key or token works, after another process erased or revoked it."""

DEFAULT_GRACE_S = 600.0
_MOST_PEOPLE_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class _Remembered:
    """The mark of a person's tokens, when the store confirmed it, and until when it is not asked again."""

    mark: int
    confirmed_at: float
    fresh_until: float


class KnownPeople:
    """Remembers who is known, and the mark of their tokens: for a few seconds, and longer while the store is away.

    Parameters
    ----------
    store : Store
        Knows for certain.
    clock : callable, optional
        Seconds, from any moment on.
    grace_s : float
        How long what the store confirmed counts while the store cannot be asked.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.monotonic, *, grace_s: float = DEFAULT_GRACE_S
    ) -> None:
        self._store = store
        self._clock = clock
        self._grace_s = grace_s
        self._found: dict[str, _Remembered] = {}
        self._forgotten = 0

    def has(self, person: str) -> bool:
        """Whether somebody is known."""
        return self.token_mark(person) is not None

    def token_mark(self, person: str) -> int | None:
        """Return the mark that a person's tokens bear; None if not known."""
        now, held = self._clock(), self._found.get(person)
        return held.mark if held is not None and held.fresh_until > now else self._ask(person, held, now)

    def has_mark(self, person: str, mark: int) -> bool:
        """Whether a person's tokens bear this mark; what is remembered may be from before a revocation."""
        return self.remembers(person, mark) or self._ask(person, self._found.get(person), self._clock()) == mark

    def remembers(self, person: str, mark: int | None = None) -> bool:
        """Whether it is remembered that a person's tokens bear this mark, or that there is such a person."""
        held = self._found.get(person)
        return held is not None and held.fresh_until > self._clock() and mark in (None, held.mark)

    def forget(self, person: str) -> None:
        """Ask the store the next time, and believe nothing else."""
        self._forgotten += 1
        self._found.pop(person, None)

    def doubt_all(self) -> None:
        """Ask the store about everybody, if it can be asked."""
        self._forgotten += 1
        for person, held in list(self._found.items()):
            self._found[person] = replace(held, fresh_until=-math.inf)

    def _ask(self, person: str, held: _Remembered | None, now: float) -> int | None:
        forgotten = self._forgotten
        try:
            mark = self._store.token_mark(person)
            confirmed_at = now
        except StoreError:
            if held is None or now >= held.confirmed_at + self._grace_s:
                raise
            mark, confirmed_at = held.mark, held.confirmed_at
        if mark is None:
            self._found.pop(person, None)
        elif forgotten == self._forgotten:
            # Nobody was forgotten meanwhile, who would be remembered again by this.
            fresh_until = min(now + HORIZON_S, confirmed_at + max(self._grace_s, HORIZON_S))
            self._remember(person, _Remembered(mark, confirmed_at, fresh_until))
        return mark

    def _remember(self, person: str, held: _Remembered) -> None:
        if len(self._found) >= _MOST_PEOPLE_REMEMBERED:
            for oldest in list(self._found)[: _MOST_PEOPLE_REMEMBERED // 4]:
                self._found.pop(oldest, None)
        # Those who were confirmed last are forgotten last.
        self._found.pop(person, None)
        self._found[person] = held


# Access: who is calling, by a platform's key or by a person's token.


KEY_PREFIX = "nvk_"

_SECRET_BYTES = 32
_SECOND_LOOK_S = 1.0
# With the limit of the store's answer still less than the horizon.
_REFRESH_S = 1.0
_LONGEST_HEADER = 300
_MOST_REMEMBERED = 20_000
_KEY = re.compile(rf"{KEY_PREFIX}[A-Za-z0-9_-]{{43}}")
_KEY_NAME = re.compile(KEY_NAME_PATTERN)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: a platform by the name of its key, or a person by their id and the mark on their token.

    Attributes
    ----------
    scopes : frozenset of str
        What the platform's key may do; a person's token has none and its own rights.
    """

    kind: Literal["platform", "person"]
    name: str
    mark: int = 0
    scopes: frozenset[str] = frozenset()

    def check(self, rule: Rule | None, person: str | None = None) -> None:
        """Raise a problem unless the rule of a route lets this caller in; ``person`` is the id in the path."""
        if rule is None:
            raise forbidden()
        if self.kind == "platform":
            self.check_scopes(rule.scopes)
        elif rule.person is None or (rule.person == "own" and self.name != person):
            raise forbidden()

    def check_scopes(self, needed: Iterable[Scope]) -> None:
        """Raise a problem that names the first of these scopes that the platform's key does not have."""
        for scope in needed:
            if scope not in self.scopes:
                raise missing_scope(scope)


def new_platform_key(name: str, scopes: AbstractSet[Scope] = ALL_SCOPES) -> tuple[str, PlatformKey]:
    """Return a fresh secret, to be shown once, and what is kept of it.

    Examples
    --------
    >>> secret, kept = new_platform_key("web-shop", {Scope.REPORT})
    >>> secret[:4], kept.name, len(kept.digest), set(kept.scopes)
    ('nvk_', 'web-shop', 32, {'report'})
    """
    if _KEY_NAME.fullmatch(name) is None or len(name) > LONGEST_KEY_NAME:
        raise UsageError("a key's name has 1 to 64 letters, digits or any of _ . -, and not only dots")
    if not scopes:
        raise UsageError(f"a key without a scope may do nothing; give it some of {', '.join(Scope)}")
    secret = KEY_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    return secret, PlatformKey(name=name, digest=_digest(secret), scopes=frozenset(scope.value for scope in scopes))


class Access:
    """Identifies callers.

    Parameters
    ----------
    store : Store
        Where the digests of platform keys are kept.
    token_key : bytes
        Signs people's tokens.
    clock : callable, optional
        Seconds since 1970.
    grace_s : float
        How long the keys that were read last count while the store cannot be read.
    """

    def __init__(
        self,
        store: Store,
        token_key: bytes,
        clock: Callable[[], float] = time.time,
        *,
        grace_s: float = DEFAULT_GRACE_S,
    ) -> None:
        self._store, self._token_key, self._clock, self._grace_s = store, token_key, clock, grace_s
        self._keys: list[PlatformKey] = []
        # When the keys were read, and when that was last tried.
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._reading = threading.Lock()
        # How often keys were made or removed here.
        self._changes = 0
        self._known: dict[bytes, _Known] = {}

    def __repr__(self) -> str:
        return f"Access({len(self._keys)} platform keys)"

    def identify(self, authorization: str | None) -> Caller:
        """Return who calls with this header; raises the problem ``unauthorised``."""
        if authorization is None or len(authorization) > _LONGEST_HEADER or not authorization.isascii():
            raise unauthorised()
        # What was found out is looked up by a digest, so that the time it takes says nothing about a secret.
        digest, now = _digest(authorization), self._clock()
        known, changes = self._known.get(digest), self._changes
        if known is None or not known.since <= now < known.until:
            known = self._find(authorization, now)
            if changes == self._changes:
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
        self._changes += 1
        self._read_at = self._tried_at = None
        self._known.clear()

    @property
    def is_refresh_due(self) -> bool:
        """Whether the keys should be read again soon, so that no caller has to wait for that."""
        return self._tried_at is not None and not 0 <= self._clock() - self._tried_at < _REFRESH_S

    def refresh(self) -> None:
        """Read the keys again."""
        # Who calls next gets the problem.
        with suppress(Problem):
            self._read_keys_after(_REFRESH_S, self._clock())

    # -- finding out -------------------------------------------------------------------------------------------

    def _find(self, authorization: str, now: float) -> _Known:
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() == "bearer" and secret.startswith(TOKEN_PREFIX):
            token = read_token(self._token_key, secret, now=now)
            if token is not None:
                return _Known(Caller("person", token.person, token.mark), now, token.expires_at)
        elif scheme.lower() == "bearer" and _KEY.fullmatch(secret):
            key = self._platform(_digest(secret), now)
            if key is not None and self._read_at is not None and self._tried_at is not None:
                until = min(self._tried_at + HORIZON_S, self._read_at + max(self._grace_s, HORIZON_S))
                return _Known(Caller("platform", key.name, scopes=key.scopes), now, until)
        raise unauthorised()

    def _platform(self, digest: bytes, now: float) -> PlatformKey | None:
        """Return what is kept of a key, looking into the store if what was read before is too old."""
        self._read_keys_after(HORIZON_S, now)
        key = self._key_with(digest)
        if key is None and self._read_keys_after(_SECOND_LOOK_S, now):
            key = self._key_with(digest)
        if key is None and self._tried_at != self._read_at:
            # It may have been made since the store was last read.
            raise not_ready()
        return key

    def _key_with(self, digest: bytes) -> PlatformKey | None:
        # All keys are compared, whichever fits.
        fitting = [key for key in self._keys if hmac.compare_digest(key.digest, digest)]
        return fitting[0] if fitting else None

    def _read_keys_after(self, age_s: float, now: float) -> bool:
        """Read the keys if that was not tried for so long; whether they were read."""
        with self._reading:
            # A clock that was set back must not keep a removed key alive.
            if self._tried_at is not None and 0 <= now - self._tried_at < age_s:
                return False
            changes = -1
            try:
                # What was read while a key was made or removed may be from before.
                while changes != self._changes:
                    changes = self._changes
                    self._keys = self._store.keys()
            except StoreError:
                if self._read_at is None or not 0 <= now - self._read_at < self._grace_s:
                    raise not_ready() from None
                self._tried_at = now
                return False
            self._read_at = self._tried_at = now
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
