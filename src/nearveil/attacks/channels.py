"""How likely a published place is, for someone at each of many places: by the density, or by sampling.

A `Channel` is prepared once for the places an attacker thinks of (`at`) and then tells, for published places in
degrees, the log-likelihood of each place, up to a constant for each published place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np
from scipy.special import logsumexp

from nearveil.errors import UsageError
from nearveil.io.synthetic import synthetic_city
from nearveil.kernels import kernel
from nearveil.mechanisms.base import Mechanism, is_mechanism
from nearveil.mechanisms.registry import is_own
from nearveil.mechanisms.step_channel import StepChannel
from nearveil.region import PUBLISHED_DECIMALS, Region
from nearveil.sphere import EARTH_RADIUS_M
from nearveil.types import BoolArray, FloatArray, ShortIntArray

Likelihood = Callable[[FloatArray], FloatArray]
"""Published places (m, 2) in degrees to log-likelihoods (places, m)."""


@dataclass(frozen=True, slots=True)
class _ChannelOfMechanism:
    """A channel that computes likelihoods, so that it needs next to no preparation."""

    mechanism: Mechanism

    @property
    def region(self) -> Region:
        """Where everybody is."""
        return self.mechanism.resolved_region

    @property
    def prepares_fast(self) -> bool:
        """Nothing is sampled beforehand."""
        return True


# The likelihood of places that were moved to the nearest point of discs: DPRS's release ``metric``.
#
# A published place inside a disc is the noisy place itself, and has its density. One on a disc's edge stands for all
# noisy places outside that were moved to it: the ray from the edge outwards, as long as this disc is the nearest. Its
# likelihood is the integral of the density along the ray, with a weight for the ray's neighbors, which spread with
# the distance from the centre.
#
# Where a ray leaves the region, where noisy places are clamped first, it is followed straight on. That is not exact,
# and for noise that often leaves the region it is not good enough: `of` says where to sample instead.


# Rounding to the public grid moves a published place by up to 0.08 m, the projection by less.
_ON_EDGE_M = 0.25
_SAME_M = 1.0
_LEAST_REMAPPED_STEP_M = 1.0
_REMAPPED_LOG_STEP = 0.2
# Of the region's half width: in a city of 35 km, noise of up to 900 m on average.
_SHORT = 0.05


@dataclass(frozen=True, slots=True)
class RemappedChannel(_ChannelOfMechanism):
    """Noisy places that were moved to discs; as exact as the density of the noise."""

    discs_m: tuple[FloatArray, FloatArray]
    rate_per_m: float

    @classmethod
    def of(cls, mechanism: Mechanism) -> RemappedChannel | None:
        """Return the channel where noise seldom leaves the region, and discs are discs on the ground."""
        rate_per_m, discs_m = mechanism.decay_per_m, mechanism.discs_m
        if not mechanism.remaps or rate_per_m is None or discs_m is None:
            return None
        region = mechanism.resolved_region
        suits = region.scaling == "isotropic" and 2 / rate_per_m < _SHORT * min(region.half_extent_m)
        return cls(mechanism, discs_m, rate_per_m) if suits else None

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for people at these places."""
        return lambda published: self._log_likelihoods(places_m, self.region.to_metres(published))

    @property
    def _log_steps(self) -> FloatArray:
        return np.arange(math.log(_LEAST_REMAPPED_STEP_M), math.log(4 * self.region.radius_m), _REMAPPED_LOG_STEP)

    @property
    def _steps_m(self) -> FloatArray:
        """Steps along a ray from a disc's edge: the first metre, then evenly in the logarithm."""
        return np.concatenate([[0.5 * _LEAST_REMAPPED_STEP_M], np.exp(self._log_steps)])

    @property
    def _widths_m(self) -> FloatArray:
        """Weights of the steps by the trapezium rule in their logarithm."""
        return np.concatenate([[_LEAST_REMAPPED_STEP_M], np.exp(self._log_steps) * _REMAPPED_LOG_STEP])

    def _log_likelihoods(self, places_m: FloatArray, published_m: FloatArray) -> FloatArray:
        centres_m, radii_m = _nearest_edges(*self.discs_m, published_m)
        offsets = published_m - centres_m
        lengths_m = np.hypot(*offsets.T)
        steps_m = self._steps_m
        outwards = (offsets / np.maximum(lengths_m, _ON_EDGE_M)[:, None])[:, None]
        noisy_m = centres_m[:, None] + outwards * (radii_m[:, None] + steps_m)[..., None]
        kept = self._come_back(noisy_m, published_m) & (np.abs(lengths_m - radii_m) <= _ON_EDGE_M)[:, None]
        log_weights = np.where(kept, np.log(self._widths_m * (1 + steps_m / radii_m[:, None])), -np.inf)
        # A place inside a disc, and one that nothing outside is moved to, stands for itself.
        alone = ~kept.any(axis=1)
        noisy_m[alone, 0], log_weights[alone, 0] = published_m[alone], 0.0
        found: FloatArray = _log_planar_sums(places_m, noisy_m, log_weights, self.rate_per_m)
        return found + math.log(self.rate_per_m**2 / (2 * math.pi))

    def _come_back(self, noisy_m: FloatArray, published_m: FloatArray) -> BoolArray:
        """Whether places along rays are moved to the published ones; beyond the region, what holds at its boundary."""
        noisy = self.region.from_metres(noisy_m.reshape(-1, 2))
        remapped_m = self.region.to_metres(self.mechanism.remap(noisy)).reshape(noisy_m.shape)
        away_m = remapped_m - published_m[:, None]
        same: BoolArray = np.hypot(away_m[..., 0], away_m[..., 1]) < _SAME_M
        inside = (np.abs(noisy_m) <= np.array(self.region.half_extent_m)).all(axis=-1)
        steps = np.arange(noisy_m.shape[1])
        last = np.where(inside, steps, -1).max(axis=1, initial=-1)
        at_boundary = same[np.arange(len(same)), last][:, None]
        followed: BoolArray = np.where((last[:, None] >= 0) & (steps > last[:, None]), at_boundary, same)
        return followed


