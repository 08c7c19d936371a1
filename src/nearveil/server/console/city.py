"""A made-up city in a service's region, protected the way the service protects: for demonstrations and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.exponential import standard_exponential
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.nearby.publishing.noise import grid_for
from nearveil.region import Region
from nearveil.report.maps import land_in
from nearveil.types import BoolArray, FloatArray

PEOPLE = 25_000
SEED = 2026

# Of three people made up at random, at least one is on land wherever the coast is known.
_SPARE = 3


def made_up_people(region: Region, people: int = PEOPLE, seed: int = SEED) -> FloatArray:
    """Return places in degrees, the same ones every time; on land, where the coast is known.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> made_up_people(named_region("paris"), 100).shape
    (100, 2)
    """
    rings = land_in(region)
    if not rings:
        return synthetic_city(people, region, rng=seed)
    generator = np.random.default_rng(seed)
    found = np.empty((0, 2))
    while len(found) < people:
        more = synthetic_city(_SPARE * people, region, rng=seed if not len(found) else generator)
        found = np.vstack([found, more[on_land(more, rings)]])
    return found[:people]


def on_land(places: FloatArray, rings: Sequence[FloatArray]) -> BoolArray:
    """Whether each place lies within one of the outlines, by how often a line to the east crosses it.

    Examples
    --------
    >>> square = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [0, 0]], dtype=float)
    >>> on_land(np.array([[0.5, 0.5], [0.5, 1.5]]), [square]).tolist()
    [True, False]
    """
    inside = np.zeros(len(places), dtype=np.bool_)
    latitude, longitude = places.T
    for ring in rings:
        for (south, west), (north, east) in pairwise(ring):
            if south != north:
                level = (latitude >= min(south, north)) & (latitude < max(south, north))
                inside ^= level & (longitude < west + (latitude - south) * (east - west) / (north - south))
    return inside


def snapped(places_m: FloatArray, hide_within_m: float) -> FloatArray:
    """Return the centres of the public grid's cells in which places lie."""
    grid = grid_for(hide_within_m)
    columns_rows = np.floor(places_m / grid.side_m + 0.5)
    centres: FloatArray = columns_rows * grid.side_m
    return centres


def published_m(places_m: FloatArray, noise: PlanarLaplace, rng: np.random.Generator) -> FloatArray:
    """Publish first reports as the policy ``place`` does: the cell's centre, planar Laplace noise, the region's box."""
    drawn = noise.displaced(snapped(places_m, noise.hide_within_m), standard_exponential(rng, len(places_m), 3))
    half_extent = np.array(noise.resolved_region.half_extent_m)
    return np.clip(drawn, -half_extent, half_extent)
