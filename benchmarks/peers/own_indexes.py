"""Nearveil's two indexes, with everybody in them, and the kernel behind one of them in a loop."""

from collections.abc import Iterator

import numpy as np

from benchmarks.measuring.people import REGION
from benchmarks.peers.index_peer import Ids, Map
from nearveil.hashing import HashArray
from nearveil.kernels import kernel
from nearveil.nearby._grid import NOBODY, SlotArray, rank_slots
from nearveil.nearby.index import NearbyIndex
from nearveil.nearby.published_index import PublishedIndex
from nearveil.nearby.stores.base import STEP_M, PublishedBatch
from nearveil.randomness import KEY_BYTES
from nearveil.types import FloatArray, IntArray

_BATCH = 10_000


class Published:
    """The index of the service, asked and changed through its public calls."""

    def __init__(self, map_of_people: Map) -> None:
        self._queries = map_of_people.queries_m.tolist()
        self._people = [str(number) for number in range(len(map_of_people.people_m))]
        self.index = PublishedIndex(REGION)
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
        live = self.index._live
        return int(
            _ask_all(queries_m, k, live._frame, *live._shape, live._head, live._inner, live._after, live.places,
                     live._ties)
        )  # fmt: skip


class Simulated:
    """The index of experiments."""

    def __init__(self, map_of_people: Map) -> None:
        self._queries = map_of_people.queries_m.tolist()
        self._index = NearbyIndex(
            REGION.half_extent_m, range(len(map_of_people.people_m)), map_of_people.people_m, rng=1
        )

    def nearest(self, query: int, k: int) -> Ids:
        """Ask."""
        return self._index.ranked(self._queries[query], k)  # type: ignore[return-value]

    def move(self, person: int, query: int) -> None:
        """Move somebody."""
        self._index.move(person, self._queries[query])


def _to_metres(steps: IntArray) -> FloatArray:
    return steps.astype(np.float64) * STEP_M


def _batches(people: list[str], metres: FloatArray) -> Iterator[PublishedBatch]:
    steps = np.rint(metres / STEP_M).astype(np.int64)
    for first in range(0, len(people), _BATCH):
        yield PublishedBatch(people[first : first + _BATCH], steps[first : first + _BATCH])


@kernel
def _ask_all(
    queries_m: FloatArray,
    k: int,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    places: FloatArray,
    ties: HashArray,
) -> int:
    slots, squares = np.empty(k, dtype=np.int32), np.empty(k)
    found = 0
    for i in range(len(queries_m)):
        found += rank_slots(
            queries_m[i, 0], queries_m[i, 1], NOBODY, np.inf, frame, columns, rows, head, inner, after, places, ties,
            slots, squares,
        )  # fmt: skip
    return found
