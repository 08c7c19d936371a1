"""How many places a population has, how dense they are, and how clumped: our own Table 2.

The paper's Table 2 has a "dispersion index" that it does not define. It is almost certainly the Clark-Evans ratio,
which gives its values on the generated populations to 0.01.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from nearveil.errors import DataError
from nearveil.evaluation import paper_numbers
from nearveil.evaluation.study import Part, Scope
from nearveil.geodesy import wrap_longitude
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.fitting import FitMethod, build_public_intervals
from nearveil.mechanisms.intervals import PAPER_CENTRES, Intervals
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


# Table 2: the populations, and the intervals that are found in them.


def intervals_of(dataset: Dataset, method: FitMethod, seed: int) -> Intervals:
    """Return the intervals that DPRS finds with half of epsilon = 1, in a region whose axes are scaled alike."""
    region = dataset.region.with_scaling("isotropic")
    dprs = DPRS(release="paper", epsilon=1.0, fit_method=method, centres=PAPER_CENTRES, region=region, seed=seed).fit(
        dataset.places
    )
    return dprs.intervals_


def _grid(scope: Scope) -> list[dict[str, Any]]:
    # Nothing is random but the intervals.
    return [{"dataset": name, "seed": scope.seed} for name in scope.datasets]


def measure(dataset: Dataset, *, seed: int) -> dict[str, Any]:
    """Describe a population, and how near the centers of intervals are to its users."""
    found = asdict(describe_dataset(dataset))
    del found["name"]
    own = {
        "private k-means": intervals_of(dataset, "pic", seed),
        "private grid": intervals_of(dataset, "private-grid", seed),
    }
    region = dataset.region.with_scaling("isotropic")
    own["random points"] = build_public_intervals(region=region, centres=PAPER_CENTRES, rng=seed)
    return {"source": dataset.source, **found} | {
        f"median_to_center_m, {name}": _median_distance_m(dataset, one) for name, one in own.items()
    }


def _median_distance_m(dataset: Dataset, intervals: Intervals) -> float:
    region = intervals.region
    centers_m = region.to_metres(region.clip(region.from_square(np.asarray(intervals.centres))))
    return float(np.median(cKDTree(centers_m).query(region.to_metres(dataset.places))[0]))


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    paper = paper_numbers.table2().reindex(runs.dataset).reset_index(drop=True)
    found = pd.DataFrame(
        {
            "data set": runs.dataset,
            "locations": runs.places,
            "locations, paper": paper.locations,
            "per km²": runs.density_per_km2,
            "per km², paper": paper.density_per_km2,
            "Clark-Evans ratio": runs.clark_evans,
            "dispersion index, paper": paper.dispersion_index_percent,
            "nearest other (m), median": runs.median_nearest_m,
            "1 km² cells in use": runs.occupied_share,
            "variance to mean": runs.variance_to_mean,
            "Gini": runs.gini,
        }
    )
    names = [name for name in runs.columns if name.startswith("median_to_center_m")]
    centers = runs[["dataset", *names]].rename(columns=lambda name: name.rpartition(", ")[2])
    return {
        "table2": found.astype(object).where(found.notna(), None),
        "table2-centers": centers.rename(columns={"dataset": "data set"}),
    }


PART = Part("table2", "Table 2: the data sets", _grid, measure, _tables)
