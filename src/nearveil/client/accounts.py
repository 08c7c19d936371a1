"""Accounts: what an audit creates at a service, and removes again whatever happens."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from nearveil.client.errors import ServiceError
from nearveil.client.http import Client
from nearveil.client.values import Receipt

PREFIX = "nearveil-audit"
_TOKEN_LASTS_S = 3600
_LONGEST_PAUSE_S = 30.0
_MOST_PAUSES = 20

_T = TypeVar("_T")


class LeftOverError(ServiceError):
    """Accounts of an audit are still at the service."""


class Accounts:
    """People that an audit makes up: their ids cannot be anybody's, and leaving the block removes them all.

    Parameters
    ----------
    client : Client
        With the platform's key, which creates and removes; accounts speak with tokens of their own.
    pause : callable
        Waits so many seconds.
    """

    def __init__(self, client: Client, *, pause: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._pause = pause
        self.prefix = f"{PREFIX}-{secrets.token_hex(6)}"
        self._made: dict[str, None] = {}
        self._number = 0
        self.removed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove_all()

    def __len__(self) -> int:
        return len(self._made)

    def create(self, role: str, count: int = 1) -> list[str]:
        """Create accounts; return their ids."""
        people = [f"{self.prefix}-{role}-{self._number + number}" for number in range(count)]
        self._number += count
        # Noted first: also what was created by a request whose answer never came is removed.
        self._made.update(dict.fromkeys(people))
        self.patiently(lambda: self._client.create_people(people))
        return people

    def remove(self, people: Sequence[str]) -> None:
        """Remove some of the accounts."""
        for person in people:
            self.patiently(partial(self._client.delete_person, person))
            del self._made[person]
            self.removed += 1

    def remove_all(self) -> None:
        """Remove all accounts; one that cannot be removed does not keep the others from it."""
        for person in list(self._made):
            try:
                self.remove([person])
            except ServiceError as error:
                if error.status is None:
                    # Nobody answers: every further attempt would wait in vain.
                    break
        if self._made:
            raise LeftOverError(
                f"{len(self._made)} accounts of this audit could not be removed; remove the people whose ids begin "
                f"with {self.prefix}"
            )

    def session(self, person: str) -> Session:
        """Return the account as its owner uses it."""
        return Session(self._client, self, person)

    def patiently(self, call: Callable[[], _T]) -> _T:
        """Make a call of the platform's; wait where the service says so."""
        for _ in range(_MOST_PAUSES):
            try:
                return call()
            except ServiceError as error:
                if error.retry_after_s is None or error.retry_after_s > _LONGEST_PAUSE_S:
                    raise
                self._pause(error.retry_after_s)
        return call()


class Session:
    """One account that speaks with its own token, renewed when it has run out."""

    def __init__(self, platform: Client, accounts: Accounts, person: str) -> None:
        self._platform, self._accounts = platform, accounts
        self.person = person
        self._client = self._new_client()

    def nearby(self, latitude: float, longitude: float, *, k: int) -> list[str]:
        """Ask who is near a place."""
        return self._call(lambda: self._client.nearby(latitude, longitude, k=k))

    def report(self, latitude: float, longitude: float) -> Receipt:
        """Say where the account is."""
        return self._call(lambda: self._client.report(self.person, latitude, longitude))

    def withdraw(self) -> None:
        """Take the account off the map."""
        self._call(lambda: self._client.withdraw(self.person))

    def _call(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except ServiceError as error:
            if error.status != 401:
                raise
        self._client = self._new_client()
        return call()

    def _new_client(self) -> Client:
        issue = self._accounts.patiently(lambda: self._platform.issue_token(self.person, expires_in_s=_TOKEN_LASTS_S))
        return self._platform.with_key(issue.token)
