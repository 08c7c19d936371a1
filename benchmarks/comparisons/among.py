"""Drawing among people on one core, with few and with many cells, beside a search in NumPy."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.measuring.people import REGION, people_in_degrees
from benchmarks.measuring.results import Alone, Beside, Effort, Result
from benchmarks.measuring.timing import Contender, in_turns
from nearveil.mechanisms.base import chunk_slices
from nearveil.mechanisms.cell_steps import STEP_BITS
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.step_channel import StepChannel
from nearveil.randomness import NumberedRows, secure_generator, stream_key
from nearveil.types import FloatArray, IntArray, ShortIntArray

LEAST_PLACES_A_SECOND = 5_000_000
HIDE_AMONG = 100
SIZES = ((30_000, 30_000), (200_000, 60_000), (1_000_000, 100_000))
"""People that cells are made from, in full and in quick runs."""

US, IN_NUMPY = "Nearveil", "one search in NumPy, cells alone"


def compare(effort: Effort) -> Iterator[Result]:
    """Draw for people of the same city, with cells made from more and more of them."""
    for full, quick in SIZES:
        made_from = effort.of(full, quick)
        effort.tell(f"cells from {made_from:,} people")
        cells = cells_from_points(people_in_degrees(made_from), REGION, CellPlan(hide_among=HIDE_AMONG))
        yield from _compare(effort, cells)


def _compare(effort: Effort, cells: Cells) -> Iterator[Result]:
    mechanism = HideAmong(HIDE_AMONG, cells=cells)
    people = cells.region.to_square(people_in_degrees(effort.of(1_000_000, 200_000)))
    channel = mechanism.channel
    _ = channel.tables
    contenders = [
        Contender(US, partial(_draw, mechanism, people), len(people)),
        Contender(IN_NUMPY, partial(_search, cells.find(people), *_cumulative(channel)), len(people)),
    ]
    found = in_turns(contenders, effort.of(15, 3), effort.tell)
    what = f"hide among {HIDE_AMONG}, {len(cells):,} cells, one core"
    yield Beside(what=what, peer=IN_NUMPY, ours=found[US], theirs=found[IN_NUMPY], unit="place")
    least = effort.limit(LEAST_PLACES_A_SECOND)
    yield Alone(what=f"{what}: speed", value=1 / found[US].best, unit="places/s", least=least)


def _draw(mechanism: HideAmong, people: FloatArray) -> None:
    key = stream_key()
    for part in chunk_slices(len(people)):
        mechanism.draw(people[part], NumberedRows(key, part.start, part.stop - part.start))


def _cumulative(channel: StepChannel) -> tuple[FloatArray, IntArray]:
    """All cells' probabilities of those in reach, one row after the other, from the row's number to less than 1 more.

    What is far away is left out: the search is for less than Nearveil draws.
    """
    starts, count = channel.reach.starts, len(channel.cells)
    near, steps = channel.reach.entries >> STEP_BITS, channel.reach.entries & ((1 << STEP_BITS) - 1)
    running = np.concatenate([[0.0], np.cumsum(channel.falls[steps] * channel.weights[near].astype(np.float64))])
    row = np.repeat(np.arange(count), np.diff(starts))
    before = running[starts[:-1]]
    share = (running[1:] - before[row]) / (running[starts[1:]] - before)[row]
    return row + share, near


def _search(found: ShortIntArray, cumulative: FloatArray, near: IntArray) -> None:
    for part in chunk_slices(len(found)):
        uniform = secure_generator().random(part.stop - part.start)
        _ = near[np.searchsorted(cumulative, found[part] + uniform)]
