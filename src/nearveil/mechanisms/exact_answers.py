"""What a private fit asks of people: exact counts and sums, from one machine's memory or from a cluster.

Whoever adds them up, they are whole numbers and so the same; the noise is added once, by whoever asks.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.centres import FIXED_POINT, square_in_fixed_point
from nearveil.mechanisms.chunks import chunk_slices
from nearveil.mechanisms.nearest_centre import NearestCentre, nearest_centre_table
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray


class ExactAnswers(ABC):
    """Exact answers about everybody in the data: private, and for noising only."""

    region: Region

    @abstractmethod
    def __len__(self) -> int:
        """How many people there are."""

    @property
    @abstractmethod
    def all_in_one_place(self) -> bool:
        """Whether everybody is at the same place."""

    @abstractmethod
    def sums_around(self, centres: FloatArray) -> IntArray:
        """Per centre, sums of the coordinates (fixed point) and number of the people nearest to it; shape (m, 3)."""

    @abstractmethod
    def counts_in_cells(self, columns: int, rows: int) -> IntArray:
        """How many people each cell of a grid over the region holds, row after row."""


Question = Callable[[ExactAnswers], IntArray]
"""Something that a fit asks of people: exact answers in, whole multiples of 1 / FIXED_POINT."""

Watch = Callable[[Question, FloatArray], None]
"""Called with each question and the noisy answers to it, for audits. The cost of a fit covers these answers, so that
whoever sees them learns no more than is stated."""


def head_count(asked: ExactAnswers) -> IntArray:
    """Ask how many people there are: a `Question`."""
    return np.array([len(asked) * int(FIXED_POINT)])


class PlacesInMemory(ExactAnswers):
    """Answers about places at hand.

    Parameters
    ----------
    people : array of shape (n, 2)
        Latitude and longitude, checked to lie in the region.
    region : Region
        Public.
    """

    def __init__(self, people: FloatArray, region: Region) -> None:
        self.region = region
        self._people = people

    def __len__(self) -> int:
        return len(self._people)

    @property
    def all_in_one_place(self) -> bool:
        """Whether everybody is at the same place."""
        return bool((self._people == self._people[0]).all())

    def sums_around(self, centres: FloatArray) -> IntArray:
        """Sums and numbers of the people nearest to each centre."""
        whole = self._whole
        return cluster_sums(whole, nearest_centre_table(centres, self.region.half_extent_square, lookups=len(whole)))

    def counts_in_cells(self, columns: int, rows: int) -> IntArray:
        """How many people each cell holds."""
        return cell_counts(self._whole, self.region, columns, rows)

    @cached_property
    def _whole(self) -> IntArray:
        return square_in_fixed_point(self.region, self._people)


def as_answers(points: object, region: Region) -> ExactAnswers:
    """Return points as answers about them, checked to lie in the region; answers as they are."""
    if not isinstance(points, ExactAnswers):
        return PlacesInMemory(region.check(points), region)
    if points.region != region:
        raise UsageError("the answers are about another region than the one to fit in; ask for them in the same one")
    return points


def check_enough(asked: ExactAnswers, centres: int | None) -> None:
    """Refuse data that no intervals can be learned from, or fewer people than ``centres``, where given."""
    if len(asked) < 2:
        raise DataError(
            "intervals are learned from two people or more; fit them on others, or use planar-laplace, which needs none"
        )
    if centres is not None and len(asked) < centres:
        raise DataError(
            f"there are {len(asked):,} rows, fewer than the {centres:,} intervals asked for; "
            "ask for fewer or leave --centres out, fit on more people, or use planar-laplace, which needs none"
        )
    if asked.all_in_one_place:
        raise DataError(
            "all rows hold the same location, so there is nothing to learn intervals from; "
            "check the coordinate columns, or fit the intervals on other people"
        )


def cluster_sums(whole: IntArray, nearest: NearestCentre) -> IntArray:
    """Exact sums of coordinates (fixed point) and counts per centre: private, for noising only."""
    slices = chunk_slices(len(whole))
    if len(slices) == 1:
        return nearest.sums(whole, 1 / FIXED_POINT)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(lambda part: nearest.sums(whole[part], 1 / FIXED_POINT), slices)
        return sum(parts, np.zeros((len(nearest.centres), 3), dtype=np.int64))


def cell_counts(whole: IntArray, region: Region, columns: int, rows: int) -> IntArray:
    """How many points (fixed point) each cell of a grid over the region holds: private, for noising only."""
    return np.bincount(cells_of(whole, region, columns, rows), minlength=columns * rows)


def cells_of(whole: IntArray, region: Region, columns: int, rows: int) -> IntArray:
    """In which cell of a grid over the region each point (fixed point) lies, counted row after row."""
    half_extent = np.array(region.half_extent_square)
    shape = np.array([columns, rows])
    place = np.clip(((whole / FIXED_POINT / half_extent + 1) / 2 * shape).astype(np.int64), 0, shape - 1)
    cells: IntArray = place[:, 1] * columns + place[:, 0]
    return cells
