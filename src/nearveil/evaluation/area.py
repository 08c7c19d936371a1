"""Which users are measured: the densest area of users who live all over the world, or a city grown from a sample."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from nearveil.errors import UsageError
from nearveil.region import Region, region_around
from nearveil.sphere import EARTH_RADIUS_M, unit_vectors
from nearveil.types import FloatArray, IntArray

RADIUS_M = 25_000.0
"""Users within this distance of the densest point are measured, unless all users live within twice that distance."""
_MARGIN = 0.25
# Cubes of this side cut the sphere; of the fullest ones, each is moved to the middle of the users around it.
_CUBE_M, _MOST_CUBES, _MOVES = 40_000.0, 12, 5
_MOST_LOOKED_AT = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """The users who are measured: ``rows`` of all ``users``, and a box around them.

    ``reach_m`` is how far from ``center`` (latitude and longitude) the farthest user lives.
    """

    region: Region = field(repr=False)
    rows: IntArray = field(repr=False)
    center: tuple[float, float] = field(repr=False)
    users: int
    reach_m: float

    @property
    def note(self) -> str:
        """Which part of the users was measured, in one sentence; nothing if it is all of them."""
        if len(self.rows) == self.users:
            return ""
        latitude, longitude = (f"{round(degrees, 1) + 0.0:.1f}" for degrees in self.center)
        return (
            f"The users spread over {float(f'{self.reach_m / 1000:.2g}'):,.0f} km, so these numbers are about the "
            f"densest area: {len(self.rows):,} of {self.users:,} users, within {RADIUS_M / 1000:g} km of {latitude}, "
            f"{longitude}."
        )


def densest_area(places: FloatArray, around: int | None = None) -> Area:
    """Return the area of all users if they live in one city, otherwise the densest, or that around the user of a row.

    Examples
    --------
    >>> towns = np.repeat([[52.5, 13.4], [-18.0, 179.999], [-18.0, -179.999]], [30, 20, 20], axis=0)
    >>> print(densest_area(towns).note)
    The users spread over 16,000 km, ... densest area: 40 of 70 users, within 25 km of -18.0, 180.0.
    """
    vectors = unit_vectors(places)
    # A sample is dense where all are.
    center = vectors[around] if around is not None else _densest(vectors[:: 1 + len(vectors) // _MOST_LOOKED_AT])
    away_m = 2 * EARTH_RADIUS_M * np.arcsin(np.minimum(np.linalg.norm(vectors - center, axis=1) / 2, 1.0))
    reach_m = float(away_m.max())
    rows = np.flatnonzero(away_m <= (RADIUS_M if reach_m > 2 * RADIUS_M else reach_m))
    region = region_around(places[rows], _MARGIN)
    if not region.contains(places[rows]).all():
        raise UsageError("these users live around a pole, where Nearveil has no map; leave them out")
    x, y, z = center
    middle = float(np.degrees(np.arctan2(z, np.hypot(x, y)))), float(np.degrees(np.arctan2(y, x)))
    return Area(region, rows, middle, len(places), reach_m)


def _densest(vectors: FloatArray) -> FloatArray:
    """Return the middle of the densest users, on the unit sphere, where neither poles nor antimeridian matter."""
    cubes = np.floor(vectors * (EARTH_RADIUS_M / _CUBE_M)).astype(np.int64)
    _, cube_of, counts = np.unique(cubes, axis=0, return_inverse=True, return_counts=True)
    tree, radius = cKDTree(vectors), RADIUS_M / EARTH_RADIUS_M
    found: list[tuple[int, FloatArray]] = []
    for cube in np.argsort(-counts, kind="stable")[:_MOST_CUBES]:
        center = vectors[cube_of.reshape(-1) == cube].mean(axis=0)
        for _ in range(_MOVES):
            near = tree.query_ball_point(center / np.linalg.norm(center), radius)
            center = vectors[near].mean(axis=0) if near else center
        center = center / np.linalg.norm(center)
        found.append((tree.query_ball_point(center, radius, return_length=True), center))
    return max(found, key=lambda one: one[0])[1]


MOST_GROWN = 200_000
"""The largest city that is made of a sample."""
# The noise around a user of the sample, as a share of the distance to this neighbor: chosen on two synthetic cities
# and Gowalla's check-ins, so that a seventh of the users gives what all of them give.
_NEIGHBOR, _SHARE = 5, 0.45


def grown_city(sample: FloatArray, users: int, region: Region, rng: np.random.Generator) -> FloatArray:
    """Return as many synthetic users, latitude and longitude, as dense as a city of which the sample is a part.

    Equally many are near each user of the sample, nearer where it is dense. Clusters that are smaller than the gaps
    between the sample's users are lost.
    """
    sample_m = region.to_metres(sample)
    neighbor = min(_NEIGHBOR, len(sample) - 1)
    away_m = cKDTree(sample_m).query(sample_m, k=[neighbor + 1])[0]
    rows = rng.permutation(users) % len(sample)
    drawn_m = sample_m[rows] + rng.normal(size=(users, 2)) * _SHARE * away_m[rows]
    return region.clip(region.from_metres(drawn_m))
