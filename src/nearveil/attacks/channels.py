"""How likely a published location is, for a user at each of many points: by the density, or by sampling.

A `Channel` is prepared once for the points an attacker thinks of (`at`) and then tells, for published locations in
degrees, the log-likelihood of each point, up to a constant for each published location.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import logsumexp

from nearveil.io.synthetic import synthetic_city
from nearveil.kernels import kernel
from nearveil.mechanisms.base import Mechanism, is_mechanism
from nearveil.mechanisms.registry import is_own
from nearveil.mechanisms.step_channel import StepChannel
from nearveil.region import PUBLISHED_DECIMALS, Region
from nearveil.sphere import EARTH_RADIUS_M
from nearveil.types import BoolArray, FloatArray, IntArray, ShortIntArray

Likelihood = Callable[[FloatArray], FloatArray]
"""Published locations (m, 2) in degrees to log-likelihoods (points, m)."""

_TARGETS_AT_ONCE, _MOST_AT_ONCE = 64, 4_000_000


class Channel(Protocol):
    """A way from true locations to published ones that an attacker can calculate with."""

    @property
    def region(self) -> Region:
        """Where all users are, and published locations are clamped to."""

    @property
    def prepares_fast(self) -> bool:
        """Whether `at` is cheap enough to be called for every target."""

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for users at these points."""


