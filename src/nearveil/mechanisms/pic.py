"""Private interval construction (PIC): differentially private k-means, and a disc around every centre."""

from __future__ import annotations

import numpy as np

from nearveil.mechanisms.centres import (
    FIXED_POINT,
    centres_for,
    fixed_point_laplace,
    redraw_unusable,
    uniform_in_region,
)
from nearveil.mechanisms.exact_answers import (
    ExactAnswers,
    Question,
    Watch,
    as_answers,
    check_enough,
    cluster_sums,
    head_count,
)
from nearveil.mechanisms.intervals import Intervals, check_gamma, radii_around
from nearveil.privacy.accounting import QUERIES_PER_ROUND, LaplaceAnswers
from nearveil.privacy.guarantee import check_count, check_positive
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import FloatArray, Progress

__all__ = ["MOST_CENTRES", "build_pic_intervals", "cluster_sums"]

MOST_CENTRES = 1_000_000


def build_pic_intervals(
    points: object,
    *,
    region: Region,
    scale: float,
    centres: int | None = None,
    rounds: int = 12,
    gamma: float = 0.5,
    population: int | None = None,
    rng: Randomness | np.random.Generator | int | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Intervals:
    """Build private intervals by k-means whose every sum and count is noised (the paper's Algorithm 2).

    Each round assigns people to their nearest centre and moves every centre, of empty clusters too, to noisy sum /
    noisy count. One person, added or removed, changes one cluster: each coordinate sum by at most 1, the count by 1.

    Parameters
    ----------
    points : array-like or ExactAnswers
        One row per person: latitude, longitude. Or whoever can answer for them all.
    region : Region
        Public; everybody must be inside.
    scale : float
        The paper's λ_c: Laplace scale of every answer, in units of the square.
    centres, rounds, gamma
        The paper's m (if not given, `centres_for` the number of people), N_c and γ.
    population : int, optional
        A public number of people, to size the number of centres by. Without it, and without ``centres``, one more noisy
        answer is asked for, a head count.
    rng : optional
        Secure randomness unless a seed or generator is given.
    progress : callable, optional
        Called with 1 after each round.
    watch : callable, optional
        Called with each round's question and noisy answers.
    """
    asked = as_answers(points, region)
    check_positive(scale, "scale")
    if centres is not None:
        check_count(centres, "centres", least=2, most=MOST_CENTRES)
    check_count(rounds, "rounds", least=1, most=1000)
    check_gamma(gamma)
    check_enough(asked, centres)
    randomness = as_randomness(rng)
    generator = randomness.generator
    if centres is not None:
        number = centres
    elif population is not None:
        number = centres_for(population)
    else:
        number = centres_for(float(_noisy_answers(head_count, asked, scale, generator, watch)[0]))
    found = redraw_unusable(uniform_in_region(region, number, generator), region, generator)
    for _ in range(rounds):
        noisy = _noisy_answers(_sums_around(found), asked, scale, generator, watch)
        found = redraw_unusable(_means(noisy), region, generator)
        if progress:
            progress(1)
    return Intervals(
        region=region,
        centres=found,
        radii=radii_around(found, gamma),
        method="pic",
        answers=(LaplaceAnswers(pic_queries(rounds, centres, population), scale),),
        gamma=gamma,
        seeded=randomness.seeded,
        sized_by_people=centres is None,
    )


def pic_queries(rounds: int, centres: int | None, population: int | None) -> int:
    """Return how many noisy answers of private k-means a person is in: three a round, and a head count if needed."""
    counts_people = centres is None and population is None
    return QUERIES_PER_ROUND * rounds + (1 if counts_people else 0)


def _noisy_answers(
    question: Question, asked: ExactAnswers, scale: float, rng: np.random.Generator, watch: Watch | None
) -> FloatArray:
    noisy = fixed_point_laplace(question(asked), scale, rng)
    if watch:
        watch(question, noisy)
    return noisy


def _sums_around(centres: FloatArray) -> Question:
    return lambda asked: asked.sums_around(centres) * np.array([1, 1, int(FIXED_POINT)])


def _means(noisy: FloatArray) -> FloatArray:
    # A count below 1 says nothing; as a divisor it would throw the centre far out of the region.
    return noisy[:, :2] / np.maximum(noisy[:, 2:], 1.0)
