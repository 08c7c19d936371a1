"""How many locations a population has, how dense they are, and how clumped.

The paper's Table 2 has a "dispersion index" that it does not define. It is almost certainly the Clark-Evans ratio,
which gives its values on the generated populations to 0.01.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from nearveil.errors import DataError
from nearveil.io.datasets import Dataset
from nearveil.region import Region

# WGS84.
_SEMI_AXIS_KM, _ECCENTRICITY = 6378.137, math.sqrt(0.0066943799901413165)


@dataclass(frozen=True, slots=True)
class DatasetStatistics:
    """A population in numbers: its name, distinct places, the area of its region (WGS84), density, and two more.

    ``median_nearest_m`` is the median distance from a place to the nearest other one. ``clark_evans`` is the
    Clark-Evans ratio, their mean over ``0.5 / sqrt(density)``, which it would be for places spread at random: 1 means
    random, less means clumped. It is not corrected for edges.
    """

    name: str
    places: int
    area_km2: float
    density_per_km2: float
    median_nearest_m: float
    clark_evans: float


def describe_dataset(dataset: Dataset) -> DatasetStatistics:
    """Compute the statistics of a population."""
    region = dataset.region
    places = np.unique(region.check(dataset.places), axis=0)
    if len(places) < 2:
        raise DataError("statistics of a population need two different places at least")
    places_m = region.to_metres(places)
    nearest_m = cKDTree(places_m).query(places_m, k=2)[0][:, 1]
    area_km2 = ground_area_km2(region)
    density = len(places) / area_km2
    ratio = float(nearest_m.mean() / (500.0 / math.sqrt(density)))
    return DatasetStatistics(dataset.name, len(places), area_km2, density, float(np.median(nearest_m)), ratio)


def ground_area_km2(region: Region) -> float:
    """Return the area of a region on the ellipsoid (Snyder, Map Projections, 1987, eq. 3-12).

    Examples
    --------
    >>> round(ground_area_km2(Region(37.5, -122.6, 37.9, -122.2)), 1)
    1566.1
    """
    e, sine = _ECCENTRICITY, np.sin(np.radians([region.south, region.north]))
    south, north = (1 - e**2) * (sine / (1 - (e * sine) ** 2) + np.arctanh(e * sine) / e)
    return float(math.radians(region.width_deg) * _SEMI_AXIS_KM**2 / 2 * (north - south))
