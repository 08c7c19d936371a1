"""A nearby service to attack, in memory, with true or published locations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearveil.attacks.answers import Answers
from nearveil.attacks.oracle import CountedOracle, PersonOracle, Spot, spot_of
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
    colluder_mechanism : Mechanism, optional
        Colluders' places are published through it, as a live service does; without it they are exact.
    rng : optional
        Order of ties, and the colluders' noise.
    """

    def __init__(
        self,
        region: Region,
        places_m: FloatArray,
        *,
        colluder_mechanism: Mechanism | None = None,
        rng: np.random.Generator | int | None = None,
    ) -> None:
        if len(places_m) == 0:
            raise UsageError("a service without people cannot be attacked; give at least one person")
        if (np.abs(places_m) > np.array(region.half_extent_m) + 1.0).any():
            raise UsageError("everybody must be in the region; clip places to it first")
        self._region, self._places_m = region, places_m
        self._mechanism = colluder_mechanism
        self._rng = np.random.default_rng(rng)
        self._index: NearbyIndex[Person] = NearbyIndex(region, range(len(places_m)), places_m, rng=self._rng)
        self._accounts: tuple[str, ...] = ()

    def oracle(
        self, *, k: int, colluders: int, most_queries: int = 1000, rng: np.random.Generator | int | None = None
    ) -> CountedOracle:
        """Open the service to one attacker with ``colluders`` accounts; those of an earlier attacker are removed.

        ``rng`` is for the noise of these accounts alone, so that an attack can be repeated on its own.
        """
        for account in self._accounts:
            self._index.remove(account)
        self._accounts = tuple(f"colluder-{number}" for number in range(colluders))
        if not 1 <= k <= len(self._index):
            raise UsageError(f"k must lie between 1 and the number of people, {len(self._index):,}")

        noise = self._rng if rng is None else np.random.default_rng(rng)

        def put(account: Person, place: Spot | None) -> None:
            self._put(account, place, noise)

        def ask(place: Spot) -> Sequence[Person]:
            return self._index.ranked_metres(*place, k)

        return CountedOracle(ask, put, k=k, colluders=self._accounts, most_queries=most_queries)

    def person_oracle(
        self, answers: Answers, person: int, *, most_queries: int = 1000, rng: np.random.Generator | int | None = None
    ) -> PersonOracle:
        """Open the service to an attacker who asks about one person; ``rng`` chooses a rounding that is not stated."""
        chance = self._rng if rng is None else np.random.default_rng(rng)
        return answers.simulated(spot_of(self._places_m[person]), most_queries=most_queries, rng=chance)

    def _put(self, account: Person, place: Spot | None, noise: np.random.Generator) -> None:
        if place is None:
            self._index.remove(account)
            return
        spot = np.array([place], dtype=np.float64)
        if self._mechanism is not None:
            region = self._region
            degrees = region.publish(region.from_metres(spot))
            spot = region.to_metres(self._mechanism.perturb(degrees, noise))
        self._index.move(account, *spot[0].tolist())
