"""The oracle of a running service: attacks reach it over HTTP, with accounts like anybody's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from nearveil.attacks.oracle import CountedOracle, OracleError, OutOfQueriesError, Spot
from nearveil.client.accounts import Accounts, Session
from nearveil.client.borders import Borders
from nearveil.client.errors import TOO_MANY, ServiceError
from nearveil.nearby.index import Person
from nearveil.region import Region

_T = TypeVar("_T")


class ThrottledError(OutOfQueriesError):
    """The service lets the attacker ask no more for now."""


@dataclass(slots=True)
class Throttle:
    """What a service did against one attack.

    Attributes
    ----------
    refusals : int
        How often it answered "too many".
    waited_s : float
        How long it made the attacker wait.
    first_at : int or None
        The question at which it refused first, from 1; a move counts to the question that it is for.
    stopped : bool
        Whether the attack had to end for it.
    """

    refusals: int = 0
    waited_s: float = 0.0
    first_at: int | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an attacker waits when told to: at once, and in all."""

    longest_wait_s: float = 2.0
    most_waiting_s: float = 60.0


def degrees_of(region: Region, spot: Spot) -> tuple[float, float]:
    """Latitude and longitude of a spot; one beyond the region is moved to its edge."""
    latitude, longitude = region.clip(region.from_metres(np.array([spot])))[0]
    return float(latitude), float(longitude)


class Attacker:
    """One attacker at a running service: accounts that ask, which are not on the map, and accounts that stand on it.

    Moves are reported at once; those that wait for a border are published, all together, before the next question.
    An account that has used up its budget of new places is replaced by a new one, which the attack does not notice.

    Parameters
    ----------
    accounts : Accounts
        Where accounts come from.
    region : Region
        Between metres and degrees.
    borders : Borders
        The way to the next epoch.
    k : int
        How many people to ask for.
    colluders, askers : int
        Accounts on the map, and accounts that ask in turn.
    """

    def __init__(
        self,
        accounts: Accounts,
        region: Region,
        borders: Borders,
        *,
        k: int,
        colluders: int,
        askers: int = 1,
        patience: Patience | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._accounts, self._region, self._borders = accounts, region, borders
        self._k, self._patience, self._pause = k, patience or Patience(), pause
        self._askers = [accounts.session(person) for person in accounts.create("asker", askers)]
        self._names = tuple(f"colluder-{number}" for number in range(colluders))
        self._sessions: dict[Person, Session] = {}
        self._name_of: dict[str, Person] = {}
        self._border: float | None = None
        self._waits = False
        self._asked = 0
        self.throttle = Throttle()

    def oracle(self, *, most_queries: int = 1000) -> CountedOracle:
        """Return what an attack may touch."""
        return CountedOracle(self._ask, self._put, k=self._k, colluders=self._names, most_queries=most_queries)

    def leave(self) -> None:
        """Remove the attacker's accounts."""
        self._accounts.remove([*(one.person for one in self._askers), *self._name_of])
        self._askers, self._sessions, self._name_of = [], {}, {}

    def _ask(self, place: Spot) -> Sequence[Person]:
        if self._waits:
            self._borders.cross(self._border)
            self._waits = False
        asker = self._askers[self._asked % len(self._askers)]
        latitude, longitude = degrees_of(self._region, place)
        answer = self._heeding(lambda: asker.nearby(latitude, longitude, k=self._k))
        self._asked += 1
        return [self._name_of.get(person, person) for person in answer]

    def _put(self, colluder: Person, place: Spot | None) -> None:
        if place is None:
            self._withdraw(colluder)
            return
        latitude, longitude = degrees_of(self._region, place)
        receipt = self._heeding(lambda: self._session(colluder).report(latitude, longitude))
        if receipt.is_spent:
            self._retire(colluder)
            receipt = self._heeding(lambda: self._session(colluder).report(latitude, longitude))
            if receipt.is_spent:
                raise OracleError("the service lets new accounts publish no place at all; raise its budget of places")
        if receipt.waits:
            self._waits, self._border = True, receipt.publishes_at

    def _withdraw(self, colluder: Person) -> None:
        """Take an account off the map; one that may not even do that is given up, so that an attack always ends."""
        if colluder not in self._sessions:
            return
        try:
            self._sessions[colluder].withdraw()
        except ServiceError as error:
            if error.status != TOO_MANY:
                raise
            self._note_refusal()
            self._retire(colluder)

    def _session(self, colluder: Person) -> Session:
        if colluder not in self._sessions:
            [person] = self._accounts.create("colluder")
            self._sessions[colluder] = self._accounts.session(person)
            self._name_of[person] = colluder
        return self._sessions[colluder]

    def _retire(self, colluder: Person) -> None:
        person = self._sessions.pop(colluder).person
        self._accounts.remove([person])
        del self._name_of[person]

    def _heeding(self, call: Callable[[], _T]) -> _T:
        """Make a call; wait as told where that is short, and give up where it is not."""
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
        # A service that says "now" and refuses again must not be asked for ever.
        wait_s = max(wait_s, 0.05)
        self._pause(wait_s)
        self.throttle.waited_s += wait_s
