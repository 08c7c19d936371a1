"""Questions with filters beside those without, asked of the live index: tags, ids to leave out, pages.

Times are those of the processor, which other work on the machine changes less.
"""

import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from benchmarks.measuring.people import REGION, people_in_degrees
from benchmarks.measuring.results import Beside, Effort, Result
from benchmarks.measuring.timing import Contender, OwnSeconds, in_turns
from nearveil.nearby.index import Filter, NearbyIndex
from nearveil.nearby.stores.base import STEP_M, PublishedBatch
from nearveil.randomness import KEY_BYTES

K, MANY = 10, 1_000
MOST_TIME = 3.0
QUERIES = 2_000
PLACES_WITH_LISTS = 20
# What share of people has each tag; the bits go up from the first.
SHARES = {"half": 0.5, "a fifth": 0.2, "a twentieth": 0.05, "1 of 100": 0.01, "1 of 1,000": 0.001, "1 of 100,000": 1e-5}
HALF, FIFTH, TWENTIETH = 1, 2, 4

Wanted = Callable[[int], Filter[str]]


def compare(effort: Effort) -> Iterator[Result]:
    """Compare with as many people as a large city has in such a service."""
    people = effort.of(1_000_000, 100_000)
    effort.tell("putting everybody on the map")
    town = _Town(people)
    plain, long = "without filters", f"a list of {MANY + K:,}"
    filters, far = town.filters(), town.far_filters()
    many, few = effort.of(QUERIES, 500), effort.of(200, 50)
    contenders = [
        town.asking(plain, many, K, None, QUERIES),
        *(town.asking(name, many, K, wanted, QUERIES) for name, wanted in filters.items()),
        town.asking(long, few, MANY + K, None, PLACES_WITH_LISTS),
        *(town.asking(name, few, K, wanted, PLACES_WITH_LISTS) for name, wanted in far.items()),
    ]
    times = in_turns(contenders, effort.of(15, 2), effort.tell)
    for names, peer in ((filters, plain), (far, long)):
        for name in names:
            yield Beside(
                what=f"{name}, {people:,} people, k = {K}",
                peer=peer,
                ours=times[name],
                theirs=times[peer],
                unit="question",
                most_time=effort.limit(MOST_TIME),
                told_as_time=True,
            )


class _Town:
    """An index of people with tags, and places beside some of them."""

    def __init__(self, count: int) -> None:
        people_m = REGION.to_metres(people_in_degrees(count))
        rng = np.random.default_rng(1)
        tags = np.zeros(count, dtype=np.uint64)
        for bit, share in enumerate(SHARES.values()):
            tags |= (rng.random(count) < share).astype(np.uint64) << np.uint64(bit)
        steps = np.rint(people_m / STEP_M).astype(np.int64)
        self.index: NearbyIndex[str] = NearbyIndex(REGION)
        batch = PublishedBatch([str(number) for number in range(count)], steps, tags)
        self.index.load([batch], lambda some: some.astype(np.float64) * STEP_M, bytes(KEY_BYTES))
        beside_m = people_m[rng.integers(count, size=QUERIES)] + rng.uniform(-5, 5, (QUERIES, 2))
        self._places: list[tuple[float, float]] = [(x, y) for x, y in beside_m.tolist()]
        # Lists are of few places, each asked about again and again.
        self._near = [self.ask(query, MANY, None) for query in range(PLACES_WITH_LISTS)]
        self._anybody = [frozenset(map(str, rng.integers(count, size=MANY).tolist())) for _ in range(PLACES_WITH_LISTS)]

    def ask(self, query: int, k: int, wanted: Filter[str] | None) -> list[str]:
        x_m, y_m = self._places[query]
        return self.index.ranked_metres(x_m, y_m, k, None, None, wanted)

    def filters(self) -> Mapping[str, Wanted]:
        """Filters that leave some of the nearest."""

        def of(*only: int) -> Wanted:
            return lambda _: Filter(only=only)

        blocked = [
            frozenset([*near[:5], *sorted(others)[:45]])
            for near, others in zip(self._near, self._anybody, strict=True)
        ]  # fmt: skip
        return {
            **{f"a tag of {name}": of(1 << bit) for bit, name in enumerate(SHARES)},
            "a tag of half, and one of a fifth": of(HALF, FIFTH),
            "a tag of a fifth or a twentieth, and one of half": of(FIFTH | TWENTIETH, HALF),
            "a block list of 50": lambda query: Filter(hidden=(blocked[query % PLACES_WITH_LISTS],)),
            "1,000 anywhere left out": lambda query: Filter(hidden=(self._anybody[query % PLACES_WITH_LISTS],)),
        }

    def far_filters(self) -> Mapping[str, Wanted]:
        """Filters that leave none of the nearest thousand, so that it takes a look at all of them."""
        hidden = [frozenset(near) for near in self._near]
        return {
            "the nearest 1,000 left out": lambda query: Filter(hidden=(hidden[query],)),
            "a page after 1,000 people": lambda query: Filter(after=self._near[query][-1]),
        }

    def asking(self, name: str, count: int, k: int, wanted: Wanted | None, places: int) -> Contender:
        """Ask about so many places, one after the other."""

        def work_through() -> OwnSeconds:
            started = time.thread_time()
            for query in range(count):
                at = query % places
                self.ask(at, k, None if wanted is None else wanted(at))
            return OwnSeconds(time.thread_time() - started)

        return Contender(name, work_through, count)
