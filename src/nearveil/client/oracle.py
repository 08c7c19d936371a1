"""Oracle of a running service: attacks reach it over HTTP, with ordinary accounts."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import numpy as np

from nearveil.attacks.base import rank_of, step_from
from nearveil.attacks.oracle import CountedOracle, OutOfQueriesError, Point
from nearveil.client.calls import TOO_MANY, Receipt, ServiceError
from nearveil.client.http import Client
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.region import Region


class ThrottledError(OutOfQueriesError):
    """The service refuses further questions of the attacker for now."""


@dataclass(slots=True)
class Throttle:
    """How a service throttled one attack.

    Attributes
    ----------
    refusals : int
        Number of answers "too many requests".
    waited_s : float
        Time that the attacker had to wait.
    first_at : int or None
        Number of the first refused question, from 1; a move counts as part of the question that it prepares.
    stopped : bool
        Whether throttling ended the attack.
    """

    refusals: int = 0
    waited_s: float = 0.0
    first_at: int | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an attacker is willing to wait: for one call, and in total."""

    longest_wait_s: float = 2.0
    most_waiting_s: float = 60.0


def degrees_of(region: Region, spot: Point) -> tuple[float, float]:
    """Latitude and longitude of a spot; one beyond the region is moved to its edge."""
    latitude, longitude = region.clip(region.from_metres(np.array([spot])))[0]
    return float(latitude), float(longitude)


def true_metres(region: Region, truth: tuple[float, float]) -> Point:
    """Return where one's own account is, in meters; the error of a location outside the region does not name it."""
    if not region.contains([truth])[0]:
        raise UsageError(
            f"truth= is outside the region {region}; correct it: latitude first, then longitude, in degrees"
        )
    x_m, y_m = region.to_metres([truth])[0].tolist()
    return x_m, y_m


