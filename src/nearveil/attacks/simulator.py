"""A nearby service to attack, in memory, with true or published locations."""

from __future__ import annotations

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
    """Answers from the locations it is given: true ones, or published ones for a protected service.

    Parameters
    ----------
    region : Region
        Public.
    places_m : ndarray of shape (n, 2)
        Where the service has its users, in meters; user i is number i.
    account_mechanism : Mechanism, optional
        Accounts' locations are published through it, as a live service does; without it they are exact.
    rng : optional
        Order of ties, and the accounts' noise.
    policy : AnswerPolicy, optional
        What is done to a list before it is shown.
    tells_exact : bool
        Whether attackers are told that lists are exact, where they are; see `CountedOracle`.
    """

    def __init__(
        self, region: Region, places_m: FloatArray, *, account_mechanism: Mechanism | None = None,
        rng: np.random.Generator | int | None = None, policy: AnswerPolicy | None = None, tells_exact: bool = False,
    ) -> None:  # fmt: skip
        if len(places_m) == 0:
            raise UsageError("a service without people cannot be attacked; give at least one person")
        if (np.abs(places_m) > np.array(region.half_extent_m) + 1.0).any():
            raise UsageError("everybody must be in the region; clip places to it first")
        self._region, self._places_m, self._mechanism = region, places_m, account_mechanism
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
        chance = self._rng if rng is None else np.random.default_rng(rng)
        # The same order of equals for every attacker, as a service has it.
        lists = None if self._policy.is_plain else PolicedLists(
            self._policy, self._places_m, self._region.half_extent_m,
            ties=np.random.default_rng(len(self._places_m)), rng=chance,
        )  # fmt: skip

        def put(account: Person, point: Point | None) -> None:
            published = None if point is None else self._published(point, chance)
            if lists is not None:
                lists.put(account, published)
            elif published is None:
                self._index.remove(account)
            else:
                self._index.move(account, *published.tolist())

        return CountedOracle(
            lambda point: self._index.ranked_metres(*point, k) if lists is None else lists.ranked(point, k), put,
            k=k, accounts=self._accounts, most_queries=most_queries, has_exact_lists=self._tells_exact,
        )  # fmt: skip

    def person_oracle(
        self, answers: Answers, person: int, *, most_queries: int = 1000, rng: np.random.Generator | int | None = None
    ) -> PersonOracle:
        """Open the service to an attacker who asks about one user; ``rng`` chooses a rounding that is not stated."""
        chance = self._rng if rng is None else np.random.default_rng(rng)
        return answers.simulated(point_of(self._places_m[person]), most_queries=most_queries, rng=chance)

    def _published(self, point: Point, rng: np.random.Generator) -> FloatArray:
        """Where the service has an account that was put at a point."""
        at = np.array([point], dtype=np.float64)
        if self._mechanism is not None:
            degrees = self._region.publish(self._region.from_metres(at))
            at = self._region.to_metres(self._mechanism.perturb(degrees, rng))
        return np.asarray(at[0])
