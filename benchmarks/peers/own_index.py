"""Nearveil's index with everybody in it."""

from collections.abc import Iterator

import numpy as np

from benchmarks.measuring.people import REGION
from benchmarks.peers.index_peer import Ids, Map
from nearveil.nearby._grid import NOBODY
from nearveil.nearby.index import NearbyIndex
from nearveil.nearby.stores.base import STEP_M, PublishedBatch
from nearveil.randomness import KEY_BYTES
from nearveil.types import FloatArray, IntArray

_BATCH = 10_000


class Published:
    """The index of the service, asked and changed through its public calls."""

    def __init__(self, map_of_people: Map) -> None:
        self._queries = map_of_people.queries_m.tolist()
        self._people = [str(number) for number in range(len(map_of_people.people_m))]
        self.index: NearbyIndex[str] = NearbyIndex(REGION)
        self.index.load(_batches(self._people, map_of_people.people_m), _to_metres, bytes(KEY_BYTES))

    def nearest(self, query: int, k: int) -> Ids:
        """Ask for numbers, to check them."""
        return [int(person) for person in self.ask(query, k)]

    def ask(self, query: int, k: int) -> list[str]:
        """Ask as the service does."""
        x_m, y_m = self._queries[query]
        return self.index.ranked_metres(x_m, y_m, k)

    def move(self, person: int, query: int) -> None:
        """Move somebody."""
        self.index.move(self._people[person], *self._queries[query])

    def ask_all(self, queries_m: FloatArray, k: int) -> int:
        """Ask from every row in compiled code, without Python in between; return how many were found."""
        nobody = np.full(len(queries_m), NOBODY, dtype=np.int64)
        return int(np.count_nonzero(self.index._live.nearest_to_each(queries_m, k, nobody) != NOBODY))


def _to_metres(steps: IntArray) -> FloatArray:
    return steps.astype(np.float64) * STEP_M


def _batches(people: list[str], metres: FloatArray) -> Iterator[PublishedBatch]:
    steps = np.rint(metres / STEP_M).astype(np.int64)
    for first in range(0, len(people), _BATCH):
        yield PublishedBatch(people[first : first + _BATCH], steps[first : first + _BATCH])