def likelihoods(likelihood: Likelihood, releases: FloatArray) -> Iterator[FloatArray]:
    """Yield the log-likelihood of each point for one target after the other; releases (r, targets, 2) multiply."""
    size = max(1, _TARGETS_AT_ONCE // len(releases))
    for start in range(0, releases.shape[1], size):
        part = releases[:, start : start + size]
        logs = likelihood(part.reshape(-1, 2))
        yield from logs.reshape(len(logs), *part.shape[:2]).sum(axis=1).T


def channel_of(mechanism: Mechanism | Channel) -> Channel:
    """Return a mechanism as a channel: by its cells or its density where it has one, by sampling where not."""
    if not is_mechanism(mechanism):
        return mechanism
    if is_own(mechanism) and mechanism.finite is not None:
        return CellChannel(mechanism, mechanism.finite)
    is_published_as_drawn = mechanism.has_density and not mechanism.remaps
    if is_published_as_drawn and (is_own(mechanism) or _follows_its_density(mechanism)):
        return DensityChannel(mechanism)
    remapped = RemappedChannel.of(mechanism) if is_own(mechanism) else None
    return remapped or SampledChannel(publish=mechanism.perturb, region=mechanism.resolved_region)


def _follows_its_density(mechanism: Mechanism) -> bool:
    """Whether somebody else's draws follow the density stated; a wrong one would make the attacker look weak."""
    from nearveil.auditing import conformance  # noqa: PLC0415 - loads the auditor, for somebody else's class only

    users = synthetic_city(100, mechanism.resolved_region, rng=1)
    try:
        conformance.check_draws_follow_density(conformance.MechanismUnderTest(mechanism, users, draws=20_000))
    except (conformance.ConformanceError, NotImplementedError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class _ChannelOfMechanism:
    """A channel that computes likelihoods, so that it needs next to no preparation."""

    mechanism: Mechanism
    prepares_fast: ClassVar[bool] = True

    @property
    def region(self) -> Region:
        """Where all users are."""
        return self.mechanism.resolved_region


@dataclass(frozen=True, slots=True)
class CellChannel(_ChannelOfMechanism):
    """A random cell, and a uniform point of it: exact but for what rounding takes into the next cell."""

    finite: StepChannel

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for users at these points."""
        # All points of a cell look alike.
        sources, of = np.unique(self._cells_of(self.region.from_metres(places_m)), return_inverse=True)
        return lambda published: self.finite.log_probability(sources[:, None], self._cells_of(published)[None])[of]

    def _cells_of(self, points: FloatArray) -> ShortIntArray:
        return self.finite.cells.find(self.mechanism.enter(self.region.clip(points)))


_GRID_STEP_DEG = 10.0**-PUBLISHED_DECIMALS
_ROUNDING_CELL = np.array(list(product((-0.5, 0.0, 0.5), repeat=2))) * _GRID_STEP_DEG


@dataclass(frozen=True, slots=True)
class DensityChannel(_ChannelOfMechanism):
    """A mechanism with a density.

    The density is that of the draw before clamping and rounding. A published location on the region's edge stands for
    all locations beyond it that are clamped to it: its likelihood is the integral of the density outwards, over the
    quadrant at a corner. Rounding is ignored, except where it left the support: then the density is averaged over the
    rounding cell. A mechanism that moves users again after its density (a remap) needs a `SampledChannel`.
    """

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for users at these points."""
        enter, density = self.mechanism.enter, self._density(self.region.from_metres(places_m))

        def likelihood(published: FloatArray) -> FloatArray:
            distinct, same = np.unique(published, axis=0, return_inverse=True)
            parts = np.array_split(enter(distinct), max(1, -(-len(distinct) * len(places_m) // _MOST_AT_ONCE)))
            found = np.hstack([density(part) for part in parts])
            for column, side in enumerate(edge_sides(distinct, self.region)):
                if side.any():
                    found[:, column] = _log_sums(density, *self._beyond(enter(distinct[[column]]), side), len(found))
                if not np.isfinite(found[:, column]).any():
                    around = enter(self.region.clip(distinct[column] + _ROUNDING_CELL))
                    found[:, column] = logsumexp(density(around), axis=1) - math.log(len(around))
            return found[:, same.reshape(-1)]

        return likelihood

    def _density(self, points: FloatArray) -> Likelihood:
        """Return the density in the frame given each point.

        Where noise is confined to the disc of a group, only pairs of a point and a disc of its own group are evaluated.
        """
        mechanism = self.mechanism
        x, discs = mechanism.enter(points), mechanism.discs_m if is_own(mechanism) else None
        groups = None if discs is None else mechanism.groups(points)
        if discs is None or groups is None:
            return mechanism.density_given(x)
        centers, radii = (each / self.region.metres_per_unit for each in discs)
        not_empty = np.unique(groups)

        @cache
        def of_group(group: int) -> tuple[IntArray, Likelihood]:
            rows = np.flatnonzero(groups == group)
            return rows, mechanism.density_given(x[rows])

        def density(t: FloatArray) -> FloatArray:
            found = np.full((len(x), len(t)), -np.inf)
            is_inside = np.hypot(*(t[:, None] - centers).transpose(2, 0, 1)) <= radii * (1 + 1e-6)
            for group in np.intersect1d(not_empty, np.flatnonzero(is_inside.any(axis=0))):
                inside, (rows, given) = np.flatnonzero(is_inside[:, group]), of_group(group)
                found[np.ix_(rows, inside)] = given(t[inside])
            return found

        return density

    def _beyond(self, edge: FloatArray, side: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Points of the frame that are clamped to one of an edge or a corner, with log weights."""
        region, frame = self.region, self.mechanism.frame
        outwards = _log_steps(0.0, least_m=0.1, most_m=20 * region.radius_m, step=0.5)
        (east_m, east), (north_m, north) = (outwards if each else (np.zeros(1), np.zeros(1)) for each in side)
        steps_m, log_weights = np.array(list(product(east_m, north_m))) * side, np.add.outer(east, north).ravel()
        if frame == "metres":
            return edge + steps_m, log_weights
        if frame == "square":
            return edge + steps_m * np.array(region.half_extent_square) / region.half_extent_m, log_weights
        latitude, longitude = region.centre
        level = math.cos(math.radians(latitude))
        points = edge + (steps_m / (math.radians(EARTH_RADIUS_M) * np.array([level, 1.0])))[:, ::-1]
        # The ground that a step covers, less toward a pole; none where outputs come round again.
        ground = np.cos(np.radians(points[:, 0])) / level
        once = (np.abs(points[:, 0]) < 90) & (np.abs(points[:, 1] - longitude) < 180)
        return points, log_weights + np.log(np.maximum(np.where(once, ground, 0.0), np.finfo(float).tiny))


def _log_sums(density: Likelihood, t: FloatArray, log_weights: FloatArray, count: int) -> FloatArray:
    """Logarithms of weighted sums of the density given ``count`` points, in parts of bounded memory."""
    parts = np.array_split(np.arange(len(t)), max(1, -(-len(t) * count // _MOST_AT_ONCE)))
    return logsumexp([logsumexp(density(t[part]) + log_weights[part], axis=1) for part in parts], axis=0)


def _log_steps(first_m: float, *, least_m: float, most_m: float, step: float) -> tuple[FloatArray, FloatArray]:
    """Steps outwards with log weights: the trapezium rule in their logarithm, and one step for what is nearer."""
    logs = np.arange(math.log(least_m), math.log(most_m), step)
    return np.append(first_m, np.exp(logs)), np.append(math.log(least_m), logs + math.log(step))


def edge_sides(published: FloatArray, region: Region) -> FloatArray:
    """For each published location: -1, 0 or 1 east and north, where it lies on the last grid line of the region."""
    latitude, longitude = region.centre
    offset = np.column_stack([(published[:, 1] - longitude + 180) % 360 - 180, published[:, 0] - latitude])
    half_extent = np.array([region.width_deg, region.height_deg]) / 2
    on_edge: BoolArray = np.abs(offset) > half_extent - 1.01 * _GRID_STEP_DEG
    sides = np.sign(offset) * on_edge
    # The corners of the box of meters may come out a few grid steps beside the region's corners.
    signs = np.array(list(product((-1.0, 1.0), repeat=2)))
    corners = region.publish(region.from_metres(signs * np.array(region.half_extent_m)))
    for sign, corner in zip(signs, corners, strict=True):
        sides[(np.abs(published - corner) < 0.5 * _GRID_STEP_DEG).all(axis=1)] = sign
    return sides


# Rounding to the public grid moves a published location by up to 0.08 m, the projection by less.
_ON_EDGE_M, _SAME_M = 0.25, 1.0
# Of the region's half width: in a city of 35 km, noise of up to 900 m on average.
_SHORT = 0.05


@dataclass(frozen=True, slots=True)
class RemappedChannel(_ChannelOfMechanism):
    """Noisy locations that were moved to the nearest point of discs; as exact as the density of the noise.

    A published location inside a disc is the noisy one, and has its density. One on a disc's edge stands for all noisy
    locations outside that were moved to it: the ray from the edge outwards, as long as this disc is the nearest. Its
    likelihood is the integral of the density along the ray, with a weight for the ray's neighbors, which spread with
    the distance from the center. Where a ray leaves the region, where noisy locations are clamped first, it is followed
    straight on. That is not exact, and not good enough for noise that often leaves the region: that is sampled.
    """

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
        """Prepare for users at these points."""
        rate = self.rate_per_m
        return lambda published: _log_planar_sums(places_m, *self._stands_for(self.region.to_metres(published)), rate)

    def _stands_for(self, published_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The noisy points that each published one stands for, shape (m, steps, 2), with log weights."""
        centers_m, radii_m = self.discs_m
        gaps_m = np.hypot(*(published_m[:, None] - centers_m).transpose(2, 0, 1)) - radii_m
        nearest = np.abs(gaps_m).argmin(axis=1)
        is_on_edge = np.abs(gaps_m[np.arange(len(nearest)), nearest]) <= _ON_EDGE_M
        steps_m, log_steps = _log_steps(0.5, least_m=1.0, most_m=4 * self.region.radius_m, step=0.2)
        center_m, away_m = centers_m[nearest], radii_m[nearest, None] + steps_m
        offsets = published_m - center_m
        outwards = offsets / np.maximum(np.hypot(*offsets.T), _ON_EDGE_M)[:, None]
        noisy_m = center_m[:, None] + outwards[:, None] * away_m[..., None]
        comes_back = self._come_back(noisy_m, published_m) & is_on_edge[:, None]
        log_weights = np.where(comes_back, log_steps + np.log(away_m / radii_m[nearest, None]), -np.inf)
        # A point inside a disc, and one that nothing outside is moved to, stands for itself.
        alone = ~comes_back.any(axis=1)
        noisy_m[alone, 0], log_weights[alone, 0] = published_m[alone], 0.0
        return noisy_m, log_weights

    def _come_back(self, noisy_m: FloatArray, published_m: FloatArray) -> BoolArray:
        """Whether points along rays are moved to the published ones; beyond the region, what holds at its boundary."""
        noisy = self.region.from_metres(noisy_m.reshape(-1, 2))
        remapped_m = self.region.to_metres(self.mechanism.remap(noisy)).reshape(noisy_m.shape)
        same = np.linalg.norm(remapped_m - published_m[:, None], axis=-1) < _SAME_M
        is_inside = (np.abs(noisy_m) <= np.array(self.region.half_extent_m)).all(axis=-1)
        steps = np.arange(noisy_m.shape[1])
        last = np.where(is_inside, steps, -1).max(axis=1, initial=-1)[:, None]
        at_boundary = np.take_along_axis(same, np.maximum(last, 0), axis=1)
        followed: BoolArray = np.where((last >= 0) & (steps > last), at_boundary, same)
        return followed


# What is this much less likely, in the exponent, is lost in the rounding of a sum.
_NEGLIGIBLE_LOSS = 40.0


@kernel
def _log_planar_sums(places: FloatArray, noisy: FloatArray, log_weights: FloatArray, rate_per_m: float) -> FloatArray:
    """Logarithm of the sum over k of exp(w_jk - rate |x_i - t_jk|), for each point x_i and each row j."""
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


_BANDWIDTH, _LEAST_BANDWIDTH_M = 0.5, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledChannel:
    """Anything that publishes locations: its outputs are sampled, and smoothed by a kernel with heavy tails.

    ``publish(points, rng)`` returns published locations for true ones, in degrees; a mechanism's ``perturb`` will do.
    Of ``draws`` outputs for each point, drawn with the attacker's own ``seed``: the fewer, the wider the kernel, which
    blurs the attacker's sight.
    """

    publish: Callable[[FloatArray, np.random.Generator], FloatArray]
    region: Region
    draws: int = 200
    seed: int = 0
    prepares_fast: ClassVar[bool] = False

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for users at these points."""
        rng = np.random.default_rng(self.seed)
        points = self.region.clip(self.region.from_metres(np.repeat(places_m, self.draws, axis=0)))
        drawn_m = self.region.to_metres(self.publish(points, rng)).reshape(-1, self.draws, 2)
        spread_m = np.median(np.hypot(*(drawn_m - np.median(drawn_m, axis=1, keepdims=True)).T), axis=0)
        bandwidths = np.maximum(_BANDWIDTH * spread_m * self.draws ** (-1 / 6), _LEAST_BANDWIDTH_M)
        return lambda published: _log_kernel_density(drawn_m, bandwidths, self.region.to_metres(published))


@kernel
def _log_kernel_density(drawn: FloatArray, bandwidths: FloatArray, t: FloatArray) -> FloatArray:
    """Log of the mean of (1 + d²/h²)⁻² / h² over the draws of each point: never zero, unlike a Gaussian's."""
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
