"""A made-up city, to show things on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from nearveil.errors import UsageError
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray

PEOPLE = 25_000
SEED = 2026
"""How many people the city has that commands and the console show things on, and its seed."""

_NEIGHBORHOODS = 60
_SCATTERED_SHARE = 0.1
# Of three people made up at random, at least one is on land in most cities by the sea.
_SPARE = 3
_LEAST_LAND = 0.02


def synthetic_city(
    people: int,
    region: Region,
    rng: Randomness | np.random.Generator | int | None = None,
    *,
    land: Sequence[FloatArray] = (),
) -> FloatArray:
    """Return made-up places: neighborhoods of very different size, and some people scattered between them.

    With outlines of the land, closed and in degrees, only places on land.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> synthetic_city(100, named_region("paris"), rng=1).shape
    (100, 2)
    """
    if people < 1:
        raise UsageError("a city needs at least one person")
    # Nobody is to be protected, so NumPy's own generator will do.
    generator = np.random.default_rng() if rng is None else as_randomness(rng).generator
    if land:
        found, tried = np.empty((0, 2)), 0
        # Where there are only small islands, people are made up at sea as well.
        while len(found) < people and len(found) >= _LEAST_LAND * tried:
            more = synthetic_city(_SPARE * people, region, rng=generator)
            found, tried = np.vstack([found, more[on_land(more, land)]]), tried + len(more)
        if len(found) >= people:
            return found[:people]
    half_extent = np.array(region.half_extent_m)
    middles = generator.uniform(-0.75, 0.75, (_NEIGHBORHOODS, 2)) * half_extent
    spread_m = half_extent.min() * generator.uniform(0.02, 0.12, _NEIGHBORHOODS)
    # Few large neighborhoods and many small ones, as in cities.
    weights = 1.0 / np.arange(1, _NEIGHBORHOODS + 1)
    found = np.empty((0, 2))
    while len(found) < people:
        home = generator.choice(_NEIGHBORHOODS, people, p=weights / weights.sum())
        places = middles[home] + generator.normal(size=(people, 2)) * spread_m[home, None]
        scattered = generator.random(people) < _SCATTERED_SHARE
        places[scattered] = generator.uniform(-1, 1, (int(scattered.sum()), 2)) * half_extent
        inside = places[(np.abs(places) <= half_extent).all(axis=1)]
        degrees = region.from_metres(inside)
        found = np.vstack([found, degrees[region.contains(degrees)]])
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
    latitude = places[:, 0]
    for ring in rings:
        # Outlines beyond the antimeridian go on, to more than 180 degrees or less than -180.
        longitude = ring[0, 1] + (places[:, 1] - ring[0, 1] + 180) % 360 - 180
        for (south, west), (north, east) in pairwise(ring):
            if south != north:
                level = (latitude >= min(south, north)) & (latitude < max(south, north))
                inside ^= level & (longitude < west + (latitude - south) * (east - west) / (north - south))
    return inside