class Attacker:
    """One attacker of a running service: accounts that ask, which are not on the map, and accounts, which are.

    Moves are reported at once; those that wait for an epoch are published together before the next question. A
    protected service publishes the first place of an account at the next epoch, and others only when they have lasted:
    so every move is made by a new account, which the attack does not notice.

    Parameters
    ----------
    made : MadeUpAccounts
        Source of accounts.
    region : Region
        Converts between metres and degrees.
    epochs : Epochs
        Moves the service to its next epoch.
    k : int
        Number of people to ask for.
    accounts : int
        Accounts on the map, besides the one that asks.
    """

    def __init__(
        self,
        made: MadeUpAccounts,
        region: Region,
        epochs: Epochs,
        *,
        k: int,
        accounts: int,
        patience: Patience | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._accounts, self._region, self._epochs = made, region, epochs
        self._k, self._patience, self._pause = k, patience or Patience(), pause
        self._asker = made.session(*made.create("asker", 1))
        self._names = tuple(f"account-{number}" for number in range(accounts))
        self._sessions: dict[Person, AccountSession] = {}
        self._name_of: dict[str, Person] = {}
        self._placed: set[Person] = set()
        self._publishes_at: float | None = None
        self._waits = False
        self._asked = 0
        self.throttle = Throttle()

    def oracle(self, *, most_queries: int = 1000) -> CountedOracle:
        """Return the oracle, which is all that an attack may use."""
        return CountedOracle(self._ask, self._put, k=self._k, accounts=self._names, most_queries=most_queries)

    def leave(self) -> None:
        """Remove the attacker's accounts."""
        self._accounts.remove([self._asker.person, *self._name_of])
        self._sessions, self._name_of = {}, {}

    def _ask(self, place: Point) -> Sequence[Person]:
        if self._waits:
            self._epochs.cross(self._publishes_at)
            self._waits = False
        latitude, longitude = degrees_of(self._region, place)
        answer = self._call(lambda: self._asker.nearby(latitude, longitude, k=self._k))
        self._asked += 1
        return [self._name_of.get(person, person) for person in answer]

    def _put(self, account: Person, place: Point | None) -> None:
        if place is None:
            self._withdraw(account)
            return
        latitude, longitude = degrees_of(self._region, place)
        if account in self._placed:
            self._retire(account)
        receipt = self._call(lambda: self._session(account).report(latitude, longitude))
        if receipt.waits:
            self._placed.add(account)
            self._waits, self._publishes_at = True, receipt.publishes_at

    def _withdraw(self, account: Person) -> None:
        """Take an account off the map; if that is refused too, give the account up, so that an attack always ends."""
        if account not in self._sessions:
            return
        try:
            self._sessions[account].withdraw()
        except ServiceError as error:
            if error.status != TOO_MANY:
                raise
            self._note_refusal()
            self._retire(account)

    def _session(self, account: Person) -> AccountSession:
        if account not in self._sessions:
            [person] = self._accounts.create("account")
            self._sessions[account] = self._accounts.session(person)
            self._name_of[person] = account
        return self._sessions[account]

    def _retire(self, account: Person) -> None:
        person = self._sessions.pop(account).person
        self._placed.discard(account)
        self._accounts.remove([person])
        del self._name_of[person]

    def _call(self, call: Callable[[], _T]) -> _T:
        """Make a call; if it is refused, wait if the wait is short, otherwise give up."""
        while True:
            try:
                return call()
            except ServiceError as error:
                if error.status != TOO_MANY:
                    raise
                self._note_refusal()
                self._wait(error.retry_after_s)

    def _note_refusal(self) -> None:
        self.throttle.refusals += 1
        if self.throttle.first_at is None:
            self.throttle.first_at = self._asked + 1

    def _wait(self, wait_s: float | None) -> None:
        patience, so_far_s = self._patience, self.throttle.waited_s
        if wait_s is None or wait_s > patience.longest_wait_s or so_far_s + wait_s > patience.most_waiting_s:
            self.throttle.stopped = True
            raise ThrottledError("the service stopped the attack: too many questions or moves")
        # A service that says "now" and refuses again must not be asked forever.
        wait_s = max(wait_s, 0.05)
        self._pause(wait_s)
        self.throttle.waited_s += wait_s


# Accounts that an audit creates at a service and always removes.


PREFIX = "nearveil-audit"
_TOKEN_LASTS_S = 3600
_LONGEST_PAUSE_S = 30.0
_MOST_PAUSES = 20

_T = TypeVar("_T")


class LeftOverError(ServiceError):
    """Accounts of an audit are still at the service."""


class MadeUpAccounts:
    """Made-up people of an audit, with ids that no real person has; leaving the ``with`` block removes them all.

    Parameters
    ----------
    client : Client
        With the platform key, which creates and removes accounts; each account uses its own token.
    pause : callable
        Waits the given number of seconds.
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
        # Recorded first, so that accounts are removed even if the answer to the request is lost.
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
        """Remove all accounts; go on if one cannot be removed."""
        for person in list(self._made):
            try:
                self.remove([person])
            except ServiceError as error:
                if error.status is None:
                    # The service does not answer; every further attempt would time out.
                    break
        if self._made:
            raise LeftOverError(
                f"{len(self._made)} accounts of this audit could not be removed; remove the people whose ids begin "
                f"with {self.prefix}"
            )

    def session(self, person: str) -> AccountSession:
        """Return a session of the account with its own token."""
        return AccountSession(self._client, self, person)

    def patiently(self, call: Callable[[], _T]) -> _T:
        """Make a call with the platform key; wait and repeat it if the service says so."""
        for _ in range(_MOST_PAUSES):
            try:
                return call()
            except ServiceError as error:
                if error.retry_after_s is None or error.retry_after_s > _LONGEST_PAUSE_S:
                    raise
                self._pause(error.retry_after_s)
        return call()


class AccountSession:
    """One account that uses its own token, renewed when it has expired."""

    def __init__(self, platform: Client, accounts: MadeUpAccounts, person: str) -> None:
        self._platform, self._accounts = platform, accounts
        self.person = person
        self._receipt = secrets.token_hex(12)
        self._client = self._new_client()

    def nearby(self, latitude: float, longitude: float, *, k: int) -> list[str]:
        """Ask who is near a location."""
        return self._call(lambda: self._client.nearby(latitude, longitude, k=k))

    def report(self, latitude: float, longitude: float) -> Receipt:
        """Report the location of the account, with the receipt of its last report."""
        taken = self._call(lambda: self._client.report(self.person, latitude, longitude, previous=self._receipt))
        self._receipt = taken.receipt
        return taken

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


# Epochs: an audit gets its accounts published by the test hook, or by waiting for a short epoch.


# After an epoch boundary the service builds the next index; until it is ready, the last one answers.
_AFTER_BOUNDARY_S = 1.0


class NoEpochError(ServiceError):
    """The next epoch boundary is too far away for an audit."""


class Epochs:
    """Moves the service to its next epoch, or waits for it.

    Parameters
    ----------
    client : Client
        With the platform key.
    longest_wait_s : float
        Longest time to wait for an epoch boundary if there is no test hook.
    pause, clock : callable
        Waits the given number of seconds; returns seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        *,
        longest_wait_s: float = 10.0,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._longest_wait_s = client, longest_wait_s
        self._pause, self._clock = pause, clock
        self._has_hook = True
        self.advanced = 0

    def cross(self, publishes_at: float | None) -> None:
        """Return after the next epoch boundary."""
        if self._has_hook and self._advance():
            self.advanced += 1
            return
        wait_s = None if publishes_at is None else max(0.0, publishes_at - self._clock())
        if wait_s is None or wait_s > self._longest_wait_s:
            raise NoEpochError(_no_epoch(wait_s))
        self._pause(wait_s + _AFTER_BOUNDARY_S)

    def _advance(self) -> bool:
        try:
            self._client.advance_epoch()
        except ServiceError as error:
            if error.status != 404 and error.name != "missing-scope":
                raise
            self._has_hook = False
        return self._has_hook


def _no_epoch(wait_s: float | None) -> str:
    when = "" if wait_s is None else f", which is in {wait_s / 60:,.0f} minutes" if wait_s >= 60 else " in time"
    return (
        f"the service publishes the audit's accounts only at its next epoch boundary{when}; audit a copy of it "
        "that has test hooks (--test-hooks) or epochs of a few seconds"
    )


# Start of an attack: a location from which the target is listed, far enough away that it reveals little.


MOST_LISTED = 100
_FIRST_STEP_M = 50.0
_HALVINGS = 5
_MOST_TRIES = 150

Listing = Callable[[Point, int], Sequence[str]]
"""Function from a spot and a number to at most that number of ids near the spot."""


class StartSearch:
    """Finds starts of attacks with questions of the platform, which do not count as questions of the attack.

    Parameters
    ----------
    listing : callable
        Asks the service.
    k : int
        Length of the attacker's lists.
    half_extent_m : (float, float)
        Half the width and half the height of the region.
    rng : numpy Generator
        Chooses directions.
    """

    def __init__(
        self, listing: Listing, *, k: int, half_extent_m: tuple[float, float], rng: np.random.Generator
    ) -> None:
        self._listing, self._k, self._half_extent_m, self._rng = listing, k, half_extent_m, rng

    def start_for(self, target: str, truth: Point) -> Point | None:
        """Return a start for a target: the farthest, in some direction, from which it is among the k nearest.

        As in the paper, where the target is the last of the list. None if no location nearby lists the target.
        """
        seen_from = self._seen_from(target, truth)
        return None if seen_from is None else self._farthest(target, seen_from)

    def _seen_from(self, target: str, truth: Point) -> Point | None:
        """Find a location from which the target is listed, by moving to where its rank improves."""
        best, best_rank = truth, self._rank(target, truth)
        for number in range(_MOST_TRIES):
            if best_rank is not None and best_rank <= self._k:
                return best
            # From near to far, repeatedly: it is not known how far the service moved the target.
            reach_m = _FIRST_STEP_M * 2.0 ** (number % 8)
            place = step_from(best, self._angle(), reach_m * math.sqrt(self._rng.random()))
            rank = self._rank(target, place)
            if rank is not None and (best_rank is None or rank < best_rank):
                best, best_rank = place, rank
        return None

    def _farthest(self, target: str, from_place: Point) -> Point:
        angle = self._angle()
        near_m, far_m = 0.0, _FIRST_STEP_M
        while self._is_listed(target, step_from(from_place, angle, far_m)):
            near_m, far_m = far_m, 2 * far_m
        for _ in range(_HALVINGS):
            middle_m = (near_m + far_m) / 2
            listed = self._is_listed(target, step_from(from_place, angle, middle_m))
            near_m, far_m = (middle_m, far_m) if listed else (near_m, middle_m)
        return step_from(from_place, angle, near_m)

    def _is_listed(self, target: str, place: Point) -> bool:
        return self._is_inside(place) and target in self._listing(place, self._k)

    def _rank(self, target: str, place: Point) -> int | None:
        return rank_of(self._listing(place, MOST_LISTED), target) if self._is_inside(place) else None

    def _is_inside(self, place: Point) -> bool:
        return all(abs(value) < half for value, half in zip(place, self._half_extent_m, strict=True))

    def _angle(self) -> float:
        return 2 * math.pi * float(self._rng.random())
