"""Private interval construction (PIC): differentially private k-means, and a disc around every center.

A private fit asks users for exact counts and sums. The noise is added once, by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from nearveil.errors import DataError
from nearveil.mechanisms.intervals import Intervals, centres_for, check_gamma
from nearveil.mechanisms.nearest import NearestCentre
from nearveil.privacy.accounting import QUERIES_PER_ROUND, LaplaceAnswers
from nearveil.privacy.guarantee import check_count, check_positive
from nearveil.randomness import Randomness, as_randomness, exponential_from_uniforms
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, IntArray, Progress

MOST_CENTRES = 1_000_000


def build_pic_intervals(
    points: object,
    *,
    region: Region,
    scale: float,
    centres: int | None = None,
    rounds: int = 12,
    gamma: float = 0.5,
    rng: Randomness | np.random.Generator | int | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Intervals:
    """Build private intervals by k-means whose every sum and count is noised (the paper's Algorithm 1).

    Each round assigns users to their nearest center and moves every center, of empty clusters too, to noisy sum / noisy
    count. One user, added or removed, changes one cluster: each coordinate sum by at most 1, the count by 1.

    ``points`` has one row per user, latitude and longitude, all in the public ``region``; or it answers for all of them
    (`ExactAnswers`). ``scale`` is the paper's λ_c, the Laplace scale of every answer in units of the square. The others
    are those of `nearveil.DPRS`; without ``centres`` one more noisy answer is asked for, a head count. ``progress`` is
    called with 1 after each round, and ``watch`` with each question and the noisy answers to it.
    """
    check_positive(scale, "scale")
    check_count(rounds, "rounds", least=1, most=1000)
    asked = answers_for_fit(points, region, centres, gamma)
    randomness = as_randomness(rng)

    def noisy(question: Question) -> FloatArray:
        answers = fixed_point_laplace(question(asked), scale, randomness.generator)
        if watch:
            watch(question, answers)
        return answers

    number = centres_for(float(noisy(head_count)[0])) if centres is None else centres
    found = centres_in_region(region, number, randomness.generator)
    for _ in range(rounds):
        sums = noisy(_sums_around(found))
        # A count below 1 says nothing; as a divisor it would throw the center far out of the region.
        found = redraw_unusable(sums[:, :2] / np.maximum(sums[:, 2:], 1.0), region, randomness.generator)
        if progress:
            progress(1)
    answers = (LaplaceAnswers(QUERIES_PER_ROUND * rounds + (centres is None), scale),)
    return Intervals(region=region, centres=found, method="pic", answers=answers, gamma=gamma, seeded=randomness.seeded)


def _sums_around(centres: FloatArray) -> Question:
    return lambda asked: asked.sums_around(centres) * np.array([1, 1, int(FIXED_POINT)])


# What a fit asks of users: whole numbers, so that the sum does not depend on the order of adding.


class ExactAnswers:
    """Exact answers about the locations of users, latitude and longitude, checked to lie in the region."""

    def __init__(self, points: object, region: Region) -> None:
        self.region = region
        self._users = region.check(points)

    def __len__(self) -> int:
        return len(self._users)

    @property
    def all_in_one_place(self) -> bool:
        """Whether all users are at the same location."""
        return bool((self._users == self._users[0]).all())

    def sums_around(self, centres: FloatArray) -> IntArray:
        """Per center, sums of the coordinates (fixed point) and number of the users nearest to it; shape (m, 3)."""
        return NearestCentre(centres).sums(self._whole, 1 / FIXED_POINT)

    def counts_in_cells(self, columns: int, rows: int) -> IntArray:
        """How many users each cell of a grid over the region holds, row after row."""
        return np.bincount(cells_of(self._whole, self.region, columns, rows), minlength=columns * rows)

    @cached_property
    def _whole(self) -> IntArray:
        return square_in_fixed_point(self.region, self._users)


Question = Callable[[ExactAnswers], IntArray]
"""Something that a fit asks of users: exact answers in, whole multiples of 1 / FIXED_POINT."""

Watch = Callable[[Question, FloatArray], None]
"""Called with each question and the noisy answers to it, for audits. The cost of intervals covers these answers: anyone
who sees them learns no more than is stated. That of cells covers less, see `build_private_cells`."""


def head_count(asked: ExactAnswers) -> IntArray:
    """Ask how many users there are: a `Question`."""
    return np.array([len(asked) * int(FIXED_POINT)])


def as_answers(points: object, region: Region) -> ExactAnswers:
    """Return points as answers about them, checked to lie in the region; answers unchanged."""
    return points if isinstance(points, ExactAnswers) else ExactAnswers(points, region)


def answers_for_fit(points: object, region: Region, centres: int | None, gamma: float) -> ExactAnswers:
    """Return answers about the points; refuse data that no intervals, or not so many, can be learned from."""
    if centres is not None:
        check_count(centres, "centres", least=2, most=MOST_CENTRES)
    check_gamma(gamma)
    asked = as_answers(points, region)
    problem = None
    if len(asked) < 2:
        problem = "intervals are learned from two people or more"
    elif centres is not None and len(asked) < centres:
        problem = f"there are {len(asked):,} rows, fewer than the {centres:,} intervals asked for (centres=)"
    elif asked.all_in_one_place:
        problem = "all rows hold the same location, so there is nothing to learn intervals from"
    if problem is not None:
        raise DataError(f"{problem}; fit on other people, or use planar-laplace, which learns nothing")
    return asked


# Steps that other fits take, too.


FIXED_POINT = 2.0**20
"""Private sums are taken over whole numbers of 2⁻²⁰, about 2 cm in a city: exact, whatever the order of adding.

Rounded noise on whole numbers equals rounding the noisy sum, so it protects as much as exact Laplace noise, and no
low-order bit of a float can tell more."""


def square_in_fixed_point(region: Region, points: FloatArray) -> IntArray:
    """Project points of the region to the square, rounded to whole multiples of 1 / FIXED_POINT."""
    return np.rint(region.to_square(points) * FIXED_POINT).astype(np.int64)


def cells_of(whole: IntArray, region: Region, columns: int, rows: int) -> IntArray:
    """In which cell of a grid over the region each point (fixed point) lies, counted row after row."""
    half_extent = np.array(region.half_extent_square)
    shape = np.array([columns, rows])
    place = np.clip(((whole / FIXED_POINT / half_extent + 1) / 2 * shape).astype(np.int64), 0, shape - 1)
    cells: IntArray = place[:, 1] * columns + place[:, 0]
    return cells


def fixed_point_laplace(exact: IntArray, scale: float, rng: np.random.Generator) -> FloatArray:
    """Add Laplace noise of ``scale`` to whole multiples of 1 / FIXED_POINT and return plain numbers."""
    # The difference of two exponentials, each with a long reach: one alone would leave holes between whole numbers.
    pair = exponential_from_uniforms(rng.random((exact.size, 2, 2)))
    noise = np.rint(scale * FIXED_POINT * (pair[:, 0] - pair[:, 1])).reshape(exact.shape)
    return (exact + noise) / FIXED_POINT


def centres_in_region(region: Region, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw different points of the square, uniformly over the region."""
    return redraw_unusable(np.full((count, 2), np.nan), region, rng)


def redraw_unusable(centres: FloatArray, region: Region, rng: np.random.Generator) -> FloatArray:
    """Draw anew, uniformly in the region, every center that lies outside it or on top of another.

    Moving them to the boundary instead would pile them up there, with radius 0.
    """
    centres = centres.copy()
    half_extent = np.array(region.half_extent_square)
    while True:
        bad: BoolArray = np.any(~(np.abs(centres) <= half_extent), axis=1)
        order = np.lexsort(centres.T)
        ordered = centres[order]
        bad[order[1:]] |= (ordered[1:] == ordered[:-1]).all(axis=1)
        if not bad.any():
            return centres
        centres[bad] = rng.uniform(-1.0, 1.0, (int(bad.sum()), 2)) * half_extent
