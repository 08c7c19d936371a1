"""DPRS: private intervals that users are moved into, as the paper has it and in two ways that are sound."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal, Self, get_args

from nearveil.errors import UsageError, without_context
from nearveil.lengths import meters
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.fit_cost import with_fit_cost
from nearveil.mechanisms.fitting import FitMethod, FitPlan, build_intervals
from nearveil.mechanisms.intervals import Intervals, intervals_from_document
from nearveil.mechanisms.nearest import NearestCentre
from nearveil.mechanisms.planar_laplace import DEFAULT_NOISE_M, PlanarLaplace, check_noise_m
from nearveil.mechanisms.releases import IntervalRelease, MetricRelease, PaperRelease
from nearveil.privacy.accounting import QUERIES_PER_ROUND, Noise, PaperScales, paper_scales, pure_scales
from nearveil.privacy.guarantee import Guarantee, check_delta, check_epsilon
from nearveil.randomness import FIT_STREAM, RowKeystream
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, Progress

ReleaseName = Literal["paper", "interval", "metric"]


class DPRS(Mechanism):
    """Move every user into private discs.

    `fit` builds the discs ("intervals") from users' locations, at a cost to their privacy; with ``intervals`` given,
    nothing is fitted. Read ``guarantee`` for what is true of the result.

    Parameters
    ----------
    epsilon : float, optional
        Release ``interval``: the largest loss between two locations of one interval. Release ``paper``: the paper's
        total budget, half of it for the intervals. 1 if not given. Release ``metric`` takes ``noise_m`` instead.
    delta : float
        For what Rényi accounting needs one: private k-means, and all of the paper's.
    noise : {"laplace", "gaussian"}
        The noise that is confined to the disc.
    release : {"metric", "interval", "paper"}, optional
        ``metric``: planar Laplace noise, then the nearest point of the discs, sound between all locations.
        ``interval``: moved within the disc of the nearest center, sound within an interval. ``paper``: as the paper has
        it. If not given, ``metric``, or ``interval`` where ``epsilon`` or Gaussian noise is asked for.
    noise_m : float, optional
        Release ``metric``: mean length of the noise in meters, 500 if not given.
    fit_epsilon : float, optional
        What `fit` costs each user in the data; ``epsilon``, or else 1, if not given.
    centres, rounds, gamma
        The paper's m, N_c and γ: number of intervals, rounds of private k-means, and radius as a share of the distance
        to the nearest other center. Up to 0.5 the discs are disjoint. Without ``centres`` there is one interval for
        every 20 users, from 2 to 800, by a noisy count of them that is part of what `fit` costs.
    fit_method : {"pic", "private-grid"}, optional
        The paper's private k-means, or k-means on one noisy histogram, which finds better intervals for the same cost:
        the default but for the paper's release.
    intervals : Intervals, optional
        Intervals made before. They bring their region.
    region : Region or str, optional
        Public region: a Region, a name, a box "south,west,north,east", or a file. Needed unless ``intervals`` are
        given.
    seed : int, optional
        For experiments only: makes fit and result repeatable.

    Attributes
    ----------
    intervals_ : Intervals
        After `fit`: the private discs. Nothing else about the data is kept.

    Examples
    --------
    >>> import numpy as np
    >>> users = np.random.default_rng(0).normal([37.7, -122.4], 0.05, (2000, 2)).clip([37.5, -122.6], [37.9, -122.2])
    >>> dprs = DPRS(noise_m=500, region="san-francisco", seed=1).fit(users)
    >>> dprs.perturb(users).shape, dprs.guarantee.definition.value
    ((2000, 2), 'metric')
    """

    learns = "intervals"

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float = 1e-5,
        noise: Noise = "laplace",
        release: ReleaseName | None = None,
        noise_m: float | str | None = None,
        fit_epsilon: float | None = None,
        centres: int | None = None,
        rounds: int = 12,
        gamma: float = 0.5,
        fit_method: FitMethod | None = None,
        intervals: Intervals | None = None,
        region: Region | str | None = None,
        seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise
        self.release = release
        self.noise_m = None if noise_m is None else meters(noise_m, "noise_m")
        self.fit_epsilon = fit_epsilon
        self.centres = centres
        self.rounds = rounds
        self.gamma = gamma
        self.fit_method = fit_method
        self.intervals = intervals
        self.region = region
        self.seed = seed
        self.frame = "degrees" if self.chosen_release == "metric" else "square"
        self._noise_factor = 1.0
        self._check()

    def _check(self) -> None:
        if self.release is not None and self.release not in get_args(ReleaseName):
            raise UsageError(f"release is one of: {', '.join(get_args(ReleaseName))}")
        if self.noise not in ("laplace", "gaussian"):
            raise UsageError("noise is either 'laplace' or 'gaussian'")
        check_delta(self.delta)
        _ = self.fit_plan, self.resolved_region  # they check their part of the parameters
        for value, name in ((self.epsilon, "epsilon"), (self.fit_epsilon, "fit_epsilon")):
            if value is not None:
                check_epsilon(value, name)
        if self.chosen_release == "paper" and self.fit_epsilon is not None:
            raise UsageError("the paper's release pays for intervals with half of epsilon; leave fit_epsilon out")
        if self.chosen_release != "metric":
            if self.noise_m is not None:
                raise UsageError(f"noise_m goes with the release metric; {self.chosen_release} takes epsilon")
            return
        if self.epsilon is not None:
            raise UsageError("the release metric takes noise_m, a length in meters, and no epsilon")
        if self.noise != "laplace":
            raise UsageError("the release metric has planar Laplace noise and no other")
        if self.noise_m is not None:
            check_noise_m(self.noise_m)

    # -- intervals -------------------------------------------------------------------------------------------

    @without_context()
    def fit(self, points: object, y: object = None, *, progress: Progress | None = None) -> Self:
        """Build the private intervals from users' locations; with ``intervals`` given, only check the locations.

        ``points`` has one row per user: latitude, longitude. ``progress`` is called with 1 after each round.
        """
        if self.intervals is not None:
            return super().fit(points, y)
        rng, region = self._own_randomness(FIT_STREAM), self.resolved_region
        self.intervals_ = build_intervals(points, region, self.fit_plan, self.fit_budget, rng=rng, progress=progress)
        return self

    @property
    def fit_plan(self) -> FitPlan:
        """How `fit` builds intervals."""
        method = self.fit_method or ("pic" if self.chosen_release == "paper" else "private-grid")
        return FitPlan(method=method, centres=self.centres, rounds=self.rounds, gamma=self.gamma)

    @property
    def fit_steps(self) -> int:
        """How often `fit` reports progress."""
        return self.fit_plan.steps

    @property
    def fit_budget(self) -> float:
        """What `fit` spends, as in `FitPlan.budget`."""
        if self.chosen_release == "paper":
            return self.scales.fit_scale if self.fit_plan.method == "pic" else self.chosen_epsilon / 2
        return self.fit_plan.budget(self.chosen_epsilon if self.fit_epsilon is None else self.fit_epsilon, self.delta)

    @property
    def chosen_release(self) -> ReleaseName:
        """The release as given, or else the one that the other parameters speak of."""
        if self.release is not None:
            return self.release
        return "metric" if self.epsilon is None and self.noise == "laplace" else "interval"

    @property
    def chosen_epsilon(self) -> float:
        """Epsilon as given, or else 1."""
        return 1.0 if self.epsilon is None else self.epsilon

    @property
    def current_intervals(self) -> Intervals:
        """The intervals in use; an error before `fit`."""
        found: Intervals | None = getattr(self, "intervals_", None) if self.intervals is None else self.intervals
        if found is None:
            raise UsageError("fit the intervals first, or give intervals made before")
        return found

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
        """How many answers of private k-means a user is in: as given intervals say, or else as planned."""
        given = self.intervals
        if given is not None and given.method == "pic":
            return sum(part.count for part in given.answers)
        return self.fit_plan.queries if given is None else QUERIES_PER_ROUND * self.rounds

    # -- what cards, audits and attackers ask ----------------------------------------------------------------

    @property
    def variant(self) -> str | None:
        """The release."""
        return self.chosen_release

    @property
    def fit_settings(self) -> tuple[Any, ...]:
        """The plan of the fit and what it spends; the release has no part in it."""
        return self.fit_plan, self.fit_budget

    def groups(self, points: FloatArray) -> IntArray | None:
        """The interval of each location, but for ``metric``."""
        if self.chosen_release == "metric":
            return None
        return NearestCentre(self.current_intervals.centres)(self.enter(points))

    @property
    def decay_per_m(self) -> float | None:
        """That of the noise of ``metric``, before locations are moved to the discs."""
        release = self._release
        return release.noise.decay_per_m if isinstance(release, MetricRelease) else None

    @property
    def discs_m(self) -> tuple[FloatArray, FloatArray] | None:
        """The intervals."""
        intervals = self.current_intervals
        return intervals.centres * intervals.region.metres_per_unit, intervals.radii_m

    # -- release ---------------------------------------------------------------------------------------------

    @property
    def _release(self) -> PaperRelease | IntervalRelease | MetricRelease:
        intervals, factor = self.current_intervals, self._noise_factor
        if self.chosen_release == "metric":
            noise_m = DEFAULT_NOISE_M if self.noise_m is None else self.noise_m
            noise = PlanarLaplace(noise_m, region=intervals.region)
            return MetricRelease(intervals, noise, noise.rescaled(factor))
        if self.chosen_release == "interval":
            return IntervalRelease(intervals, self.noise, self.chosen_epsilon, factor)
        return PaperRelease(intervals, self.noise, self.scales.release_scale * factor, self.delta)

    def draw(self, x: FloatArray, rows: RowKeystream) -> FloatArray:
        """Draw a point of each user's disc, in the square; release ``metric``: a noisy location in degrees."""
        return self._release.draw(x, rows)

    def remap(self, t: FloatArray) -> FloatArray:
        """Release ``metric``: move noisy locations to the nearest point of the discs."""
        release = self._release
        return release.remap(t) if isinstance(release, MetricRelease) else t

    @property
    def remaps(self) -> bool:
        """Whether what is drawn is moved again."""
        return self.chosen_release == "metric"

    def log_density(self, x: FloatArray, t: FloatArray) -> FloatArray:
        """Log density of what is drawn, per unit of the square (``metric``: per square meter)."""
        return self._release.log_density(x, t)

    def density_given(self, x: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return `log_density` for all pairs, with the disc and the mass of the noise found once for each ``x``."""
        release, overridden = self._release, type(self).log_density is not DPRS.log_density
        if isinstance(release, MetricRelease) or overridden:
            return super().density_given(x)
        return release.density_given(x)

    @property
    def guarantee(self) -> Guarantee:
        """What the published locations promise; for the paper's release that is less than the paper says."""
        given = self._release.guarantee(self._notes())
        return with_fit_cost(given, self.current_intervals, "intervals", self.delta)

    def rescaled(self, factor: float) -> Self:
        """Return a copy with noise ``factor`` times as wide, intervals and all."""
        other = copy.copy(self)
        other._noise_factor = self._noise_factor * factor
        return other

    def to_spec_params(self) -> dict[str, Any]:
        """Return the parameters of a copy with the same law: intervals that were fitted count as given."""
        return super().to_spec_params() | {"release": self.chosen_release, "intervals": self.current_intervals}

    @classmethod
    def from_spec_params(cls, params: dict[str, Any]) -> Self:
        """Return the copy."""
        return cls(**{**params, "intervals": intervals_from_document(params["intervals"])})

    def _prepare(self) -> None:
        _ = self._release
