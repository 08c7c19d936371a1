"""A made-up city, to show things on."""

from __future__ import annotations

import numpy as np

from nearveil.errors import UsageError
from nearveil.randomness import Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import FloatArray

_NEIGHBOURHOODS = 60
_SCATTERED_SHARE = 0.1


def synthetic_city(
    people: int, region: Region, rng: Randomness | np.random.Generator | int | None = None
) -> FloatArray:
    """Return made-up places: neighbourhoods of very different size, and some people scattered between them.

    Examples
    --------
    >>> from nearveil.region import named_region
    >>> synthetic_city(100, named_region("paris"), rng=1).shape
    (100, 2)
    """
    if people < 1:
        raise UsageError("a city needs at least one person")
    generator = as_randomness(rng).generator
    half_extent = np.array(region.half_extent_m)
    middles = generator.uniform(-0.75, 0.75, (_NEIGHBOURHOODS, 2)) * half_extent
    spread_m = half_extent.min() * generator.uniform(0.02, 0.12, _NEIGHBOURHOODS)
    # Few large neighbourhoods and many small ones, as in cities.
    weights = 1.0 / np.arange(1, _NEIGHBOURHOODS + 1)
    found = np.empty((0, 2))
    while len(found) < people:
        home = generator.choice(_NEIGHBOURHOODS, people, p=weights / weights.sum())
        places = middles[home] + generator.normal(size=(people, 2)) * spread_m[home, None]
        scattered = generator.random(people) < _SCATTERED_SHARE
        places[scattered] = generator.uniform(-1, 1, (int(scattered.sum()), 2)) * half_extent
        inside = places[(np.abs(places) <= half_extent).all(axis=1)]
        degrees = region.from_metres(inside)
        found = np.vstack([found, degrees[region.contains(degrees)]])
    return found[:people]
