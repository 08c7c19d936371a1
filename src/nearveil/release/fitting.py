"""Private fits on a file: exact answers about its people, read on several cores and not kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from nearveil._old_faults import Faults, faults_in, refuse
from nearveil.io.files import open_people
from nearveil.io.people import People, PeopleStream, ReadOptions
from nearveil.kernels import kernel
from nearveil.mechanisms.base import FitRefusedError
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.fit_cells import LARGEST_CELL_M, LEAST_CELL_M, CellPlan, build_private_cells
from nearveil.mechanisms.fit_pic import FIXED_POINT, ExactAnswers
from nearveil.mechanisms.fitting import FitMethod, FitPlan, build_intervals
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.nearest import NearestCentre
from nearveil.mechanisms.step_channel import calibrated
from nearveil.privacy.guarantee import Guarantee, check_epsilon
from nearveil.privacy.ledger import Ledger
from nearveil.randomness import FIT_STREAM, seeded_randomness
from nearveil.region import Region, as_region
from nearveil.release.charging import charge_fit, check_charged, checked_ids
from nearveil.release.parallel_map import mapped_in_order
from nearveil.release.unique_ids import BatchIds, PeopleWatch
from nearveil.types import FloatArray, IntArray, Progress, ProgressBar, no_bar

SmallIntArray = npt.NDArray[np.int32]


class CellTally:
    """Counts as `cell_counts` does, a batch at a time: whole multiples of 2⁻²⁰ of the square, on any thread."""

    def __init__(self, region: Region, columns: int, rows: int) -> None:
        self._region = region
        self._columns = columns
        self._rows = rows
        # As many as there are threads: each takes one while it counts.
        self._spare: deque[IntArray] = deque()

    def add(self, whole: SmallIntArray) -> None:
        """Count a batch."""
        try:
            counts = self._spare.pop()
        except IndexError:
            counts = np.zeros(self._columns * self._rows, dtype=np.int64)
        _count(whole, *self._region.half_extent_square, self._columns, self._rows, counts)
        self._spare.append(counts)

    def total(self) -> IntArray:
        """Return what all batches counted together."""
        return sum(self._spare, np.zeros(self._columns * self._rows, dtype=np.int64))


@kernel
def _count(
    whole: SmallIntArray, half_width: float, half_height: float, columns: int, rows: int, counts: IntArray
) -> None:
    for i in range(len(whole)):
        east = np.divide(np.divide(whole[i, 0], FIXED_POINT), half_width)
        north = np.divide(np.divide(whole[i, 1], FIXED_POINT), half_height)
        column = min(max(int((east + 1.0) * 0.5 * columns), 0), columns - 1)
        row = min(max(int((north + 1.0) * 0.5 * rows), 0), rows - 1)
        counts[row * columns + column] += 1


# Exact answers about the people of a file, for a private fit: the file is read, not kept.


# Places take eight bytes each, 256 MiB in all; where there are more, the file is read again for every question.
_MOST_KEPT = 1 << 25
# As much as a core keeps at hand from one step to the next.
_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some rows: their faults, the place of them all if there is one, and where they are in the square."""

    rows: int
    faults: Faults
    look: BatchIds | None
    one_place: tuple[float, float] | None
    whole: SmallIntArray | None


