"""DPRS: private intervals, and noise confined to them (the paper's defence)."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Literal, Self

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.fitting import FitMethod, FitPlan, build_intervals
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.nearest_centre import NearestCentre, nearest_centre_table
from nearveil.mechanisms.release_paper import PaperRelease
from nearveil.privacy.guarantee import Guarantee
from nearveil.privacy.limits import check_delta, check_epsilon
from nearveil.privacy.paper_accounting import Noise, PaperScales, paper_scales, pure_scales
from nearveil.randomness import FIT_STREAM
from nearveil.region import Region
from nearveil.types import FloatArray, Progress

ReleaseName = Literal["paper"]
RELEASES: tuple[ReleaseName, ...] = ("paper",)


class DPRS(Mechanism):
    """Move every person inside the private disc of their nearest centre.

    `fit` builds the intervals from people's places, at a cost to their privacy; with ``intervals`` given, nothing is
    fitted. Read ``guarantee`` for what is true of the result.

    Parameters
    ----------
    epsilon, delta : float
        The paper's total budget; half of it goes into the intervals, half into the release.
    noise : {"laplace", "gaussian"}
        The noise that is confined to the disc.
    release : {"paper"}
        What happens inside an interval.
    centres, rounds, gamma
        The paper's m, N_c and γ: number of intervals, rounds of private k-means, and radius as a share of the distance
        to the nearest other centre. Up to 0.5 the discs are disjoint.
    fit_method : {"pic", "private-grid"}
        The paper's private k-means, or k-means on one noisy histogram, which finds better intervals for the same cost.
    population : int, optional
        A public number of people, for the private grid.
    intervals : Intervals, optional
        Intervals made before, in the same region.
    region : Region or str
        Public region: a Region, a name, or "south,west,north,east".
    seed : int, optional
        For experiments only: makes fit and result repeatable.

    Attributes
    ----------
    intervals_ : Intervals
        After `fit`: the private discs. Nothing else about the data is kept.

    Examples
    --------
    >>> import numpy as np
    >>> people = np.random.default_rng(0).normal([37.7, -122.4], 0.05, (2000, 2)).clip([37.5, -122.6], [37.9, -122.2])
    >>> dprs = DPRS(epsilon=1.0, centres=100, region="san-francisco", seed=1).fit(people)
    >>> dprs.perturb(people).shape
    (2000, 2)
    >>> dprs.guarantee.notion.value
    'interval'
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        noise: Noise = "laplace",
        release: ReleaseName = "paper",
        centres: int = 800,
        rounds: int = 12,
        gamma: float = 0.5,
        fit_method: FitMethod = "pic",
        population: int | None = None,
        intervals: Intervals | None = None,
        region: Region | str = "san-francisco",
        seed: int | None = None,
    ) -> None:
        check_epsilon(epsilon)
        check_delta(delta)
        if noise not in ("laplace", "gaussian"):
            raise UsageError("noise is either 'laplace' or 'gaussian'")
        if release not in RELEASES:
            raise UsageError(f"release is one of: {', '.join(RELEASES)}")
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise
        self.release = release
        self.centres = centres
        self.rounds = rounds
        self.gamma = gamma
        self.fit_method = fit_method
        self.population = population
        self.intervals = intervals
        self.region = region
        self.seed = seed
        self._noise_factor = 1.0
        _ = self._fit_plan  # checks its part of the parameters

    # -- intervals -------------------------------------------------------------------------------------------

    def fit(self, points: object, y: object = None, *, progress: Progress | None = None) -> Self:
        """Build the private intervals from people's places; with ``intervals`` given, only check the places.

        Parameters
        ----------
        points : array-like of shape (n, 2)
            True places, one row per person: latitude, longitude.
        progress : callable, optional
            Called with 1 after each round.
        """
        if self.intervals is not None:
            return super().fit(points, y)
        self.intervals_ = build_intervals(
            points,
            self.resolved_region,
            self._fit_plan,
            self.scales.fit_scale if self.fit_method == "pic" else self.epsilon / 2,
            rng=self._own_randomness(FIT_STREAM),
            progress=progress,
        )
        return self

    @property
    def _fit_plan(self) -> FitPlan:
        return FitPlan(
            method=self.fit_method,
            centres=self.centres,
            rounds=self.rounds,
            gamma=self.gamma,
            population=self.population,
        )

    @property
    def current_intervals(self) -> Intervals:
        """The intervals in use: those given, or else those fitted."""
        intervals: Intervals | None = (
            self.intervals if self.intervals is not None else getattr(self, "intervals_", None)
        )
        if intervals is None:
            raise UsageError("fit the intervals first, or give intervals made before")
        return intervals

    @property
    def resolved_region(self) -> Region:
        """The region of the intervals where they are given, the operator's otherwise."""
        return self.intervals.region if self.intervals is not None else super().resolved_region

    @property
    def scales(self) -> PaperScales:
        """The noise scales of the paper's accounting, in units of the square.

        The private grid spends its half without delta, and so does Laplace noise beside it: one answer, or two, gain
        nothing from Rényi accounting.
        """
        if self.fit_method == "private-grid" and self.noise == "laplace":
            return pure_scales(self.epsilon, queries=self._fit_plan.queries)
        return paper_scales(self.epsilon, delta=self.delta, queries=self._fit_plan.queries, noise=self.noise)

    # -- release ---------------------------------------------------------------------------------------------

    @property
    def _release(self) -> PaperRelease:
        return PaperRelease(scale=self.scales.release_scale * self._noise_factor, noise=self.noise)

    def draw(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw a point of each person's disc, in the square."""
        intervals = self.current_intervals
        return self._release.draw(x, intervals, _nearest_centre(intervals), rng)

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density per unit of the square, before clamping to the region."""
        intervals = self.current_intervals
        x, t = np.asarray(x, dtype=np.float64), np.asarray(t, dtype=np.float64)
        return self._release.log_density(x, t, intervals, _nearest_centre(intervals))

    @property
    def guarantee(self) -> Guarantee:
        """What the published places promise: less than the paper says."""
        return self._release.guarantee(self.current_intervals, self.delta, self._notes())

    def rescaled(self, factor: float) -> Self:
        """Return a copy with noise ``factor`` times as wide, intervals and all."""
        other = copy.copy(self)
        other._noise_factor = self._noise_factor * factor
        return other

    def _prepare(self) -> None:
        _nearest_centre(self.current_intervals)


@lru_cache(maxsize=8)
def _nearest_centre(intervals: Intervals) -> NearestCentre:
    return nearest_centre_table(np.ascontiguousarray(intervals.centres), intervals.region.half_extent_square)
