"""Which of 1,000 centres is nearest, for a million points, beside scipy's KD-tree."""

from collections.abc import Iterator

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.measuring.machine import usable_cores
from benchmarks.measuring.people import REGION, people_in_degrees
from benchmarks.measuring.results import Alone, Beside, Effort, Result
from benchmarks.measuring.timing import Contender, in_turns
from nearveil import build_pic_intervals
from nearveil.mechanisms.base import for_each_slice
from nearveil.mechanisms.nearest import nearest_centre_table

CENTRES = 1000
LEAST_SPEED = 10.0
US, TREE = "Nearveil", "scipy's KD-tree"


def compare(effort: Effort) -> Iterator[Result]:
    """Compare looking up, on one core and on all; both have been built before."""
    count = effort.of(1_000_000, 200_000)
    people = people_in_degrees(count)
    x = REGION.to_square(people)
    centres = np.ascontiguousarray(
        build_pic_intervals(people, region=REGION, scale=34.5, centres=CENTRES, rng=1).centres
    )
    table, tree = nearest_centre_table(centres, REGION.half_extent_square), cKDTree(centres)
    assert (table(x) == tree.query(x)[1]).all()
    found = np.empty(count, dtype=np.int64)

    def look_up(part: slice) -> None:
        found[part] = table(x[part])

    one = [Contender(US, lambda: table(x), count), Contender(TREE, lambda: tree.query(x), count)]
    every = [
        Contender(US, lambda: for_each_slice(count, look_up), count),
        Contender(TREE, lambda: tree.query(x, workers=-1), count),
    ]
    for cores, contenders in ((1, one), (usable_cores(), every)):
        times = in_turns(contenders, effort.of(9, 3), effort.tell)
        yield Beside(
            what=f"nearest of {CENTRES:,} centres, {'one core' if cores == 1 else f'{cores} cores'}", peer=TREE,
            ours=times[US], theirs=times[TREE], unit="point", least_speed=effort.limit(LEAST_SPEED),
        )  # fmt: skip
    building = [Contender(US, lambda: nearest_centre_table(centres, REGION.half_extent_square))]
    built = in_turns(building, effort.of(5, 2), effort.tell)[US]
    yield Alone(what=f"building the table of {CENTRES:,} centres", value=1e3 * built.best, unit="ms")