class PlacesInStream(ExactAnswers):
    """Answers about everybody in a file, who must be inside the region.

    Memory grows by 8 MB per million rows up to ``most_kept``; of larger files nothing is kept. True places are not
    written to a temporary file, whatever memory that would save.

    Parameters
    ----------
    stream : PeopleStream
        True places.
    region : Region
        Public.
    watch : PeopleWatch, optional
        Looks at every batch when the file is read for the first time.
    clip : bool
        Whether people outside the region are moved to its edge first.
    progress : callable, optional
        Called with the number of people just read for the first time.
    most_kept : int
        How many places are kept in memory at most.
    """

    def __init__(
        self,
        stream: PeopleStream,
        region: Region,
        watch: PeopleWatch | None = None,
        *,
        clip: bool = False,
        progress: Progress | None = None,
        most_kept: int = _MOST_KEPT,
    ) -> None:
        self.region = region
        self._stream = stream
        self._watch = watch
        self._clip = clip
        self._most_kept = most_kept
        self._count = 0
        # As whole multiples of 2⁻²⁰ of the square; none are kept where there are too many.
        self._kept: list[SmallIntArray] | None = []
        self._places: set[tuple[float, float] | None] = set()
        self._read(progress)

    def __len__(self) -> int:
        return self._count

    @property
    def all_in_one_place(self) -> bool:
        """Whether all people are at the same place."""
        return len(self._places) == 1 and None not in self._places

    def sums_around(self, centres: FloatArray) -> IntArray:
        """Sums and numbers of the people nearest to each centre."""
        nearest = NearestCentre(centres)
        sums = np.zeros((len(centres), 3), dtype=np.int64)
        for part in mapped_in_order(lambda whole: nearest.sums(whole.astype(np.int64), 1 / FIXED_POINT), self._parts()):
            sums += part
        return sums

    def counts_in_cells(self, columns: int, rows: int) -> IntArray:
        """How many people each cell holds."""
        tally = CellTally(self.region, columns, rows)
        for _ in mapped_in_order(tally.add, self._parts()):
            pass
        return tally.total()

    def _parts(self) -> Iterator[SmallIntArray]:
        if self._kept is not None:
            yield from self._kept
            return
        for people in self._stream.batches(()):
            yield self._whole(self._inside(people.points))

    def _read(self, progress: Progress | None) -> None:
        faults = Faults()
        positions = self._watch.positions if self._watch else ()
        for part in mapped_in_order(self._looked_at, self._stream.batches(positions)):
            faults = faults.followed_by(part.faults, self._count)
            if self._watch and part.look:
                self._watch.take(part.look, self._count)
            self._count += part.rows
            self._places.add(part.one_place)
            self._keep(part.whole)
            if progress:
                progress(part.rows)
        refuse(faults, self.region, clip=self._clip)

    def _keep(self, whole: SmallIntArray | None) -> None:
        if whole is None or self._count > self._most_kept:
            self._kept = None
        elif self._kept is not None:
            self._kept.append(whole)

    def _looked_at(self, people: People) -> _Part:
        faults = faults_in(people.points, self.region)
        look = self._watch.look(people.carried.columns) if self._watch else None
        if faults.no_places or (faults.outside and not self._clip):
            return _Part(len(people), faults, look, None, None)
        inside = self._inside(people.points)
        whole = self._whole(inside) if self._kept is not None else None
        return _Part(len(people), faults, look, _one_place(inside), whole)

    def _inside(self, points: FloatArray) -> FloatArray:
        return self.region.to_edge(points) if self._clip else points

    def _whole(self, points: FloatArray) -> SmallIntArray:
        whole = np.empty(points.shape, dtype=np.int32)
        for start in range(0, len(points), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            whole[part] = np.rint(self.region.to_square(points[part]) * FIXED_POINT)
        return whole


def _one_place(points: FloatArray) -> tuple[float, float] | None:
    """The common place of all people, if there is one."""
    first = points[0]
    if (points[-1] != first).any() or (points != first).any():
        return None
    return float(first[0]), float(first[1])


# Fits of a file: its people are read, asked about and charged; nothing else about them is kept.


class _Fit:
    """The people of a file that something is fitted on."""

    def __init__(
        self,
        source: str | Path,
        region: Region,
        read: ReadOptions | None,
        ledger: Ledger | None,
        seed: int | None,
        bar: ProgressBar,
    ) -> None:
        self._read, self._ledger = read or ReadOptions(), ledger
        if ledger is not None:
            check_charged(self._read, seed)
        stream = open_people(source, self._read, carry=False, region=region)
        self._watch = PeopleWatch(stream.carried, self._read.person, per_row=self._read.per_row)
        with bar("reading people", stream.rows) as advance:
            self.answers = PlacesInStream(stream, region, self._watch, clip=self._read.clip, progress=advance)
        self._watch.finish()
        self.warnings = (*stream.warnings, *self._watch.warnings)
        self.randomness = None if seed is None else seeded_randomness(seed, FIT_STREAM)

    @property
    def unit(self) -> Literal["person", "row"]:
        """Whose data the cost counts."""
        return "row" if self._watch.several_rows else "person"

    def charge(self, cost: Guarantee) -> None:
        """Put the fit on record, or refuse it."""
        if self._ledger is not None:
            ids = checked_ids(self._watch.people_by_id(), str(self._read.person))
            charge_fit(self._ledger, cost, ids)


@dataclass(frozen=True, slots=True)
class FittedIntervals:
    """Intervals, what they cost the people they were fitted on, and warnings."""

    intervals: Intervals
    guarantee: Guarantee
    warnings: tuple[str, ...]


def fit_intervals(
    source: str | Path,
    *,
    region: Region | str,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    method: FitMethod = "private-grid",
    centres: int | None = None,
    rounds: int = 12,
    gamma: float = 0.5,
    population: int | None = None,
    read: ReadOptions | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
    progress: ProgressBar | None = None,
) -> FittedIntervals:
    r"""Build private intervals from everybody in a file; nothing else about them is kept.

    Parameters
    ----------
    source : path
        CSV, GeoJSON or (Geo)Parquet file of true places.
    region : Region or str
        The public region.
    epsilon, delta : float
        What the fit costs each person in the file.
    method, centres, rounds, gamma, population
        As of `nearveil.DPRS`, where ``method`` is ``fit_method``.
    read : ReadOptions, optional
        Which columns are what, and who counts as one person.
    ledger : Ledger, optional
        Everybody is charged in it first; ``read.person`` says who is who.
    seed : int, optional
        For experiments only.
    progress : callable, optional
        Gives a progress bar for each step.

    Examples
    --------
    >>> import tempfile
    >>> from nearveil.io.synthetic import synthetic_city
    >>> people = synthetic_city(500, as_region("san-francisco"), rng=1)
    >>> rows = "\n".join(f"{latitude:.6f},{longitude:.6f}" for latitude, longitude in people)
    >>> file = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text(f"latitude,longitude\n{rows}\n")
    >>> fitted = fit_intervals(file, region="san-francisco", centres=20)
    >>> len(fitted.intervals), fitted.guarantee.epsilon
    (20, 1.0)
    """
    chosen, bar = as_region(region), progress or no_bar
    plan = FitPlan(method=method, centres=centres, rounds=rounds, gamma=gamma, population=population)
    budget = plan.budget(epsilon, delta)
    people = _Fit(source, chosen, read, ledger, seed, bar)
    with bar("finding intervals", plan.steps) as advance:
        found = build_intervals(people.answers, chosen, plan, budget, rng=people.randomness, progress=advance)
    found = replace(found, unit=people.unit)
    cost = found.guarantee(delta)
    people.charge(cost)
    return FittedIntervals(found, cost, people.warnings)


@dataclass(frozen=True, slots=True)
class FittedCells:
    """Cells, what they cost the people they were made from, and warnings."""

    cells: Cells
    guarantee: Guarantee
    warnings: tuple[str, ...]


def fit_cells(
    source: str | Path,
    *,
    region: Region | str,
    hide_among: int = 100,
    epsilon: float = 1.0,
    least_cell_m: float = LEAST_CELL_M,
    largest_cell_m: float = LARGEST_CELL_M,
    read: ReadOptions | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
    progress: ProgressBar | None = None,
) -> FittedCells:
    r"""Build private cells from everybody in a file; nothing else about them is kept.

    Cells that cost nobody anything are made by `nearveil.cells_from_density` from public data, and by
    `nearveil.cells_from_published` from places published before.

    Parameters
    ----------
    source : path
        CSV, GeoJSON or (Geo)Parquet file of true places.
    region : Region or str
        The public region.
    hide_among : int
        Among how many people everybody is to be hidden; a cell holds about a tenth of them.
    epsilon : float
        What the cells cost each person in the file.
    least_cell_m, largest_cell_m : float
        Sides of the smallest and the largest cells, in metres.
    read : ReadOptions, optional
        Which columns are what, and who counts as one person.
    ledger : Ledger, optional
        Everybody is charged in it first; ``read.person`` says who is who.
    seed : int, optional
        For experiments only.
    progress : callable, optional
        Gives a progress bar for each step.

    Examples
    --------
    >>> import tempfile
    >>> from nearveil.io.synthetic import synthetic_city
    >>> people = synthetic_city(500, as_region("san-francisco"), rng=1)
    >>> rows = "\n".join(f"{latitude:.6f},{longitude:.6f}" for latitude, longitude in people)
    >>> file = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text(f"latitude,longitude\n{rows}\n")
    >>> fitted = fit_cells(file, region="san-francisco", hide_among=50)
    >>> fitted.cells.source, fitted.guarantee.epsilon
    ('privtree', 1.0)
    """
    chosen, bar = as_region(region), progress or no_bar
    plan = CellPlan(hide_among=hide_among, least_cell_m=least_cell_m, largest_cell_m=largest_cell_m)
    check_epsilon(epsilon)
    people = _Fit(source, chosen, read, ledger, seed, bar)
    refusal = None
    with bar("finding cells", 1) as advance:
        try:
            found = build_private_cells(people.answers, chosen, epsilon=epsilon, plan=plan, rng=people.randomness)
        except FitRefusedError as error:
            refusal = error
        advance(1)
    # A refusal tells something of the cells, so it comes after they are paid for.
    if refusal is not None:
        people.charge(refusal.cost)
        raise refusal
    found = replace(found, unit=people.unit)
    people.charge(found.guarantee())
    found.check_holds(hide_among)
    return FittedCells(calibrated(found), found.guarantee(), people.warnings)
