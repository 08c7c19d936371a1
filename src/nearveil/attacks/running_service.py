"""Attack a running Nearveil service of your own: an adapter to it, with test users that are removed afterwards."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from nearveil.attacks.adapter import Adapter, AdapterResult, NotListedError
from nearveil.attacks.oracle import OracleError, point_of
from nearveil.errors import NearveilError, UsageError
from nearveil.io.synthetic import synthetic_city
from nearveil.region import Region
from nearveil.types import Progress

MOST_TARGETS, MOST_LISTED = 1000, 100
_TOKEN_LASTS_S = 3600
# How long the attacker waits where a service takes no queries for a moment, and how long calls of the platform do.
_LONGEST_WAIT_S, _LONGEST_PAUSE_S, _SHORTEST_PAUSE_S, _MOST_PAUSES = 2.0, 30.0, 0.1, 20
_T = TypeVar("_T")


def attack_service(
    client: Any, region: Region, *, targets: int = 20, user: str | None = None,
    truth: tuple[float, float] | None = None, k: int = 10, accounts: int = 1, method: str = "adaptive",
    tau_m: float = 100.0, seed: int = 1, progress: Progress = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
) -> list[AdapterResult]:  # fmt: skip
    """Attack users of a running service through its lists; no result for those whom no list near them shows.

    Parameters
    ----------
    client : nearveil.client.Client
        With the platform key, which creates and removes test users.
    region : Region
        The service's region.
    targets : int
        How many users to create and attack, unless one is named.
    user, truth : str, (float, float), optional
        A user of your own who is at the service already, and its true location.
    k, accounts : int
        Length of the lists, and how many accounts the attacker moves.
    method : str
        An attack.
    progress, pause : callable
        Called with 1 after each attack; waits for a number of seconds.
    """
    if not 1 <= k <= MOST_LISTED or not 1 <= targets <= MOST_TARGETS:
        raise UsageError(f"a service lists k=1 to {MOST_LISTED} users, and targets= takes 1 to {MOST_TARGETS:,}")
    # A key that the service does not accept is refused before anything is created.
    client.ledger()
    results = list[AdapterResult]()
    with RunningService(client, k=k, accounts=accounts, pause=pause) as service:
        whom = [(user, truth)] if user and truth else service.create_targets(targets, region, seed)
        for target, location in whom:
            service.begin()
            # The client has time limits of its own.
            adapter = Adapter(service, "the service", call_s=None)
            with suppress(NotListedError):
                results.append(
                    adapter.attack(location, user=target, region=region, method=method, tau_m=tau_m, seed=seed)
                )
            progress(1)
    if not results:
        raise UsageError(f"no list of {k} shows a target, because the service has too many users; raise k=")
    return results


class RunningService:
    """An adapter to a running service; leaving the ``with`` block removes all users that it created.

    The attacker asks as an ordinary user with its own token. Each move of an account is a new user, because a service
    may publish only the first location of a user at once. The test hook of the service publishes all of them.
    """

    def __init__(self, client: Any, *, k: int, accounts: int, pause: Callable[[float], None] = time.sleep) -> None:
        self._platform, self._pause, self.list_length = client, pause, k
        self.accounts = [f"account-{number}" for number in range(accounts)]
        self._prefix = f"nearveil-attack-{secrets.token_hex(6)}"
        self._created: dict[str, None] = {}
        self._count = 0
        self._is_unpublished = False
        self.begin()

    def begin(self) -> None:
        """Begin an attack, with accounts that have no history."""
        self._user_of: dict[str, str] = {}
        self._asker: Any = None

    def nearby(self, latitude: float, longitude: float) -> list[str]:
        """Ask who is near a location, as an ordinary user."""
        if self._asker is None:
            (asker,) = self._add(1)
            token = self._patiently(lambda: self._platform.issue_token(asker, expires_in_s=_TOKEN_LASTS_S))
            self._asker = self._platform.with_key(token.token)
        self._publish()
        listed = self._patiently(
            lambda: self._asker.nearby(latitude, longitude, k=self.list_length), longest_s=_LONGEST_WAIT_S
        )
        account_of = {user: account for account, user in self._user_of.items()}
        return [account_of.get(user, user) for user in listed]

    def long_list(self, latitude: float, longitude: float) -> list[str]:
        """Ask with the platform key, which has longer lists and no limit, for a location to start from."""
        self._publish()
        return self._patiently(lambda: self._platform.nearby(latitude, longitude, k=MOST_LISTED))

    def move(self, account: str, latitude: float | None, longitude: float | None) -> None:
        """Move an account, as a new user, or take it off the map."""
        if account in self._user_of:
            self._remove(self._user_of.pop(account))
        if latitude is not None and longitude is not None:
            (self._user_of[account],) = self.create([(latitude, longitude)])

    def create_targets(self, count: int, region: Region, seed: int) -> list[tuple[str, tuple[float, float]]]:
        """Create users in a synthetic city; return their ids and true locations."""
        locations = [point_of(row) for row in synthetic_city(count, region, rng=seed)]
        return list(zip(self.create(locations), locations, strict=True))

    def create(self, locations: Sequence[tuple[float, float]]) -> list[str]:
        """Create users at locations, who are published before the next query; return their ids."""
        users = self._add(len(locations))
        for user, location in zip(users, locations, strict=True):
            # With a receipt, so that the client may send the report again after a broken connection.
            report = partial(self._platform.report, user, *location, previous=secrets.token_hex(12))
            self._is_unpublished |= self._patiently(report).waits
        return users

    def _add(self, count: int) -> list[str]:
        users = [f"{self._prefix}-{self._count + number}" for number in range(count)]
        self._count += count
        # Recorded first, so that they are removed even if the answer to the request is lost.
        self._created.update(dict.fromkeys(users))
        self._patiently(lambda: self._platform.create_people(users))
        return users

    def _remove(self, user: str) -> None:
        self._patiently(lambda: self._platform.delete_person(user))
        del self._created[user]

    def _publish(self) -> None:
        if not self._is_unpublished:
            return
        try:
            self._platform.advance_epoch()
        except NearveilError as error:
            if getattr(error, "status", None) != 404 and getattr(error, "name", "") != "missing-scope":
                raise
            raise OracleError(
                "the service publishes test users only at its next epoch; attack a copy of it that is served with "
                "--test-hooks, with a platform key that has the scope admin"
            ) from None
        self._is_unpublished = False

    def _patiently(self, call: Callable[[], _T], *, longest_s: float = _LONGEST_PAUSE_S) -> _T:
        """Make a call; if the service says when to repeat it, and that is soon, do so."""
        for _ in range(_MOST_PAUSES):
            try:
                return call()
            except NearveilError as error:
                wait_s = getattr(error, "retry_after_s", None)
                if wait_s is None or wait_s > longest_s:
                    raise
                self._pause(max(wait_s, _SHORTEST_PAUSE_S))
        return call()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for user in list(self._created):
            try:
                self._remove(user)
            except NearveilError as refusal:
                if getattr(refusal, "status", None) is None:
                    # The service does not answer; every further attempt would time out.
                    break
        if self._created:
            raise OracleError(
                f"{len(self._created)} test users could not be removed; remove the users whose ids begin with "
                f"{self._prefix}"
            )
