"""Questions with filters beside those without, asked of the live index: tags, ids to leave out, pages."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.measuring.people import REGION, people_in_degrees
from benchmarks.measuring.results import Beside, Effort, Result
from benchmarks.measuring.timing import Contender, in_turns
from nearveil.nearby.index import Filter, NearbyIndex
from nearveil.nearby.stores.base import STEP_M, PublishedBatch
from nearveil.randomness import KEY_BYTES

K = 10
MOST_TIME = 3.0
QUERIES = 5_000
# What share of people has each tag; the bits go up from the first.
SHARES = {"half": 0.5, "a fifth": 0.2, "a twentieth": 0.05, "1 of 100": 0.01, "1 of 1,000": 0.001, "1 of 100,000": 1e-5}
BITS = {name: 1 << number for number, name in enumerate(SHARES)}

Index = NearbyIndex[str]
Wanted = Callable[[int], Filter[str]]


def compare(effort: Effort) -> Iterator[Result]:
    """Compare with as many people as a large city has in such a service."""
    people = effort.of(1_000_000, 100_000)
    effort.tell("putting everybody on the map")
    index, queries_m = _index(people)
    near = [index.ranked_metres(*place, 1_000) for place in queries_m[:20]]
    rng = np.random.default_rng(3)
    anybody = [frozenset(map(str, rng.integers(people, size=1_000).tolist())) for _ in range(20)]
    blocked = [frozenset(some[:5]) | frozenset(list(other)[:45]) for some, other in zip(near, anybody, strict=True)]
    filters: dict[str, Wanted] = {
        **{f"a tag of {name}": lambda _, bit=bit: Filter(only=(bit,)) for name, bit in BITS.items()},
        "a tag of half, and one of a fifth": lambda _: Filter(only=(BITS["half"], BITS["a fifth"])),
        "a tag of a fifth or a twentieth, and one of half": lambda _: Filter(
            only=(BITS["a fifth"] | BITS["a twentieth"], BITS["half"])
        ),
        "a block list of 50, of whom 5 are near": lambda query: Filter(hidden=(blocked[query % 20],)),
        "1,000 anywhere left out": lambda query: Filter(hidden=(anybody[query % 20],)),
    }
    # Whoever leaves out the nearest thousand asks for what comes after them.
    far = {
        "the nearest 1,000 left out": lambda query: index.ranked_metres(
            *queries_m[query % 20], K, filtered=Filter(hidden=(frozenset(near[query % 20]),))
        ),
        "1,010 people": lambda query: index.ranked_metres(*queries_m[query % 20], K + 1_000),
        "a page after 1,000 people": lambda query: index.ranked_metres(
            *queries_m[query % 20], K, filtered=Filter(after=near[query % 20][-1])
        ),
    }
    many, few = effort.of(QUERIES, 1_000), effort.of(200, 50)
    plain, long = "without filters", "1,010 people"
    contenders = [
        Contender(plain, _each(many, lambda query: index.ranked_metres(*queries_m[query], K)), many),
        *(
            Contender(name, _each(many, _asking(index, queries_m, wanted)), many)
            for name, wanted in filters.items()
        ),
        *(Contender(name, _each(few, ask), few) for name, ask in far.items()),
    ]  # fmt: skip
    times = in_turns(contenders, effort.of(7, 2), effort.tell)
    where = f"{people:,} people, k = {K}"
    for name in filters:
        yield _beside(f"{name}, {where}", plain, times[name], times[plain], effort.limit(MOST_TIME))
    for name in far:
        if name != long:
            yield _beside(f"{name}, {where}", f"a list of {long}", times[name], times[long], effort.limit(MOST_TIME))


def _beside(what: str, peer: str, ours: object, theirs: object, most_time: float | None) -> Beside:
    return Beside(
        what=what, peer=peer, ours=ours, theirs=theirs, unit="question", most_time=most_time, told_as_time=True
    )  # type: ignore[arg-type]


def _asking(index: Index, queries_m: list[list[float]], wanted: Wanted) -> Callable[[int], object]:
    return lambda query: index.ranked_metres(*queries_m[query], K, filtered=wanted(query))


def _each(count: int, ask: Callable[[int], object]) -> Callable[[], None]:
    def work_through() -> None:
        for query in range(count):
            ask(query)

    return work_through


def _index(count: int) -> tuple[Index, list[list[float]]]:
    """Return an index of people with tags, and places beside some of them."""
    people_m = REGION.to_metres(people_in_degrees(count))
    rng = np.random.default_rng(1)
    tags = np.zeros(count, dtype=np.uint64)
    for name, share in SHARES.items():
        tags |= np.where(rng.random(count) < share, BITS[name], 0).astype(np.uint64)
    steps = np.rint(people_m / STEP_M).astype(np.int64)
    index: Index = NearbyIndex(REGION)
    batch = PublishedBatch([str(number) for number in range(count)], steps, tags)
    index.load([batch], lambda some: some.astype(np.float64) * STEP_M, bytes(KEY_BYTES))
    return index, (people_m[rng.integers(count, size=QUERIES)] + rng.uniform(-5, 5, (QUERIES, 2))).tolist()
