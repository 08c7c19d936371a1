"""DatabaseIndex: questions go to the database, where no index in memory is wanted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nearveil.nearby.published_index import PointProjection, Remap
from nearveil.nearby.stores.base import PublishedBatch, SearchableStore
from nearveil.region import Region
from nearveil.types import FloatArray


class DatabaseIndex:
    """The same questions and changes as `PublishedIndex`, answered by a store that can search.

    Parameters
    ----------
    region : Region
        Public.
    store : SearchableStore
        Keeps where people are published.
    """

    def __init__(self, region: Region, store: SearchableStore) -> None:
        self.region = region
        self._store = store
        self._project = PointProjection(region)
        self._tie_key = b""
        self._remap: Remap | None = None

    def __len__(self) -> int:
        return self._store.totals().published

    def __contains__(self, person: str) -> bool:
        return False  # nobody is held here: the store knows

    def load(self, batches: Iterable[PublishedBatch], remap: Remap, tie_key: bytes) -> None:
        """Let the database know where people are published."""
        self._store.keep_places((batch.people, remap(batch.steps)) for batch in batches)
        self._remap, self._tie_key = remap, tie_key

    def advance(self, batches: Iterable[PublishedBatch], remap: Remap, tie_key: bytes) -> None:
        """Let it know where people are published since the last time."""
        self.load(batches, remap, tie_key)

    def move(self, person: str, x_m: float, y_m: float) -> None:
        """Put somebody at a published place at once."""
        self._store.keep_places([([person], np.array([[x_m, y_m]]))])

    def remove(self, _person: str) -> bool:
        """Do nothing: whom the store has erased or taken off the map, it does not find."""
        return True

    def to_metres(self, latitude: float, longitude: float) -> tuple[float, float]:
        """Project one place of the region; raises DataError if it is not in the region."""
        return self._project(latitude, longitude)

    def ranked_metres(
        self, x_m: float, y_m: float, k: int, exclude: str | None = None, within_m: float | None = None
    ) -> list[str]:
        """Return the k nearest people, nearest first, equals in this epoch's order."""
        return self._store.nearest((x_m, y_m), k, exclude=exclude, within_m=within_m, tie_key=self._tie_key)

    def sample(self, count: int, _rng: np.random.Generator) -> tuple[list[str], FloatArray]:
        """Return some people and their published places in degrees."""
        people: list[str] = []
        places: list[FloatArray] = [np.empty((0, 2))]
        for batch in self._store.published() if self._remap is not None else ():
            if self._remap is None or len(people) >= count:
                break
            people += batch.people
            places.append(self._remap(batch.steps))
        found = np.concatenate(places)[:count]
        return people[:count], self.region.publish(self.region.from_metres(found))