def _nearest_edges(centres_m: FloatArray, radii_m: FloatArray, places_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Centres and radii, in metres, of the discs whose edges are nearest."""
    east_m, north_m = (places_m[:, axis, None] - centres_m[:, axis] for axis in range(2))
    nearest = np.argmin(np.abs(np.hypot(east_m, north_m) - radii_m), axis=1)
    return centres_m[nearest], radii_m[nearest]


# What is this much less likely, in the exponent, is lost in the rounding of a sum.
_NEGLIGIBLE_LOSS = 40.0


@kernel
def _log_planar_sums(places: FloatArray, noisy: FloatArray, log_weights: FloatArray, rate_per_m: float) -> FloatArray:
    """Logarithm of the sum over k of exp(w_jk - rate |x_i - t_jk|), for each place x_i and each row j."""
    out = np.empty((len(places), len(noisy)))
    exponents = np.empty(noisy.shape[1])
    for j in range(len(noisy)):
        kept = np.flatnonzero(log_weights[j] > -np.inf)
        for i in range(len(places)):
            top = -np.inf
            for number, k in enumerate(kept):
                away = math.sqrt((noisy[j, k, 0] - places[i, 0]) ** 2 + (noisy[j, k, 1] - places[i, 1]) ** 2)
                exponents[number] = log_weights[j, k] - rate_per_m * away
                top = max(top, exponents[number])
            total = 0.0
            for number in range(len(kept)):
                if exponents[number] > top - _NEGLIGIBLE_LOSS:
                    total += math.exp(exponents[number] - top)
            out[i, j] = top + math.log(total)
    return out


# Channels of any mechanism: by its density, or by sampling.


Publisher = Callable[[FloatArray, np.random.Generator], FloatArray]
"""Draws published places for true ones, both in degrees."""

_GRID_STEP_DEG = 10.0**-PUBLISHED_DECIMALS
_LEAST_STEP_M = 0.1
_LOG_STEP = 0.5
_MOST_AT_ONCE = 4_000_000
_BANDWIDTH = 0.5
_LEAST_BANDWIDTH_M = 1.0


class Channel(Protocol):
    """A way from true places to published ones that an attacker can reckon with."""

    @property
    def region(self) -> Region:
        """Where everybody is, and published places are clamped to."""

    @property
    def prepares_fast(self) -> bool:
        """Whether `at` is cheap enough to be called for every target."""

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for people at these places."""


@dataclass(frozen=True, slots=True)
class DensityChannel(_ChannelOfMechanism):
    """A mechanism with a density.

    The density is that of the draw before clamping and rounding. A published place on the region's edge stands for all
    places beyond it that are clamped to it: its likelihood is the integral of the density outwards, over the quadrant
    at a corner. Rounding is ignored, except where it left the support: then the density is averaged over the rounding
    cell. A mechanism that moves people again after its density (a remap) needs a `SampledChannel`.
    """

    @property
    def decay_per_m(self) -> float | None:
        """How fast the log density falls per meter, where it depends on the distance alone."""
        return self.mechanism.decay_per_m if is_own(self.mechanism) else None

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for people at these places."""
        mechanism = self.mechanism
        x = mechanism.enter(self.region.from_metres(places_m))
        density = mechanism.density_given(x)

        def likelihood(published: FloatArray) -> FloatArray:
            t = mechanism.enter(published)
            found = _in_parts(density, t, len(x))
            sides = edge_sides(published, self.region)
            for side in np.unique(sides[(sides != 0).any(axis=1)], axis=0):
                there = np.flatnonzero((sides == side).all(axis=1))
                _, first, same = np.unique(published[there], axis=0, return_index=True, return_inverse=True)
                found[:, there] = self._beyond(density, t[there[first]], side, len(x))[:, same.ravel()]
            for column in np.flatnonzero(~np.isfinite(found).any(axis=0)):
                around = mechanism.enter(self.region.clip(published[column] + _ROUNDING_CELL))
                found[:, column] = logsumexp(density(around), axis=1) - math.log(len(around))
            return found

        return likelihood

    def _beyond(self, density: Likelihood, edge: FloatArray, side: FloatArray, places: int) -> FloatArray:
        """The density beyond points of one edge or corner, in parts of bounded memory."""
        steps, log_steps = self._outwards(side)
        size = max(1, _MOST_AT_ONCE // max(1, places * len(steps)))
        totals = np.empty((places, len(edge)))
        for start in range(0, len(edge), size):
            part = edge[start : start + size]
            beyond = part[:, None] + steps
            values = _in_parts(density, beyond.reshape(-1, 2), places).reshape(places, len(part), -1)
            totals[:, start : start + size] = logsumexp(values + log_steps + self._log_areas(beyond), axis=2)
        return totals

    def _log_areas(self, outputs: FloatArray) -> FloatArray | float:
        """In degrees: the ground that a step covers, less toward a pole; none where outputs come round again."""
        if self.mechanism.frame != "degrees":
            return 0.0
        latitude, longitude = self.region.centre
        ground = np.cos(np.radians(outputs[..., 0])) / math.cos(math.radians(latitude))
        once = (np.abs(outputs[..., 0]) < 90) & (np.abs(outputs[..., 1] - longitude) < 180)
        return np.log(np.where(once, np.maximum(ground, np.finfo(float).tiny), np.finfo(float).tiny))

    def _outwards(self, sides: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Steps beyond the edge in the frame, with log weights: the trapezium rule in the logarithm of the step."""
        region = self.region
        metres_per_unit = np.ones(2)
        if self.mechanism.frame == "square":
            metres_per_unit = np.array(region.half_extent_m) / np.array(region.half_extent_square)
        elif self.mechanism.frame == "degrees":
            metres_per_unit *= math.radians(EARTH_RADIUS_M) * np.array([math.cos(math.radians(region.centre[0])), 1.0])
        logs = np.arange(math.log(_LEAST_STEP_M), math.log(20 * region.radius_m), _LOG_STEP)
        away = np.concatenate([[0.0], np.exp(logs)])
        log_weights = np.concatenate([[math.log(_LEAST_STEP_M)], logs + math.log(_LOG_STEP)])
        axes = [(away, log_weights) if side else (np.zeros(1), np.zeros(1)) for side in sides]
        steps = np.array(list(product(axes[0][0], axes[1][0]))) * sides / metres_per_unit
        if self.mechanism.frame == "degrees":
            steps = steps[:, ::-1]
        return steps, np.add.outer(axes[0][1], axes[1][1]).ravel()


_ROUNDING_CELL = np.array(list(product((-0.5, 0.0, 0.5), repeat=2))) * _GRID_STEP_DEG


def edge_sides(published: FloatArray, region: Region) -> FloatArray:
    """For each published place: -1, 0 or 1 east and north, where it lies on the last grid line of the region."""
    latitude, longitude = region.centre
    offset = np.column_stack([(published[:, 1] - longitude + 180) % 360 - 180, published[:, 0] - latitude])
    half_extent = np.array([region.width_deg, region.height_deg]) / 2
    on_edge: BoolArray = np.abs(offset) > half_extent - 1.01 * _GRID_STEP_DEG
    sides = np.sign(offset) * on_edge
    # The corners of the box of metres may come out a few grid steps beside the region's corners.
    signs = np.array(list(product((-1.0, 1.0), repeat=2)))
    corners = region.publish(region.from_metres(signs * np.array(region.half_extent_m)))
    for sign, corner in zip(signs, corners, strict=True):
        sides[(np.abs(published - corner) < 0.5 * _GRID_STEP_DEG).all(axis=1)] = sign
    return sides


def _in_parts(density: Likelihood, t: FloatArray, places: int) -> FloatArray:
    """The density in parts of bounded memory."""
    size = max(1, _MOST_AT_ONCE // max(1, places))
    parts = [density(t[start : start + size]) for start in range(0, len(t), size)]
    return np.concatenate(parts, axis=1) if parts else np.empty((places, 0))


@dataclass(frozen=True, slots=True)
class CellChannel(_ChannelOfMechanism):
    """A random cell, and a uniform point of it: a finite channel, exact but for what rounding takes into the next cell.

    All places of a cell look alike, so likelihoods are computed cell by cell.
    """

    finite: StepChannel

    def cells_at(self, places_m: FloatArray) -> ShortIntArray:
        """Return the number of the cell of each place."""
        return self._cells_of(self.region.from_metres(places_m))

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for people at these places."""
        sources, of = np.unique(self.cells_at(places_m), return_inverse=True)

        def likelihood(published: FloatArray) -> FloatArray:
            found: FloatArray = self.finite.log_probability(sources[:, None], self._cells_of(published)[None])[of]
            return found

        return likelihood

    def _cells_of(self, points: FloatArray) -> ShortIntArray:
        return self.finite.cells.find(self.mechanism.enter(self.region.clip(points)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledChannel:
    """Anything that publishes places: its outputs are sampled, and smoothed by a kernel with heavy tails.

    Parameters
    ----------
    publish : callable
        ``publish(points, rng)``: published places for true ones, in degrees. The ``perturb`` of a mechanism will do.
    region : Region
        Where everybody is.
    draws : int
        Outputs drawn for each place. The kernel is wider the fewer there are, which blurs the attacker's sight.
    seed : int
        Of the attacker's own draws.
    """

    publish: Publisher
    region: Region
    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draws < 2:
            raise UsageError("sampling needs at least 2 draws for each place")

    @property
    def prepares_fast(self) -> bool:
        """Sampling takes time."""
        return False

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for people at these places."""
        rng = np.random.default_rng(self.seed)
        points = self.region.clip(self.region.from_metres(np.repeat(places_m, self.draws, axis=0)))
        drawn_m = self.region.to_metres(self.publish(points, rng)).reshape(-1, self.draws, 2)
        spread_m = np.median(np.hypot(*(drawn_m - np.median(drawn_m, axis=1, keepdims=True)).T), axis=0)
        bandwidths = np.maximum(_BANDWIDTH * spread_m * self.draws ** (-1 / 6), _LEAST_BANDWIDTH_M)

        def likelihood(published: FloatArray) -> FloatArray:
            found: FloatArray = _log_kernel_density(drawn_m, bandwidths, self.region.to_metres(published))
            return found

        return likelihood


@kernel
def _log_kernel_density(drawn: FloatArray, bandwidths: FloatArray, t: FloatArray) -> FloatArray:
    """Log of the mean of (1 + d²/h²)⁻² / h² over the draws of each place: never zero, unlike a Gaussian's."""
    out = np.empty((len(drawn), len(t)))
    for i in range(len(drawn)):
        narrow = 1.0 / bandwidths[i] ** 2
        for j in range(len(t)):
            total = 0.0
            for k in range(drawn.shape[1]):
                square = (drawn[i, k, 0] - t[j, 0]) ** 2 + (drawn[i, k, 1] - t[j, 1]) ** 2
                total += 1.0 / (1.0 + narrow * square) ** 2
            out[i, j] = math.log(total * narrow)
    return out


def channel_of(mechanism: Mechanism | Channel) -> Channel:
    """Return a mechanism as a channel: by its cells or its density where it has one, by sampling where not."""
    if not is_mechanism(mechanism):
        return mechanism
    if is_own(mechanism) and mechanism.finite is not None:
        return CellChannel(mechanism, mechanism.finite)
    if _density_is_of_what_is_published(mechanism):
        return DensityChannel(mechanism)
    remapped = RemappedChannel.of(mechanism) if is_own(mechanism) else None
    return remapped or SampledChannel(publish=mechanism.perturb, region=mechanism.resolved_region)


def _density_is_of_what_is_published(mechanism: Mechanism) -> bool:
    if mechanism.remaps or not mechanism.has_density:
        return False
    middle = np.zeros((1, 2))
    try:
        mechanism.log_density(middle, middle)
    except NotImplementedError:
        return False
    return is_own(mechanism) or _follows_its_density(mechanism)


def _follows_its_density(mechanism: Mechanism) -> bool:
    """Whether somebody else's draws follow the density stated; a wrong one would make the attacker look weak."""
    from nearveil.auditing.conformance import (  # noqa: PLC0415 - loads the auditor, for somebody else's class only
        ConformanceError,
        MechanismUnderTest,
        check_draws_follow_density,
    )

    people = synthetic_city(100, mechanism.resolved_region, rng=1)
    try:
        check_draws_follow_density(MechanismUnderTest(mechanism, people, draws=20_000))
    except ConformanceError:
        return False
    return True
