"""The attacker who combines all points that were published of somebody who stays put."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from nearveil.attacks._channels import DensityChannel, Likelihood
from nearveil.attacks.bayes import BACKGROUND, BayesAttacker, Prior, geometric_median
from nearveil.attacks.oracle import Spot
from nearveil.nearby.publishing.noise import PlaceGrid
from nearveil.nearby.publishing.protection import Policy, Protection
from nearveil.region import Region
from nearveil.types import FloatArray

# With more points than this, where people live in general tells an attacker nothing that the points do not.
_PRIOR_MATTERS_UP_TO = 50
_SMOOTHED_OVER_CELLS = 2.0


@dataclass(frozen=True, slots=True)
class _SnappedChannel:
    """Noise around the centre of the cell that somebody is in."""

    inner: DensityChannel
    grid: PlaceGrid
    prepares_fast: bool = True

    @property
    def region(self) -> Region:
        return self.inner.region

    def at(self, places_m: FloatArray) -> Likelihood:
        return self.inner.at(np.round(places_m / self.grid.side_m) * self.grid.side_m)


class CombiningAttacker:
    """Knows the policy, the noise and where people live in general; two ways to guess from all points of a person.

    Parameters
    ----------
    protection : Protection
        What the service does.
    population : ndarray of shape (n, 2)
        Where people live, in degrees; the person attacked need not be among them.
    tau_m : float
        Radius of the disc that counts as found.
    """

    def __init__(self, protection: Protection, population: FloatArray, tau_m: float) -> None:
        self._region = protection.region
        channel = DensityChannel(protection.noise)
        snapped = protection.policy is Policy.PLACE
        self._bayes = BayesAttacker(
            mechanism=_SnappedChannel(channel, protection.grid) if snapped else channel,
            prior=_density_prior(protection.region, population, protection.grid),
            tau_m=tau_m,
        )

    def likeliest(self, points_m: FloatArray) -> Spot:
        """The place from which all points together are likeliest: the density falls evenly with the distance."""
        return geometric_median(points_m, np.full(len(points_m), 1 / len(points_m)))

    def best_guess(self, points_m: FloatArray) -> Spot:
        """The disc that most likely holds the person."""
        if len(points_m) > _PRIOR_MATTERS_UP_TO:
            return self.likeliest(points_m)
        return self._bayes.estimate(self._region.publish(self._region.from_metres(points_m))).best_disc


def _density_prior(region: Region, population: FloatArray, grid: PlaceGrid) -> Prior:
    """How many people live in each cell of the grid, smoothed: what is known of people in general."""
    columns, rows = (math.ceil(half / grid.side_m) for half in region.half_extent_m)
    x, y = (np.arange(-count, count + 1) * grid.side_m for count in (columns, rows))
    edges = [np.append(centres, centres[-1] + grid.side_m) - grid.side_m / 2 for centres in (x, y)]
    people_m = region.to_metres(population)
    counts, _, _ = np.histogram2d(people_m[:, 0], people_m[:, 1], bins=edges)
    smooth = gaussian_filter(counts, _SMOOTHED_OVER_CELLS)
    inhabited = np.argwhere(smooth > 1e-6 * smooth.max())
    weights = smooth[tuple(inhabited.T)]
    half_extent = np.array(region.half_extent_m)
    places = np.clip(np.column_stack([x[inhabited[:, 0]], y[inhabited[:, 1]]]), -half_extent, half_extent)
    numbers = np.arange(len(places), dtype=np.int64)
    return Prior(region, places, (1 - BACKGROUND) * weights / weights.sum(), numbers, BACKGROUND)
