"""How many locations a population has, how dense they are, and how clumped.

The paper's Table 2 has a "dispersion index" that it does not define. It is almost certainly the Clark-Evans ratio,
which gives its values on the generated populations to 0.01.
"""

from __future__ import annotations

import math

import numpy as np
import pyproj
from scipy.spatial import cKDTree

from nearveil.errors import DataError
from nearveil.io.datasets import Dataset
from nearveil.region import Region


def describe_dataset(dataset: Dataset) -> dict[str, float]:
    """Return distinct places, the area of the region, density, and two numbers on the nearest other place.

    ``median_nearest_m`` is the median distance to it. ``clark_evans`` is the Clark-Evans ratio, their mean over ``0.5 /
    sqrt(density)``, which it would be for places spread at random: less means clumped. It is not corrected for edges.
    """
    region = dataset.region
    places = np.unique(region.check(dataset.places), axis=0)
    if len(places) < 2:
        raise DataError("statistics of a population need two different places at least")
    places_m = region.to_metres(places)
    nearest_m = cKDTree(places_m).query(places_m, k=2)[0][:, 1]
    area_km2 = ground_area_km2(region)
    density = len(places) / area_km2
    ratio = float(nearest_m.mean() / (500.0 / math.sqrt(density)))
    median_m = float(np.median(nearest_m))
    return {
        "places": len(places), "area_km2": area_km2, "density_per_km2": density, "median_nearest_m": median_m,
        "clark_evans": ratio,
    }  # fmt: skip


def ground_area_km2(region: Region) -> float:
    """Return the area of a region on the WGS84 ellipsoid.

    Examples
    --------
    >>> round(ground_area_km2(Region(37.5, -122.6, 37.9, -122.2)), 1)
    1566.1
    """
    # Edges along a parallel are no geodesics, so they are cut into many.
    east = region.west + np.linspace(0, region.width_deg, 2001)
    latitude = np.repeat([region.south, region.north], len(east))
    return float(pyproj.Geod(ellps="WGS84").polygon_area_perimeter(np.append(east, east[::-1]), latitude)[0] / 1e6)
