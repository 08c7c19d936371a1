"""The best attacker: knows the mechanism and where users are, and takes the Bayes estimate from what is published.

Attacks that read off the published location are weaker. What this one finds is the figure that a defender should quote.
It knows the mechanism with all parameters, fitted intervals included, and a `Prior`. From the published locations of a
target it guesses the mean of the posterior (least squared error), its geometric median (least error) and the disc of
radius tau that is most likely to hold the target (best Acc). Releases of a user who stays put multiply likelihoods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nearveil.attacks.channels import Channel, Likelihood, channel_of, likelihoods
from nearveil.attacks.oracle import Point
from nearveil.errors import UsageError
from nearveil.kernels import kernel
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

_RING_STEP, _RING_POINTS, _INNERMOST_M = 0.25, 18, 2.0
_NEGLIGIBLE = 1e-5


class Candidates(NamedTuple):
    """Points where the target may be, each standing for an area (0 for an address)."""

    places_m: FloatArray
    log_weights: FloatArray
    areas_m2: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Where users are, as far as an attacker knows before seeing anything of the target.

    Points in meters with weights, which sum to 1 - ``background``, and a thin background over the whole region so that
    nothing is impossible: the probability that the target is just anywhere in it.
    """

    region: Region
    places_m: FloatArray
    weights: FloatArray
    background: float

    def __post_init__(self) -> None:
        if not 0 < self.background <= 1:
            raise UsageError("the background of a prior must lie between 0 and 1, and not be 0")

    def background_around(self, middle_m: FloatArray) -> Candidates:
        """Return the background as rings of points around one, dense near it: right at every scale with few points."""
        rings = np.arange(math.ceil(math.log(2 * self.region.radius_m / _INNERMOST_M) / _RING_STEP))
        radii = _INNERMOST_M * np.exp(_RING_STEP * rings)
        # Every other ring is turned by half a step, so that the points lie like bricks.
        angles = (np.arange(_RING_POINTS) + 0.5 * (rings[:, None] % 2)) * (2 * math.pi / _RING_POINTS)
        offsets = radii[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        points = np.vstack([middle_m[None], middle_m + offsets.reshape(-1, 2)])
        innermost = math.pi * _INNERMOST_M**2 * math.exp(-_RING_STEP)
        ring_areas = math.pi * radii**2 * 2 * math.sinh(_RING_STEP)
        areas = np.append(innermost, np.repeat(ring_areas / _RING_POINTS, _RING_POINTS))
        is_inside = (np.abs(points) <= np.array(self.region.half_extent_m)).all(axis=1)
        points, areas = points[is_inside], areas[is_inside]
        return Candidates(points, np.log(self.background * areas / (4 * math.prod(self.region.half_extent_m))), areas)


def prior_from_points(points: object, region: Region, *, background: float = 0.05) -> Prior:
    """Return the prior of an attacker who knows every address: one row of latitude and longitude per user.

    If the target's address is among them, this is the strongest attacker; ``background`` is the share that goes evenly
    over the whole region.
    """
    places_m = region.to_metres(region.check(points))
    return Prior(region, places_m, np.full(len(places_m), (1 - background) / len(places_m)), background)


# The best guesses from weighted candidates: one for each way of counting an error.


_MOST_STEPS, _CLOSE_M = 300, 0.05
_SEEDS, _MOST_TRIED, _MOST_CELLS_ACROSS = 12, 1500, 500
_FINEST_SHARE, _HEAVY = 1 / 32, 0.01


@kernel
def geometric_median(places: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """The point with the least mean distance (Weiszfeld's steps, with Vardi and Zhang's rule at a candidate)."""
    heaviest = np.argmax(weights)
    x = y = 0.0
    for i in range(len(places)):
        x += weights[i] * places[i, 0]
        y += weights[i] * places[i, 1]
    # Steps toward a candidate that is the median get ever shorter: look there first.
    if _pull(places, weights, places[heaviest, 0], places[heaviest, 1])[3] <= 0.0:
        return places[heaviest, 0], places[heaviest, 1]
    for _ in range(_MOST_STEPS):
        step_x, step_y, stiffness, excess = _pull(places, weights, x, y)
        if excess <= 0.0 or stiffness == 0.0:
            break
        share = excess / max(math.hypot(step_x, step_y), 1e-300)
        step_x, step_y = share * step_x / stiffness, share * step_y / stiffness
        x, y = x + step_x, y + step_y
        if math.hypot(step_x, step_y) < _CLOSE_M:
            break
    return x, y


@kernel
def _pull(places: FloatArray, weights: FloatArray, x: float, y: float) -> tuple[float, float, float, float]:
    """Sum of unit vectors to the candidates, sum of 1/distance, and what the pull exceeds the weight here by."""
    pull_x = pull_y = stiffness = here = 0.0
    for i in range(len(places)):
        dx, dy = places[i, 0] - x, places[i, 1] - y
        distance = math.hypot(dx, dy)
        if distance < 1e-6:
            here += weights[i]
        else:
            pull_x += weights[i] * dx / distance
            pull_y += weights[i] * dy / distance
            stiffness += weights[i] / distance
    return pull_x, pull_y, stiffness, math.hypot(pull_x, pull_y) - here


def best_disc(places: FloatArray, weights: FloatArray, radius_m: float) -> tuple[float, float, float]:
    """Return the center of a disc of that radius with the most weight, and the weight.

    Centers tried are the candidates in the heaviest neighborhoods, points half way between the best of them and others,
    then points around those in ever smaller steps: in practice within a percent or two of the best.
    """
    order = np.argsort(places[:, 0])
    places, weights = np.ascontiguousarray(places[order]), weights[order]
    found: tuple[float, float, float] = _best_disc(
        places, weights, radius_m, _by_neighborhood(places, weights, radius_m)
    )
    return found


def _by_neighborhood(places: FloatArray, weights: FloatArray, radius_m: float) -> IntArray:
    """The candidates with the heaviest neighborhoods: the nine cells that hold the disc around them."""
    lowest = places.min(axis=0)
    # Cells may be larger than the disc, where the region is so large that there would be too many.
    cell_m = max(radius_m, float((places.max(axis=0) - lowest).max()) / _MOST_CELLS_ACROSS)
    column, row = ((places - lowest) / cell_m).astype(np.int64).T + 1
    shape = (int(column.max()) + 2, int(row.max()) + 2)
    sums = np.bincount(column * shape[1] + row, weights, minlength=shape[0] * shape[1]).reshape(shape)
    sums[1:-1] = sums[:-2] + sums[1:-1] + sums[2:]
    sums[:, 1:-1] = sums[:, :-2] + sums[:, 1:-1] + sums[:, 2:]
    found: IntArray = np.argsort(-sums[column, row], kind="stable")[:_MOST_TRIED]
    return found


@kernel
def _best_disc(places: FloatArray, weights: FloatArray, radius: float, tried: IntArray) -> tuple[float, float, float]:
    around = np.empty(len(tried))
    for i in range(len(tried)):
        around[i] = _weight_in_disc(places, weights, places[tried[i], 0], places[tried[i], 1], radius)
    best_x = best_y = best = 0.0
    for i in _apart(places[tried], around, 0.5 * radius):
        x, y = _best_midpoint(places, weights, places[tried[i], 0], places[tried[i], 1], radius, around[i])
        x, y, weight = _climb(places, weights, x, y, radius)
        if weight > best:
            best_x, best_y, best = x, y, weight
    return best_x, best_y, best


@kernel
def _apart(places: FloatArray, scores: FloatArray, gap: float) -> IntArray:
    """The points with the highest scores that are not near one with a higher score."""
    found = np.empty(_SEEDS, dtype=np.int64)
    count = 0
    for i in np.argsort(-scores):
        near = False
        for j in range(count):
            near |= math.hypot(places[i, 0] - places[found[j], 0], places[i, 1] - places[found[j], 1]) < gap
        if not near:
            found[count] = i
            count += 1
            if count == _SEEDS:
                break
    return found[:count]


@kernel
def _best_midpoint(
    places: FloatArray, weights: FloatArray, x: float, y: float, radius: float, best: float
) -> tuple[float, float]:
    """Of a point and the points half way to the heavier candidates around it, the one whose disc holds most."""
    best_x, best_y, heavy = x, y, _HEAVY * best
    for i in range(np.searchsorted(places[:, 0], x - 2 * radius), len(places)):
        dx, dy = places[i, 0] - x, places[i, 1] - y
        if dx > 2 * radius:
            break
        if weights[i] > heavy and dx * dx + dy * dy <= 4 * radius * radius:
            weight = _weight_in_disc(places, weights, x + dx / 2, y + dy / 2, radius)
            if weight > best:
                best_x, best_y, best = x + dx / 2, y + dy / 2, weight
    return best_x, best_y


@kernel
def _climb(places: FloatArray, weights: FloatArray, x: float, y: float, radius: float) -> tuple[float, float, float]:
    """Move to the best of eight neighbors while that gains; halve the step when none does."""
    best = _weight_in_disc(places, weights, x, y, radius)
    step = 0.75 * radius
    while step > _FINEST_SHARE * radius:
        from_x, from_y, before = x, y, best
        for turn in range(8):
            to_x = from_x + step * math.cos(turn * math.pi / 4)
            to_y = from_y + step * math.sin(turn * math.pi / 4)
            weight = _weight_in_disc(places, weights, to_x, to_y, radius)
            if weight > best:
                x, y, best = to_x, to_y, weight
        if best <= before * (1 + 1e-9):
            step *= 0.5
    return x, y, best


@kernel
def _weight_in_disc(places: FloatArray, weights: FloatArray, x: float, y: float, radius: float) -> float:
    """Weight within the disc; the points are sorted by x."""
    total = 0.0
    for i in range(np.searchsorted(places[:, 0], x - radius), len(places)):
        dx, dy = places[i, 0] - x, places[i, 1] - y
        if dx > radius:
            break
        if dx * dx + dy * dy <= radius * radius:
            total += weights[i]
    return total


@dataclass(frozen=True, slots=True)
class BayesEstimate:
    """What the attacker believes about one target: three guesses in meters, each the best for its way of counting.

    ``expected_error_m`` is the mean error of the median and ``disc_probability`` the chance that the disc holds the
    target, both as the attacker believes. Where nothing explains what was published, ``possible`` is False and every
    guess is the middle of what was published.
    """

    mean: Point
    median: Point
    best_disc: Point
    expected_error_m: float
    disc_probability: float
    possible: bool = True


def best_guesses(places: Candidates, logs: FloatArray, middle: FloatArray, tau_m: float) -> BayesEstimate:
    """Return the best guesses from weighted points; where none is possible, the middle of what was published."""
    top = logs.max(initial=-np.inf)
    if not np.isfinite(top):
        here = (float(middle[0]), float(middle[1]))
        return BayesEstimate(here, here, here, math.nan, math.nan, possible=False)
    weights = np.exp(logs - top)
    # The heaviest, which hold all of the weight but a small share.
    possible = np.flatnonzero(weights > 1e-12)
    order = possible[np.argsort(-weights[possible])]
    sums = np.cumsum(weights[order])
    kept = order[: int(np.searchsorted(sums, (1 - _NEGLIGIBLE) * sums[-1])) + 1]
    where, weights = places.places_m[kept], weights[kept] / weights[kept].sum()
    mean, median = weights @ where, geometric_median(where, weights)
    # Of a candidate that stands for an area larger than the disc, the disc holds only a part.
    in_disc = weights * np.minimum(1.0, math.pi * tau_m**2 / np.maximum(places.areas_m2[kept], 1e-9))
    x, y, probability = best_disc(where, in_disc, tau_m)
    expected_error_m = float(weights @ np.hypot(*(where - median).T))
    return BayesEstimate((float(mean[0]), float(mean[1])), median, (x, y), expected_error_m, probability)


@dataclass(frozen=True, kw_only=True, eq=False)
class BayesAttacker:
    """Knows a mechanism and a prior, and guesses where users are from published locations.

    ``mechanism`` is what the target was published by, fitted if it needs to be, or a `Channel`, such as a
    `SampledChannel` for anything else that publishes locations; ``tau_m`` is the radius of the disc that counts as
    found.

    Examples
    --------
    >>> from nearveil import PlanarLaplace, named_region
    >>> prior = prior_from_points([[37.70, -122.40], [37.72, -122.40]], named_region("san-francisco"))
    >>> attacker = BayesAttacker(mechanism=PlanarLaplace(500, "san-francisco"), prior=prior)
    >>> attacker.estimate(np.array([37.701, -122.401])).disc_probability > 0.9
    True
    """

    mechanism: Mechanism | Channel
    prior: Prior
    tau_m: float = 100.0

    def __post_init__(self) -> None:
        if not 0 < self.tau_m < math.inf:
            raise UsageError("tau must be a distance in meters, more than 0")
        if not self._channel.region.same_edges(self.prior.region):
            raise UsageError("the prior and the mechanism must have the same region")
        if not (self._channel.prepares_fast or len(self.prior.places_m)):
            raise UsageError("a mechanism without a density needs a prior with addresses")

    def estimate(self, published: FloatArray) -> BayesEstimate:
        """Guess where one user is who stays put, from one or several published locations, shape (2,) or (r, 2)."""
        return self.estimate_many(np.asarray(published, dtype=np.float64).reshape(-1, 1, 2))[0]

    def estimate_many(self, published: FloatArray) -> list[BayesEstimate]:
        """Guess where many users are, each alone, from published locations, (n, 2) or (r, n, 2) for r releases."""
        releases = np.asarray(published, dtype=np.float64)
        releases = releases[None] if releases.ndim == 2 else releases
        if releases.ndim != 3 or releases.shape[2] != 2 or releases.shape[0] == 0:
            raise UsageError("published locations must have the shape (users, 2) or (releases, users, 2)")
        self._channel.region.check(releases.reshape(-1, 2))
        places, likelihood = self._known
        found = enumerate(likelihoods(likelihood, releases))
        return [self._estimate_one(releases[:, target], logs + places.log_weights) for target, logs in found]

    @cached_property
    def _channel(self) -> Channel:
        return channel_of(self.mechanism)

    @cached_property
    def _known(self) -> tuple[Candidates, Likelihood]:
        """The candidates that are the same for every target, prepared."""
        places_m, weights = self.prior.places_m, self.prior.weights
        return Candidates(places_m, np.log(weights), np.zeros(len(weights))), self._channel.at(places_m)

    def _estimate_one(self, releases: FloatArray, logs: FloatArray) -> BayesEstimate:
        """Guess one target's location, given how likely the known candidates are."""
        published_m = self._channel.region.to_metres(releases)
        middle = np.array(geometric_median(published_m, np.full(len(published_m), 1 / len(published_m))))
        places, _ = self._known
        if self._channel.prepares_fast:
            nearby = self.prior.background_around(middle)
            likelihood = self._channel.at(nearby.places_m)(releases).sum(axis=1)
            places = Candidates(*map(np.concatenate, zip(places, nearby, strict=True)))
            logs = np.append(logs, likelihood + nearby.log_weights)
        return best_guesses(places, logs, middle, self.tau_m)
