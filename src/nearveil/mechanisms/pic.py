"""Private interval construction (PIC): differentially private k-means, and a disc around every centre."""

from __future__ import annotations

import numpy as np

from nearveil.mechanisms.centres import (
    FIXED_POINT,
    fixed_point_laplace,
    redraw_unusable,
    uniform_in_region,
)
from nearveil.mechanisms.exact_answers import Question, Watch, as_answers, check_enough, cluster_sums
from nearveil.mechanisms.intervals import Intervals, check_gamma, radii_around
from nearveil.privacy.limits import check_count, check_positive
from nearveil.privacy.paper_accounting import QUERIES_PER_ROUND, LaplaceAnswers
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
    centres: int = 800,
    rounds: int = 12,
    gamma: float = 0.5,
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
        The paper's m, N_c and γ.
    rng : optional
        Secure randomness unless a seed or generator is given.
    progress : callable, optional
        Called with 1 after each round.
    watch : callable, optional
        Called with each round's question and noisy answers.
    """
    asked = as_answers(points, region)
    check_positive(scale, "scale")
    check_count(centres, "centres", least=2, most=MOST_CENTRES)
    check_count(rounds, "rounds", least=1, most=1000)
    check_gamma(gamma)
    check_enough(asked, centres)
    randomness = as_randomness(rng)
    generator = randomness.generator
    found = redraw_unusable(uniform_in_region(region, centres, generator), region, generator)
    for _ in range(rounds):
        question = _sums_around(found)
        noisy = fixed_point_laplace(question(asked), scale, generator)
        if watch:
            watch(question, noisy)
        found = redraw_unusable(_means(noisy), region, generator)
        if progress:
            progress(1)
    return Intervals(
        region=region,
        centres=found,
        radii=radii_around(found, gamma),
        method="pic",
        answers=(LaplaceAnswers(QUERIES_PER_ROUND * rounds, scale),),
        gamma=gamma,
        seeded=randomness.seeded,
    )


def _sums_around(centres: FloatArray) -> Question:
    return lambda asked: asked.sums_around(centres) * np.array([1, 1, int(FIXED_POINT)])


def _means(noisy: FloatArray) -> FloatArray:
    # A count below 1 says nothing; as a divisor it would throw the centre far out of the region.
    return noisy[:, :2] / np.maximum(noisy[:, 2:], 1.0)
