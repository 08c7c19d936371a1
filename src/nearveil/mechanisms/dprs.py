"""DPRS: private intervals that people are moved into, as the paper has it and in two ways that are sound."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, Self

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.fitting import FitMethod, FitPlan, build_intervals
from nearveil.mechanisms.intervals import Intervals, intervals_from_document, without_small_intervals
from nearveil.mechanisms.nearest import NearestCentre, NearestDisc, nearest_centre_table, nearest_disc_table
from nearveil.mechanisms.planar_laplace import DEFAULT_NOISE_M, PlanarLaplace, check_noise_m
from nearveil.mechanisms.releases import IntervalRelease, MetricRelease, PaperRelease
from nearveil.privacy.accounting import QUERIES_PER_ROUND, Noise, PaperScales, paper_scales, pure_scales
from nearveil.privacy.guarantee import Guarantee, check_delta, check_epsilon, check_positive
from nearveil.randomness import FIT_STREAM, RowKeystream
from nearveil.region import Region
from nearveil.types import FloatArray, Progress

ReleaseName = Literal["paper", "interval", "metric"]
RELEASES: tuple[ReleaseName, ...] = ("paper", "interval", "metric")
Release = PaperRelease | IntervalRelease | MetricRelease

_DEFAULT_EPSILON = 1.0


class DPRS(Mechanism):
    """Move every person into private discs.

    `fit` builds the discs ("intervals") from people's places, at a cost to their privacy; with ``intervals`` given,
    nothing is fitted. Read ``guarantee`` for what is true of the result.

    Parameters
    ----------
    epsilon : float, optional
        Release ``interval``: the largest loss between two places of one interval. Release ``paper``: the paper's total
        budget, half of it for the intervals. 1 if not given. Release ``metric`` takes ``noise_m`` instead.
    delta : float
        For what Rényi accounting needs one: private k-means, and all of the paper's.
    noise : {"laplace", "gaussian"}
        The noise that is confined to the disc.
    release : {"metric", "interval", "paper"}, optional
        ``metric``: planar Laplace noise, then the nearest point of the discs, sound between all places. ``interval``:
        moved within the disc of the nearest centre, sound within an interval. ``paper``: as the paper has it. If not
        given, ``metric``, or ``interval`` where ``epsilon`` or Gaussian noise is asked for.
    noise_m : float, optional
        Release ``metric``: mean length of the noise in metres, 500 if not given.
    fit_epsilon : float, optional
        What `fit` costs each person in the data; ``epsilon``, or else 1, if not given.
    centres, rounds, gamma
        The paper's m, N_c and γ: number of intervals, rounds of private k-means, and radius as a share of the distance
        to the nearest other centre. Up to 0.5 the discs are disjoint. Without ``centres`` there is one interval for
        every 20 people, from 2 to 800, by a noisy count of them that is part of what `fit` costs.
    fit_method : {"pic", "private-grid"}, optional
        The paper's private k-means, or k-means on one noisy histogram, which finds better intervals for the same cost:
        the default but for the paper's release.
    population : int, optional
        A public number of people, to size the private grid and the number of intervals by instead.
    least_radius_m : float, optional
        Leave out intervals until none is smaller than this.
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
    >>> dprs = DPRS(noise_m=500, region="san-francisco", seed=1).fit(people)
    >>> dprs.perturb(people).shape
    (2000, 2)
    >>> dprs.guarantee.notion.value
    'metric'
    >>> DPRS(epsilon=1.0, region="berlin").chosen_release
    'interval'
    """

    learns = "intervals"

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 1e-5,
        noise: Noise = "laplace",
        release: ReleaseName | None = None,
        noise_m: float | None = None,
        fit_epsilon: float | None = None,
        centres: int | None = None,
        rounds: int = 12,
        gamma: float = 0.5,
        fit_method: FitMethod | None = None,
        population: int | None = None,
        least_radius_m: float | None = None,
        intervals: Intervals | None = None,
        region: Region | str | None = None,
        seed: int | None = None,
    ) -> None:
        if release is not None and release not in RELEASES:
            raise UsageError(f"release is one of: {', '.join(RELEASES)}")
        if noise not in ("laplace", "gaussian"):
            raise UsageError("noise is either 'laplace' or 'gaussian'")
        if release is None and epsilon is not None and noise_m is not None:
            raise UsageError("give either noise_m, for the release metric, or epsilon, for the release interval")
        check_delta(delta)
        if least_radius_m is not None:
            check_positive(least_radius_m, "the least radius")
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise
        self.release = release
        self.noise_m = noise_m
        self.fit_epsilon = fit_epsilon
        self.centres = centres
        self.rounds = rounds
        self.gamma = gamma
        self.fit_method = fit_method
        self.population = population
        self.least_radius_m = least_radius_m
        self.intervals = intervals
        self.region = region
        self.seed = seed
        _check_release_parameters(self.chosen_release, noise, epsilon, noise_m, fit_epsilon)
        self.frame = "degrees" if self.chosen_release == "metric" else "square"
        self._noise_factor = 1.0
        _ = self.fit_plan  # checks its part of the parameters
        _ = self.resolved_region

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
            self.fit_plan,
            self.fit_budget,
            rng=self._own_randomness(FIT_STREAM),
            progress=progress,
        )
        return self

    @property
    def fit_plan(self) -> FitPlan:
        """How `fit` builds intervals."""
        return FitPlan(
            method=self.fit_method or ("pic" if self.chosen_release == "paper" else "private-grid"),
            centres=self.centres,
            rounds=self.rounds,
            gamma=self.gamma,
            population=self.population,
        )

    @property
    def fit_steps(self) -> int:
        """How often `fit` reports progress."""
        return self.fit_plan.steps

    @property
    def learned(self) -> Intervals | None:
        """The intervals in use; None before `fit`."""
        return self.current_intervals if self.intervals is not None or hasattr(self, "intervals_") else None

    @property
    def fit_budget(self) -> float:
        """What `fit` spends, as in `FitPlan.budget`."""
        if self.chosen_release == "paper":
            return self.scales.fit_scale if self.fit_plan.method == "pic" else self.chosen_epsilon / 2
        return self.fit_plan.budget(self.chosen_fit_epsilon, self.delta)

    @property
    def chosen_release(self) -> ReleaseName:
        """The release as given, or else the one that the other parameters speak of."""
        if self.release is not None:
            return self.release
        return "metric" if self.epsilon is None and self.noise == "laplace" else "interval"

    @property
    def chosen_epsilon(self) -> float:
        """Epsilon as given, or else 1."""
        return _DEFAULT_EPSILON if self.epsilon is None else self.epsilon

    @property
    def chosen_fit_epsilon(self) -> float:
        """What fitting is to cost: as given, or else as much as the release of ``interval``."""
        return self.chosen_epsilon if self.fit_epsilon is None else self.fit_epsilon

    @property
    def current_intervals(self) -> Intervals:
        """The intervals in use: those given, or else those fitted, without those that are too small."""
        intervals: Intervals | None = (
            self.intervals if self.intervals is not None else getattr(self, "intervals_", None)
        )
        if intervals is None:
            raise UsageError("fit the intervals first, or give intervals made before")
        return intervals if self.least_radius_m is None else _thinned(intervals, self.least_radius_m)

    @property
    def cost_follows_fit(self) -> bool:
        """Whether the cost of a release depends on the intervals: the loss of ``paper`` is computed from them."""
        return self.chosen_release == "paper"

    @property
    def scales(self) -> PaperScales:
        """The noise scales of the paper's accounting, in units of the square.

        The private grid spends its half without delta, and so does Laplace noise beside it: one answer, or two, gain
        nothing from Rényi accounting.
        """
        if self.fit_plan.method == "private-grid" and self.noise == "laplace":
            return pure_scales(self.chosen_epsilon, queries=self._queries)
        return paper_scales(self.chosen_epsilon, delta=self.delta, queries=self._queries, noise=self.noise)

    @property
    def _queries(self) -> int:
        """How many answers of private k-means a person is in: as given intervals say, or else as planned."""
        given = self.intervals
        if given is None:
            return self.fit_plan.queries
        if given.method == "pic":
            return sum(part.count for part in given.answers)
        return QUERIES_PER_ROUND * self.rounds

    # -- release ---------------------------------------------------------------------------------------------

    @property
    def _release(self) -> Release:
        intervals, factor = self.current_intervals, self._noise_factor
        if self.chosen_release == "metric":
            noise_m = DEFAULT_NOISE_M if self.noise_m is None else self.noise_m
            planar = PlanarLaplace(noise_m=noise_m, region=intervals.region)
            return MetricRelease(intervals, _nearest_disc(intervals), planar, factor)
        nearest = _nearest_centre(intervals)
        if self.chosen_release == "interval":
            return IntervalRelease(intervals, nearest, self.chosen_epsilon, self.noise, factor)
        return PaperRelease(intervals, nearest, self.scales.release_scale * factor, self.noise)

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw a point of each person's disc, in the square; release ``metric``: a noisy place in degrees."""
        return self._release.draw(x, rows)

    def remap(self, t: FloatArray) -> FloatArray:
        """Release ``metric``: move noisy places to the nearest point of the discs."""
        return self._release.remap(t)

    @property
    def remaps(self) -> bool:
        """Whether what is drawn is moved again."""
        return self.chosen_release == "metric"

    @property
    def planar_noise(self) -> PlanarLaplace:
        """The noise of the release ``metric``, before places are moved to the discs."""
        if not isinstance(self._release, MetricRelease):
            raise UsageError(f"the release {self.chosen_release} has no planar Laplace noise; metric has")
        return self._release.scaled_noise

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density of what is drawn, per unit of the square (``metric``: per square metre)."""
        x, t = np.asarray(x, dtype=np.float64), np.asarray(t, dtype=np.float64)
        return self._release.log_density(x, t)

    def density_given(self, x: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return `log_density` for all pairs, with the disc and the mass of the noise found once for each ``x``."""
        release = self._release
        if isinstance(release, MetricRelease) or type(self).log_density is not DPRS.log_density:
            return super().density_given(x)
        return release.density_given(x)

    @property
    def guarantee(self) -> Guarantee:
        """What the published places promise; for the paper's release that is less than the paper says."""
        return self._release.guarantee(self.delta, self._notes())

    def rescaled(self, factor: float) -> Self:
        """Return a copy with noise ``factor`` times as wide, intervals and all."""
        other = copy.copy(self)
        other._noise_factor = self._noise_factor * factor
        return other

    def _prepare(self) -> None:
        _ = self._release

    def to_spec_params(self) -> dict[str, Any]:
        """Return the parameters of a copy with the same law: intervals that were fitted count as given."""
        fitted = {"release": self.chosen_release, "intervals": self.current_intervals, "least_radius_m": None}
        return {**super().to_spec_params(), **fitted}

    @classmethod
    def from_spec_params(cls, params: dict[str, Any]) -> Self:
        """Return the copy."""
        return cls(**{**params, "intervals": intervals_from_document(params["intervals"])})


