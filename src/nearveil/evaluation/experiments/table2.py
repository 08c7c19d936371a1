"""How many places a population has, how dense they are, and how clumped: our own Table 2.

The paper's Table 2 has a "dispersion index" that it does not define. It is almost certainly the Clark-Evans ratio,
which gives its values on the generated populations to 0.01.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from nearveil.errors import DataError
from nearveil.evaluation.cells import fitted
from nearveil.evaluation.defences import Centres, Defence
from nearveil.evaluation.experiments.scope import Results, Scope
from nearveil.evaluation.paper_numbers import paper_table2
from nearveil.evaluation.results import Column, ExperimentResult, Map, MapLayer, MapPanel, Table, Value
from nearveil.evaluation.runner import Cell
from nearveil.geodesy import wrap_longitude
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.fitting import build_public_intervals
from nearveil.mechanisms.intervals import Intervals
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


# Table 2: the four populations, in numbers and on the map.


NAME = "table2"
TITLE = "Table 2: the populations"

_EPSILON = 1.0
_COLUMNS = (
    Column("dataset"), Column("source"),
    Column("places", "ours", ","), Column("places, paper", "paper", ","),
    Column("per km²", "ours", ".2f"), Column("per km², paper", "paper", ".2f"),
    Column("Clark-Evans ratio", "ours", ".2f"), Column("'dispersion index', paper", "paper", ".2f"),
    Column("nearest other (m), median", "how clumped", ".0f"),
    Column("occupied 1 km² cells", "how clumped", ".1%"), Column("variance to mean", "how clumped", ".1f"),
    Column("Gini", "how clumped", ".2f"),
)  # fmt: skip


def cells(scope: Scope) -> list[Cell]:
    """Nothing to repeat: the statistics are exact."""
    del scope
    return []


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Describe the populations, and draw them with the centres that are found in them."""
    del results
    found = {name: describe_dataset(dataset) for name, dataset in scope.datasets.items()}
    table = Table(
        NAME,
        "The populations in the San Francisco region. Clark-Evans ratio: mean distance to the nearest other place over "
        "that of places spread at random, which is almost certainly the paper's dispersion index; "
        "variance to mean and Gini: of the counts in cells of 1 km².",
        _COLUMNS,
        tuple(_row(scope.datasets[name], statistics) for name, statistics in found.items()),
        "Distinct places; the region's true area. Nothing random but the generated populations, which are fixed.",
    )
    intervals = {name: _intervals(dataset, scope.seed) for name, dataset in scope.datasets.items()}
    maps = tuple(_map(scope.datasets[name], own) for name, own in intervals.items())
    remarks = (
        *_remarks(scope, found),
        *(_on_the_map(scope.datasets[name], own, scope.seed) for name, own in intervals.items()),
    )
    return ExperimentResult(NAME, TITLE, "Whom is all this measured on?", (table,), maps, remarks)


def _row(dataset: Dataset, ours: DatasetStatistics) -> tuple[Value, ...]:
    paper = paper_table2().get(dataset.name)
    return (
        dataset.name, dataset.source, ours.places, paper and paper.locations, ours.density_per_km2,
        paper and paper.density_per_km2, ours.clark_evans, paper and paper.dispersion_index,
        ours.median_nearest_m, ours.occupied_share, ours.variance_to_mean, ours.gini,
    )  # fmt: skip


def _intervals(dataset: Dataset, seed: int) -> dict[str, Intervals]:
    """What both methods find with the same budget, by name."""
    methods: dict[str, Centres] = {"private k-means": "pic", "private grid": "private-grid"}
    found = {}
    for label, method in methods.items():
        defence = Defence(label=label, mechanism="dprs", epsilon=_EPSILON, centres_from=method, region="isotropic")
        learned = fitted(defence.build(dataset.region, seed), dataset).learned
        if isinstance(learned, Intervals):
            found[label] = learned
    return found


def _map(dataset: Dataset, intervals: dict[str, Intervals]) -> Map:
    people = MapLayer("people", "people", dataset.places)
    panels = [MapPanel(f"{len(dataset.places):,} people", (people,))]
    for label, own in intervals.items():
        places = own.region.from_square(np.asarray(own.centres))
        layer = MapLayer("intervals", "centres", places, np.asarray(own.radii_m))
        panels.append(MapPanel(f"intervals, {label}", (layer,)))
    description = (
        f"Three maps of {dataset.name}: where people are, the intervals that private k-means finds with half of "
        "epsilon = 1, and those that the private grid finds."
    )
    title = f"{dataset.name}: people, and intervals found with half of epsilon = 1"
    return Map(f"{NAME}-{dataset.name}", title, dataset.region, tuple(panels), 3, description)


def _on_the_map(dataset: Dataset, intervals: dict[str, Intervals], seed: int) -> str:
    """How near centres are to people; to be read beside centres that know nothing of them."""
    own = next(iter(intervals.values()))
    count = len(own.centres)
    public = build_public_intervals(region=own.region, centres=count, rng=seed)
    distances = [
        f"{label} {_median_distance_m(dataset, one):,.0f} m"
        for label, one in {**intervals, "random points": public}.items()
    ]
    return (
        f"{dataset.name}, median distance from a person to the nearest of {count} centres: "
        f"{', '.join(distances)} (one fit each)."
    )


def _median_distance_m(dataset: Dataset, intervals: Intervals) -> float:
    region = intervals.region
    centres_m = region.to_metres(region.clip(region.from_square(np.asarray(intervals.centres))))
    return float(np.median(cKDTree(centres_m).query(region.to_metres(dataset.places))[0]))


def _remarks(scope: Scope, found: dict[str, DatasetStatistics]) -> tuple[str, ...]:
    remarks, indices = [], []
    for name, ours in found.items():
        paper = paper_table2().get(name)
        if paper is not None:
            indices.append(f"{name} {ours.clark_evans:.2f} (paper {paper.dispersion_index:.2f})")
        if paper is not None and paper.locations != ours.places:
            remarks.append(
                f"{name}: {ours.places:,} places ({scope.datasets[name].source}) where the paper has "
                f"{paper.locations:,}; it does not say how it counts them."
            )
    if indices:
        remarks.append(
            "The paper does not define its dispersion index. It is almost certainly the Clark-Evans ratio: "
            f"{', '.join(indices)}. Where places are missing, the nearest is farther away, and the ratio differs."
        )
    return tuple(remarks)
