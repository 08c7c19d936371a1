"""Table 2: the four populations, in numbers and on the map."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from nearveil.evaluation.cells.cell import Cell
from nearveil.evaluation.cells.fits import fitted
from nearveil.evaluation.dataset_statistics import DatasetStatistics, describe_dataset
from nearveil.evaluation.defences import Centres, Defence
from nearveil.evaluation.outcome import Column, Map, MapLayer, MapPanel, Outcome, Table, Value
from nearveil.evaluation.paper_numbers import paper_table2
from nearveil.evaluation.parts.scope import Results, Scope
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.public_intervals import build_public_intervals

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


def outcome(scope: Scope, results: Results) -> Outcome:
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
    return Outcome(NAME, TITLE, "Whom is all this measured on?", (table,), maps, remarks)


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
        defence = Defence(label=label, kind="dprs", epsilon=_EPSILON, centres_from=method, region="isotropic")
        mechanism = fitted(defence.build(dataset.region, seed), dataset)
        if isinstance(mechanism, DPRS):
            found[label] = mechanism.current_intervals
    return found


def _map(dataset: Dataset, intervals: dict[str, Intervals]) -> Map:
    people = MapLayer("people", "people", dataset.places)
    panels = [MapPanel(f"{len(dataset.places):,} people", (people,))]
    for label, own in intervals.items():
        places = own.region.from_square(np.asarray(own.centres))
        layer = MapLayer("intervals", "centres", places, np.asarray(own.radii_m))
        panels.append(MapPanel(f"intervals, {label}", (layer,)))
    words = (
        f"Three maps of {dataset.name}: where people are, the intervals that private k-means finds with half of "
        "epsilon = 1, and those that the private grid finds."
    )
    title = f"{dataset.name}: people, and intervals found with half of epsilon = 1"
    return Map(f"{NAME}-{dataset.name}", title, dataset.region, tuple(panels), 3, words)


def _on_the_map(dataset: Dataset, intervals: dict[str, Intervals], seed: int) -> str:
    """How near centres are to people; to be read beside centres that know nothing of them."""
    own = next(iter(intervals.values()))
    count = len(own.centres)
    public = build_public_intervals(region=own.region, centres=count, rng=seed)
    told = [
        f"{label} {_median_distance_m(dataset, one):,.0f} m"
        for label, one in {**intervals, "random points": public}.items()
    ]
    return (
        f"{dataset.name}, median distance from a person to the nearest of {count} centres: "
        f"{', '.join(told)} (one fit each)."
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
