"""How time grows with the number of people, from ten thousand to a hundred million."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.measuring.grown import Grown
from benchmarks.measuring.people import REGION, city_piece
from benchmarks.measuring.results import Effort, Result
from benchmarks.measuring.timing import Contender, Times, in_turns
from benchmarks.peers.index_peer import Map
from benchmarks.peers.own_index import Published
from nearveil import Intervals, build_pic_intervals
from nearveil.mechanisms._disc_law import LAPLACE
from nearveil.mechanisms._disc_sampler import sample_disc
from nearveil.mechanisms.base import chunk_slices, for_each_slice
from nearveil.mechanisms.nearest import NearestCentre
from nearveil.randomness import NumberedRows, stream_key
from nearveil.types import FloatArray, IntArray

SIZES, LARGE = (10**4, 10**5, 10**6, 10**7), 10**8
# Beyond, the ids alone, as text, take more memory than most machines have.
MOST_IN_INDEX = 10**7
CENTRES, SCALE = 1000, 0.5
QUERIES, K = 10_000, 10
_REPEATED = 10**6


def compare(effort: Effort) -> Iterator[Result]:
    """Measure every size, the smallest first."""
    sizes = SIZES[:2] if effort.quick else SIZES
    for size in (*sizes, LARGE) if effort.large else sizes:
        effort.tell(f"making up {size:,} people")
        people = _people(size)
        for series, times in _kernels(effort, people):
            yield Grown(series=series, people=size, times=times)
        if size <= MOST_IN_INDEX:
            yield from _index(effort, people)


def _people(count: int) -> FloatArray:
    people = np.empty((count, 2))
    for first in range(0, count, _REPEATED):
        people[first : first + _REPEATED] = city_piece(first, count)
    return people


def _kernels(effort: Effort, people: FloatArray) -> Iterator[tuple[str, Times]]:
    measure = partial(_measure, effort, len(people))
    fits: list[Intervals] = []
    yield measure(
        f"private k-means, {CENTRES:,} centres, 12 rounds",
        lambda: fits.append(build_pic_intervals(people, region=REGION, scale=34.5, centres=CENTRES)),
    )
    x, disc = np.empty_like(people), np.empty(len(people), dtype=np.int64)
    for part in chunk_slices(len(people)):
        x[part] = REGION.to_square(people[part])
    yield measure(f"nearest of {CENTRES:,} centres", lambda: _assign(x, fits[-1], disc))
    yield measure("sampling", lambda: _sample(x, disc, fits[-1]))


def _measure(effort: Effort, size: int, series: str, work: Callable[[], object]) -> tuple[str, Times]:
    """Repeat what is quick; what is slow warms itself up."""
    is_quick = size <= _REPEATED
    times = in_turns([Contender(series, work, warm_up=is_quick)], effort.of(5, 2) if is_quick else 1, effort.tell)
    return series, times[series]


def _assign(x: FloatArray, intervals: Intervals, disc: IntArray) -> None:
    nearest = NearestCentre(intervals.centres)

    def look_up(part: slice) -> None:
        disc[part] = nearest(x[part])

    for_each_slice(len(x), look_up)


def _sample(x: FloatArray, disc: IntArray, intervals: Intervals) -> None:
    key, centres, radii = stream_key(), intervals.centres, intervals.radii

    def draw(part: slice) -> None:
        rows, own = NumberedRows(key, part.start, part.stop - part.start), disc[part]
        unit = (x[part] - centres[own]) / radii[own, None]
        sample_disc(LAPLACE, unit, SCALE / radii[own], rows)

    for_each_slice(len(x), draw)


def _index(effort: Effort, people: FloatArray) -> Iterator[Result]:
    size, places_m = len(people), REGION.to_metres(people)
    queries_m = places_m[np.random.default_rng(1).integers(size, size=QUERIES)] + 1.0
    town = Map(places_m, people, queries_m, REGION.from_metres(queries_m))
    made: list[Published] = []

    def load() -> None:
        made[:] = [Published(town)]

    def ask() -> None:
        for query in range(QUERIES):
            made[0].ask(query, K)

    _, loading = _measure(effort, size, "loading the index", load)
    yield Grown(series="loading the index", people=size, times=loading)
    asking = in_turns([Contender("questions", ask, QUERIES)], effort.of(5, 2), effort.tell)["questions"]
    yield Grown(series=f"a question to the index, k = {K}", people=size, times=asking, per="question")
