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
from nearveil.geodesy import wrap_longitude
from nearveil.io.datasets import Dataset
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

CELL_KM = 1.0
"""Side of the cells that places are counted in, as nearly as whole cells fill the region."""

# WGS84.
_SEMI_AXIS_KM = 6378.137
_ECCENTRICITY = math.sqrt(0.0066943799901413165)


@dataclass(frozen=True, slots=True)
class DatasetStatistics:
    """A population in numbers.

    Attributes
    ----------
    name : str
        What the population is called.
    places : int
        Distinct places.
    area_km2 : float
        Area of the region on the ground (WGS84).
    density_per_km2 : float
        Places over area.
    median_nearest_m : float
        Median distance from a place to the nearest other place.
    clark_evans : float
        Clark–Evans ratio: the mean distance to the nearest other place over ``0.5 / sqrt(density)``, which it would be
        for places spread at random. 1 means random, less means clumped. Not corrected for edges.
    occupied_share : float
        Share of the cells of 1 km² that hold a place.
    variance_to_mean : float
        Variance of the counts in the cells of 1 km² over their mean (index of dispersion, Fano factor). 1 means
        random, more means clumped. Not a number where the region is a single cell.
    gini : float
        Gini coefficient of the same counts: 0 if all cells hold the same, near 1 if few hold nearly everything.
    """

    name: str
    places: int
    area_km2: float
    density_per_km2: float
    median_nearest_m: float
    clark_evans: float
    occupied_share: float
    variance_to_mean: float
    gini: float


def describe_dataset(dataset: Dataset) -> DatasetStatistics:
    """Compute the statistics of a population.

    The cells are of the same area exactly: the region is cut at equal steps of longitude and of area from south to
    north, into as many cells of about 1 km by 1 km as fit.
    """
    region = dataset.region
    places = np.unique(region.check(dataset.places), axis=0)
    if len(places) < 2:
        raise DataError("statistics of a population need two different places at least")
    area_km2 = ground_area_km2(region)
    places_m = region.to_metres(places)
    nearest_m = cKDTree(places_m).query(places_m, k=2)[0][:, 1]
    counts = counts_in_cells(places, region)
    density = len(places) / area_km2
    return DatasetStatistics(
        name=dataset.name,
        places=len(places),
        area_km2=area_km2,
        density_per_km2=density,
        median_nearest_m=float(np.median(nearest_m)),
        clark_evans=float(nearest_m.mean() / (500.0 / math.sqrt(density))),
        occupied_share=float((counts > 0).mean()),
        variance_to_mean=float(counts.var(ddof=1) / counts.mean()) if len(counts) > 1 else math.nan,
        gini=_gini(counts),
    )


def ground_area_km2(region: Region) -> float:
    """Return the area of a region on the ellipsoid.

    Examples
    --------
    >>> round(ground_area_km2(Region(37.5, -122.6, 37.9, -122.2)), 1)
    1566.1
    """
    south, north = _area_coordinate_km2(np.array([region.south, region.north]))
    return float(math.radians(region.width_deg) * (north - south))


def counts_in_cells(places: FloatArray, region: Region) -> IntArray:
    """Count places in cells of about 1 km by 1 km that have the same area and fill the region."""
    half_width_m, half_height_m = region.half_extent_m
    columns, rows = (max(1, round(2 * half_m / 1000 / CELL_KM)) for half_m in (half_width_m, half_height_m))
    east = wrap_longitude(places[:, 1] - region.centre[1]) / region.width_deg + 0.5
    south, north = _area_coordinate_km2(np.array([region.south, region.north]))
    up = (_area_coordinate_km2(places[:, 0]) - south) / (north - south)
    column, row = (
        np.clip((share * number).astype(np.int64), 0, number - 1) for share, number in ((east, columns), (up, rows))
    )
    return np.bincount(row * columns + column, minlength=rows * columns)


def _area_coordinate_km2(latitude_deg: FloatArray) -> FloatArray:
    """Area from the equator to a latitude, per radian of longitude (Snyder, Map Projections, 1987, eq. 3-12)."""
    sine = np.sin(np.radians(latitude_deg))
    e = _ECCENTRICITY
    q = (1 - e**2) * (sine / (1 - (e * sine) ** 2) + np.arctanh(e * sine) / e)
    return _SEMI_AXIS_KM**2 / 2 * q


def _gini(counts: IntArray) -> float:
    ordered = np.sort(counts)
    ranks = np.arange(1, len(ordered) + 1)
    return float(2 * (ranks * ordered).sum() / (len(ordered) * ordered.sum()) - (len(ordered) + 1) / len(ordered))
