"""A nearby service to attack, in memory, with true or published locations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearveil.attacks.answers import Answers
from nearveil.attacks.oracle import CountedOracle, PersonOracle, Point, point_of
from nearveil.attacks.policies import AnswerPolicy, PolicedLists
from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.nearby.index import NearbyIndex, Person
from nearveil.region import Region
from nearveil.types import FloatArray


class SimulatedService:
    """Answers from the places it is given: true ones, or published ones for a protected service.

    Parameters
    ----------
    region : Region
        Public.
    places_m : ndarray of shape (n, 2)
        Where the service believes people to be, in metres; person i is number i.
    account_mechanism : Mechanism, optional
        Accounts' places are published through it, as a live service does; without it they are exact.
    rng : optional
        Order of ties, and the accounts' noise.
    policy : AnswerPolicy, optional
        What is done to a list before it is shown.
    tells_exact : bool
        Whether attackers are told that lists are exact, where they are; see `CountedOracle`.
    """

    def __init__(
        self,
        region: Region,
        places_m: FloatArray,
        *,
        account_mechanism: Mechanism | None = None,
        rng: np.random.Generator | int | None = None,
        policy: AnswerPolicy | None = None,
        tells_exact: bool = False,
    ) -> None:
        if len(places_m) == 0:
            raise UsageError("a service without people cannot be attacked; give at least one person")
        if (np.abs(places_m) > np.array(region.half_extent_m) + 1.0).any():
            raise UsageError("everybody must be in the region; clip places to it first")
        self._region, self._places_m = region, places_m
        self._mechanism = account_mechanism
        self._rng = np.random.default_rng(rng)
        self._index: NearbyIndex[Person] = NearbyIndex(region, range(len(places_m)), places_m, rng=self._rng)
        self._accounts: tuple[str, ...] = ()
        self._policy = policy or AnswerPolicy()
        self._tells_exact = tells_exact and self._policy.is_plain and account_mechanism is None

    def oracle(
        self, *, k: int, accounts: int, most_queries: int = 1000, rng: np.random.Generator | int | None = None
    ) -> CountedOracle:
        """Open the service to one attacker with ``accounts`` accounts; those of an earlier attacker are removed.

        ``rng`` is for the noise of these accounts alone, so that an attack can be repeated on its own.
        """
        for account in self._accounts:
            self._index.remove(account)
        self._accounts = tuple(f"account-{number}" for number in range(accounts))
        if not 1 <= k <= len(self._index):
            raise UsageError(f"k must lie between 1 and the number of people, {len(self._index):,}")

        noise = self._rng if rng is None else np.random.default_rng(rng)

        if not self._policy.is_plain:
            return self._policed_oracle(k, most_queries, noise)

        def put(account: Person, place: Point | None) -> None:
            self._move(account, self._published(place, noise))

        def ask(place: Point) -> Sequence[Person]:
            return self._index.ranked_metres(*place, k)

        return CountedOracle(
            ask, put, k=k, accounts=self._accounts, most_queries=most_queries, has_exact_lists=self._tells_exact
        )

    def person_oracle(
        self, answers: Answers, person: int, *, most_queries: int = 1000, rng: np.random.Generator | int | None = None
    ) -> PersonOracle:
        """Open the service to an attacker who asks about one person; ``rng`` chooses a rounding that is not stated."""
        chance = self._rng if rng is None else np.random.default_rng(rng)
        return answers.simulated(point_of(self._places_m[person]), most_queries=most_queries, rng=chance)

    def _policed_oracle(self, k: int, most_queries: int, noise: np.random.Generator) -> CountedOracle:
        lists = PolicedLists(
            self._policy,
            self._places_m,
            self._region.half_extent_m,
            # The same order of equals for every attacker, as a service has it.
            ties=np.random.default_rng(len(self._places_m)),
            rng=noise,
        )
        return CountedOracle(
            lambda place: lists.ranked(place, k),
            lambda account, place: lists.put(account, self._published(place, noise)),
            k=k,
            accounts=self._accounts,
            most_queries=most_queries,
        )

    def _move(self, account: Person, spot: FloatArray | None) -> None:
        if spot is None:
            self._index.remove(account)
        else:
            self._index.move(account, *spot.tolist())

    def _published(self, place: Point | None, noise: np.random.Generator) -> FloatArray | None:
        """Where the service has an account that was put somewhere."""
        if place is None:
            return None
        spot = np.array([place], dtype=np.float64)
        if self._mechanism is not None:
            region = self._region
            degrees = region.publish(region.from_metres(spot))
            spot = region.to_metres(self._mechanism.perturb(degrees, noise))
        return np.asarray(spot[0])
