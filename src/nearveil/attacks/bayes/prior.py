"""Where people are, as far as an attacker knows before seeing anything of the target."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from nearveil.errors import UsageError
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

BACKGROUND = 0.05
PUBLISHED_BACKGROUND = 0.2

_COPIES = 3
_PUBLISHED_SPREAD = 0.5
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
_RING_STEP = 0.25
_RING_PLACES = 18
_INNERMOST_M = 2.0
_GRID_PLACES = 1600


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Places the target may be at, each standing for an area (0 for a place that is just that place)."""

    places_m: FloatArray
    log_weights: FloatArray
    areas_m2: FloatArray

    def __len__(self) -> int:
        return len(self.log_weights)


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Places with weights, and a thin background over the whole region so that nothing is impossible.

    Attributes
    ----------
    region : Region
        Where everybody is.
    places_m, weights : ndarray
        Places in metres, shape (n, 2), and how likely each is; the weights sum to 1 - background.
    people : ndarray
        For each place, the row of the person it was made from, so that a person can be left out.
    background : float
        Probability of being just anywhere in the region.
    """

    region: Region
    places_m: FloatArray
    weights: FloatArray
    people: IntArray
    background: float

    def __post_init__(self) -> None:
        if not 0 < self.background <= 1:
            raise UsageError("the background of a prior must lie between 0 and 1, and not be 0")
        if not len(self.places_m) == len(self.weights) == len(self.people):
            raise UsageError("a prior needs one weight and one person for each place")

    def known_places(self) -> Candidates:
        """The places of the prior, without the background."""
        with np.errstate(divide="ignore"):
            return Candidates(self.places_m, np.log(self.weights), np.zeros(len(self.weights)))

    def background_around(self, middle_m: FloatArray) -> Candidates:
        """The background as rings of places around one, dense near it: right at every scale with few places."""
        reach_m = 2 * self.region.radius_m
        rings = np.arange(math.ceil(math.log(reach_m / _INNERMOST_M) / _RING_STEP))
        radii = _INNERMOST_M * np.exp(_RING_STEP * rings)
        # Every other ring is turned by half a step, so that the places lie like bricks.
        angles = (np.arange(_RING_PLACES) + 0.5 * (rings[:, None] % 2)) * (2 * math.pi / _RING_PLACES)
        offsets = radii[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        inner = math.pi * _INNERMOST_M**2 * math.exp(-_RING_STEP)
        ring_areas = math.pi * radii**2 * 2 * math.sinh(_RING_STEP)
        places = np.vstack([middle_m[None], middle_m + offsets.reshape(-1, 2)])
        areas = np.concatenate([[inner], np.repeat(ring_areas / _RING_PLACES, _RING_PLACES)])
        inside = (np.abs(places) <= np.array(self.region.half_extent_m)).all(axis=1)
        return self._spread_evenly(places[inside], areas[inside])

    def background_grid(self) -> Candidates:
        """The background as one grid over the region."""
        width, height = (2 * half for half in self.region.half_extent_m)
        columns = max(1, round(math.sqrt(_GRID_PLACES * width / height)))
        rows = max(1, round(_GRID_PLACES / columns))
        x = ((np.arange(columns) + 0.5) / columns - 0.5) * width
        y = ((np.arange(rows) + 0.5) / rows - 0.5) * height
        places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        return self._spread_evenly(places, np.full(len(places), width * height / len(places)))

    def _spread_evenly(self, places_m: FloatArray, areas_m2: FloatArray) -> Candidates:
        half_width, half_height = self.region.half_extent_m
        return Candidates(places_m, np.log(self.background * areas_m2 / (4 * half_width * half_height)), areas_m2)


def prior_from_points(
    points: object, region: Region, *, spread_m: float | None = None, background: float = BACKGROUND
) -> Prior:
    """Return the prior of an attacker who has a sample of where people are: a prior file.

    Two readings of such a file differ in strength. With ``spread_m`` = 0 it is a list of addresses: people are exactly
    there, and if the file holds the target's place, that place is a candidate. This is the strongest attacker, as long
    as the target is in the file; leave it out and it is overconfident. By default the file stands for the population:
    every point is spread as far as its neighbours are, and the target may live between them.

    Parameters
    ----------
    points : array-like of shape (n, 2)
        Latitude, longitude: one row per person or check-in.
    region : Region
        Where everybody is.
    spread_m : float, optional
        Standard deviation of a Gaussian that every point is spread by, as a few places around it; by default the
        distance to its second nearest other point.
    background : float
        Share that goes evenly over the whole region.
    """
    if spread_m is not None and not 0 <= spread_m < math.inf:
        raise UsageError("the spread of a prior must be a distance in metres, 0 or more")
    places_m = region.to_metres(region.check(points))
    people = np.arange(len(places_m), dtype=np.int64)
    if not len(places_m):
        return flat_prior(region)
    if spread_m != 0.0:
        spreads_m = _neighbour_distances(places_m) if spread_m is None else np.full(len(places_m), spread_m)
        half_extent = np.array(region.half_extent_m)
        spread_out = places_m[:, None] + spreads_m[:, None, None] * _unit_offsets(people)
        places_m = np.clip(spread_out, -half_extent, half_extent).reshape(-1, 2)
        people = np.repeat(people, _COPIES)
    return Prior(region, places_m, np.full(len(places_m), (1 - background) / len(places_m)), people, background)


def prior_from_published(
    published: object, region: Region, *, mean_displacement_m: float, background: float = PUBLISHED_BACKGROUND
) -> Prior:
    """Return the prior of an attacker who knows nothing but the published places: these, smoothed.

    Weaker than a file of true places, and never an oracle of them: the noise is in it, and is not taken out again.
    Where noise is confined to discs, published places show little but the discs; there `flat_prior` does better.
    Estimate with ``leave_out``, so that the target's own published place does not count twice.
    """
    return prior_from_points(published, region, spread_m=_PUBLISHED_SPREAD * mean_displacement_m, background=background)


def flat_prior(region: Region) -> Prior:
    """Return the prior of an attacker who knows nothing of the population: everywhere in the region alike."""
    return Prior(region, np.empty((0, 2)), np.empty(0), np.empty(0, dtype=np.int64), 1.0)


def _neighbour_distances(places_m: FloatArray) -> FloatArray:
    """Distance from each place to its second nearest other one."""
    distances, _ = cKDTree(places_m).query(places_m, k=min(3, len(places_m)))
    return np.asarray(distances).reshape(len(places_m), -1)[:, -1]


def _unit_offsets(people: IntArray) -> FloatArray:
    """Offsets that stand for a Gaussian: radii at its quantiles, angles turned from one to the next and by person."""
    steps = np.arange(_COPIES)
    radii = np.sqrt(-2 * np.log1p(-(steps + 0.5) / _COPIES))
    angles = _GOLDEN_ANGLE * (steps + _COPIES * people[:, None])
    return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