def _check_release_parameters(
    release: ReleaseName,
    noise: Noise,
    epsilon: float | None,
    noise_m: float | None,
    fit_epsilon: float | None,
) -> None:
    if epsilon is not None:
        check_epsilon(epsilon)
    if fit_epsilon is not None:
        check_epsilon(fit_epsilon, "fit_epsilon")
    if release == "paper" and fit_epsilon is not None:
        raise UsageError("the paper's release pays for intervals with half of epsilon; leave fit_epsilon out")
    if release != "metric":
        if noise_m is not None:
            raise UsageError(f"noise_m goes with the release metric; {release} takes epsilon")
        return
    if epsilon is not None:
        raise UsageError("the release metric takes noise_m, a length in metres, and no epsilon")
    if noise != "laplace":
        raise UsageError("the release metric has planar Laplace noise and no other")
    if noise_m is not None:
        check_noise_m(noise_m)


@lru_cache(maxsize=8)
def _thinned(intervals: Intervals, least_radius_m: float) -> Intervals:
    return without_small_intervals(intervals, least_radius_m)


@lru_cache(maxsize=8)
def _nearest_centre(intervals: Intervals) -> NearestCentre:
    return nearest_centre_table(np.ascontiguousarray(intervals.centres), intervals.region.half_extent_square)


@lru_cache(maxsize=8)
def _nearest_disc(intervals: Intervals) -> NearestDisc:
    return nearest_disc_table(intervals.centres, intervals.radii, intervals.region.half_extent_square)
