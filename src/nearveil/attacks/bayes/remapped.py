"""The likelihood of places that were moved to the nearest point of discs: DPRS's release ``metric``.

A published place inside a disc is the noisy place itself, and has its density. One on a disc's edge stands for all
noisy places outside that were moved to it: the ray from the edge outwards, as long as this disc is the nearest. Its
likelihood is the integral of the density along the ray, with a weight for the ray's neighbours, which spread with
the distance from the centre.

Where a ray leaves the region, where noisy places are clamped first, it is followed straight on. That is not exact, and
for noise that often leaves the region it is not good enough: `suits` says where to sample instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from nearveil.attacks.bayes.likelihood import Likelihood
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray

# Rounding to the public grid moves a published place by up to 0.08 m, the projection by less.
_ON_EDGE_M = 0.25
_SAME_M = 1.0
_LEAST_STEP_M = 1.0
_LOG_STEP = 0.2
# Of the region's half width: in a city of 35 km, noise of up to 900 m on average.
_SHORT = 0.05


@dataclass(frozen=True, slots=True)
class RemappedChannel:
    """Noisy places that were moved to discs; as exact as the density of the noise."""

    mechanism: DPRS

    @classmethod
    def suits(cls, mechanism: DPRS) -> bool:
        """Whether noise seldom leaves the region, and discs are discs on the ground."""
        region = mechanism.resolved_region
        mean_m = 2 / mechanism.guarantee.epsilon
        return region.scaling == "isotropic" and mean_m < _SHORT * min(region.half_extent_m)

    @property
    def region(self) -> Region:
        """Where everybody is."""
        return self.mechanism.resolved_region

    @property
    def prepares_fast(self) -> bool:
        """Densities need no preparation."""
        return True

    def at(self, places_m: FloatArray) -> Likelihood:
        """Prepare for people at these places."""

        def likelihood(published: FloatArray) -> FloatArray:
            columns = [self._log_likelihood(places_m, place) for place in self.region.to_metres(published)]
            return np.stack(columns, axis=1) if columns else np.empty((len(places_m), 0))

        return likelihood

    def _log_likelihood(self, places_m: FloatArray, published_m: FloatArray) -> FloatArray:
        noisy_m, log_weights = self._came_from(published_m)
        logs = self.mechanism.log_density(places_m[:, None], noisy_m[None])
        found: FloatArray = logsumexp(logs + log_weights, axis=1)
        return found

    def _came_from(self, published_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Noisy places that a published one may have come from, with log weights."""
        alone = published_m[None], np.zeros(1)
        centre_m, radius_m = _nearest_edge(self.mechanism.current_intervals, published_m)
        offset = published_m - centre_m
        length_m = math.hypot(*offset)
        if abs(length_m - radius_m) > _ON_EDGE_M:
            return alone
        logs = np.arange(math.log(_LEAST_STEP_M), math.log(4 * self.region.radius_m), _LOG_STEP)
        # The first metre, then the trapezium rule in the logarithm of the step.
        steps_m = np.concatenate([[0.5 * _LEAST_STEP_M], np.exp(logs)])
        widths_m = np.concatenate([[_LEAST_STEP_M], np.exp(logs) * _LOG_STEP])
        noisy_m = centre_m + offset / length_m * (radius_m + steps_m)[:, None]
        kept = self._comes_back(noisy_m, published_m)
        if not kept.any():
            return alone
        return noisy_m[kept], np.log(widths_m * (1 + steps_m / radius_m))[kept]

    def _comes_back(self, noisy_m: FloatArray, published_m: FloatArray) -> BoolArray:
        """Whether a noisy place is moved to the published one; beyond the region, what holds at its border."""
        same: BoolArray = np.hypot(*(self.mechanism.remap(noisy_m) - published_m).T) < _SAME_M
        inside = (np.abs(noisy_m) <= np.array(self.region.half_extent_m)).all(axis=1)
        if inside.all() or not inside.any():
            return same
        last = int(np.flatnonzero(inside)[-1])
        beyond = np.arange(len(noisy_m)) > last
        followed: BoolArray = np.where(beyond, same[last], same)
        return followed


def _nearest_edge(intervals: Intervals, place_m: FloatArray) -> tuple[FloatArray, float]:
    """Centre and radius, in metres, of the disc whose edge is nearest."""
    unit_m = intervals.region.metres_per_unit
    centres_m, radii_m = intervals.centres * unit_m, intervals.radii * unit_m
    gaps = np.abs(np.hypot(*(centres_m - place_m).T) - radii_m)
    nearest = int(np.argmin(gaps))
    return centres_m[nearest], float(radii_m[nearest])
