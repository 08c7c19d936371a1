"""Cells: a partition with a graph, found and read back as it was; made from public, published and true places."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from nearveil.errors import DataError, UsageError
from nearveil.io.density import Density
from nearveil.mechanisms.cell_steps import STEP, graph_of, reach_of, steps_from
from nearveil.mechanisms.cells import Cells, cells_from_json, load_cells
from nearveil.mechanisms.fit_cells import (
    CellPlan,
    build_private_cells,
    cells_from_density,
    cells_from_points,
    cells_from_published,
)
from nearveil.mechanisms.fit_pic import fixed_point_laplace
from nearveil.mechanisms.planar_laplace import PlanarLaplace
from nearveil.mechanisms.step_channel import calibrated, channel_for_people
from nearveil.privacy.guarantee import Counted
from nearveil.region import Region
from nearveil.types import FloatArray


@pytest.fixture(scope="module")
def cells(city: FloatArray, san_francisco: Region) -> Cells:
    return cells_from_points(city, san_francisco, CellPlan(hide_among=200))


def test_every_place_is_in_one_cell_and_is_found(cells: Cells, rng: np.random.Generator) -> None:
    half = np.array(cells.region.half_extent_square)
    places = rng.uniform(-half, half, (2000, 2))
    west, south, east, north = cells.boxes().T
    inside = (places[:, :1] >= west) & (places[:, :1] < east) & (places[:, 1:] >= south) & (places[:, 1:] < north)
    assert (inside.sum(axis=1) == 1).all()
    assert (inside.argmax(axis=1) == cells.find(places)).all()
    assert math.isclose(cells.areas.sum(), 4 * half.prod(), rel_tol=1e-12)


def test_a_cell_holds_at_most_what_it_may_or_cannot_be_smaller(cells: Cells, city: FloatArray) -> None:
    held = np.bincount(cells.find(cells.region.to_square(city)), minlength=len(cells))
    assert (held == cells.people).all()
    assert (held[cells.depths < cells.layout.levels] <= cells.people_per_cell).all()
    # What was halved held too many: four quarters of one box do.
    same = np.lib.stride_tricks.sliding_window_view(cells.depths, 4)
    aligned = cells._starts[:-3] % (4 * cells._sizes[:-3]) == 0
    quarters = np.flatnonzero((same == same[:, :1]).all(axis=1) & aligned & (same[:, 0] > 0))
    assert len(quarters) > 20
    assert all(held[first : first + 4].sum() > cells.people_per_cell for first in quarters)


@pytest.mark.parametrize(("least_m", "largest_m"), [(50, 4000), (300, 5000), (100, 100_000)])
def test_sides_keep_to_what_is_asked_for(
    city: FloatArray, san_francisco: Region, least_m: float, largest_m: float
) -> None:
    cells = cells_from_points(
        city, san_francisco, CellPlan(hide_among=20, least_cell_m=least_m, largest_cell_m=largest_m)
    )
    sides_m = np.outer(cells.sides, cells.layout.box_m)
    assert sides_m.min() >= least_m
    assert sides_m.max() <= largest_m


def test_neighbors_are_the_cells_that_touch(cells: Cells) -> None:
    low, high = cells.corners, cells.corners + cells.sides[:, None]
    touches = ((low[:, None] <= high[None]) & (low[None] <= high[:, None])).all(axis=2)
    touches &= ~np.eye(len(cells), dtype=bool)
    graph = graph_of(cells)
    found = np.zeros_like(touches)
    found[np.repeat(np.arange(len(cells)), np.diff(graph.starts)), graph.neighbors] = True
    assert (found == touches).all()
    equal = cells.sides[:, None] == cells.sides[None]
    first, second, length = graph.edges
    beside = equal[first, second] & ((low[first] == low[second]).any(axis=1))
    assert (length[beside] == STEP).all()
    assert length.min() >= STEP
    assert length.max() <= math.ceil(math.sqrt(2) * STEP)


def test_steps_are_those_of_the_shortest_way(cells: Cells) -> None:
    graph = graph_of(cells)
    matrix = csr_array((graph.lengths.astype(float), graph.neighbors, graph.starts), shape=(len(cells),) * 2)
    everywhere = dijkstra(matrix)
    reach = reach_of(cells, 5 * STEP)
    for cell in range(0, len(cells), 7):
        found, steps = reach.of(cell)
        assert set(found) == set(np.flatnonzero(everywhere[cell] < 5 * STEP))
        assert (steps == everywhere[cell, found]).all()
        assert (np.diff(steps) >= 0).all()
    assert (steps_from(cells, 3) * STEP == everywhere[3]).all()


@pytest.mark.parametrize("name", ["cells.geojson", "CELLS.JSON"])
def test_a_file_of_cells_is_a_map_and_is_read_back_as_it_was(cells: Cells, tmp_path: Path, name: str) -> None:
    """Numbers of people with more digits than a file has are rounded when cells are made, not when they are written.

    The calibration is kept, and is no part of what makes the cells: a store knows them with and without it.
    """
    third = replace(cells, people=cells.people / 3)
    for one, calibration in ((third, None), (calibrated(cells), channel_for_people(cells, 200).calibration)):
        one.save(tmp_path / name, force=True)
        again = load_cells(tmp_path / name)
        assert again.to_document() == one.to_document()
        assert (again.people == one.people).all()
        assert again.layout == cells.layout
        assert again.calibration == calibration
    assert again.to_document() == cells.to_document()
    document = json.loads(cells.to_json())
    assert document["type"] == "FeatureCollection"
    ring = np.array(document["features"][5]["geometry"]["coordinates"][0])
    assert (ring[0] == ring[-1]).all()
    middle = cells.region.from_square(cells.centres[5:6])[0, ::-1]
    assert ((ring.min(axis=0) < middle) & (middle < ring.max(axis=0))).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"depths": [0, 1]}, "do not cover the region"),
        ({"people": [1.0]}, "one number of people"),
        ({"version": 9}, "not a file of cells"),
        ({"source": "nowhere"}, "not a file of cells"),
        ({"fit_epsilon": 1.0}, "cost something"),
        ({"levels": 10**11}, "damaged"),
        ({"calibration": {"rate": 1.0, "farthest": 9, "weights": [1024]}}, "one weight for each cell"),
        ({"calibration": {"rate": 1.0, "farthest": 9, "weights": [1024.5]}}, "whole numbers"),
    ],
)
def test_a_damaged_file_is_refused(cells: Cells, change: dict[str, object], says: str) -> None:
    document = {**cells.to_document(), **change}
    if change.get("depths"):
        document["people"] = [1.0, 1.0]
    with pytest.raises(DataError, match=says):
        cells_from_json(json.dumps(document))


def test_what_cannot_be_asked_for(city: FloatArray, san_francisco: Region) -> None:
    with pytest.raises(UsageError, match="from 2 to"):
        CellPlan(hide_among=1)
    with pytest.raises(UsageError, match="must not be greater"):
        cells_from_points(city, san_francisco, CellPlan(least_cell_m=500, largest_cell_m=400))
    with pytest.raises(UsageError, match="allow larger cells"):
        CellPlan(least_cell_m=1, largest_cell_m=10).layout(san_francisco)
    with pytest.raises(UsageError, match="hide among fewer people"):
        cells_from_points(city, san_francisco, CellPlan(hide_among=10**6, largest_cell_m=1e6))


# Public data.


def test_counts_of_boxes_are_spread_over_them(san_francisco: Region) -> None:
    """A grid of boxes over the whole region gives each cell the share of its area; what lies outside does not count."""
    rows, columns = 40, 40
    latitude = san_francisco.south + (np.arange(rows) + 0.5) / rows * san_francisco.height_deg
    longitude = san_francisco.west + (np.arange(columns) + 0.5) / columns * san_francisco.width_deg
    points = np.stack(np.meshgrid(latitude, longitude), axis=-1).reshape(-1, 2)
    height, width = (np.full(len(points), extent) for extent in (0.4 / rows, 0.4 / columns))
    points[0] -= (0.4 / rows, 0.0)  # wholly outside
    density = Density(points, np.full(len(points), 10.0), height, width)
    cells = cells_from_density(density, san_francisco, CellPlan(hide_among=3000))
    assert math.isclose(cells.people.sum(), 10.0 * (len(points) - 1), rel_tol=1e-6)
    inner = (
        cells.people[(np.abs(cells.centres) < 0.7).all(axis=1)] / cells.areas[(np.abs(cells.centres) < 0.7).all(axis=1)]
    )
    assert inner.std() / inner.mean() < 0.02


def test_counts_can_be_scaled_to_a_public_number(city: FloatArray, san_francisco: Region) -> None:
    scaled = cells_from_density(Density.of_points(city[::2]), san_francisco, population=len(city))
    assert math.isclose(scaled.people.sum(), len(city), rel_tol=1e-9)


# Places published before.


def test_the_noise_is_taken_out_of_published_places(city: FloatArray, san_francisco: Region) -> None:
    """Densities by cells come nearer to the truth than those of the noisy places themselves."""
    rng = np.random.default_rng(1)
    towns = city[rng.integers(0, 40, len(city))] + rng.normal(0, 0.002, city.shape)
    city = san_francisco.clip(towns)
    published = PlanarLaplace(noise_m=800, region=san_francisco, seed=1).perturb(city)
    plan = CellPlan(hide_among=300)
    true, noisy = (cells_from_points(places, san_francisco, plan) for places in (city, published))
    cleaned = cells_from_published(published, san_francisco, 800, plan)

    def counted_by(cells: Cells) -> FloatArray:
        density = cells.people / cells.areas
        return density[cells.find(true.centres)] * true.areas

    errors = [np.abs(counted_by(cells) - true.people).sum() for cells in (cleaned, noisy)]
    assert errors[0] < 0.9 * errors[1]
    assert cleaned.is_free
    assert math.isclose(cleaned.people.sum(), len(city), rel_tol=1e-6)


# The private quadtree.


def test_with_little_noise_crowded_boxes_are_halved(city: FloatArray, san_francisco: Region) -> None:
    """At epsilon 50 noise and bias are less than one person, and 1 in 8 of the other boxes is halved as well."""
    plan = CellPlan(hide_among=105)
    private = build_private_cells(city, san_francisco, epsilon=50.0, plan=plan, rng=1)
    held = np.bincount(private.find(san_francisco.to_square(city)), minlength=len(private))
    assert held[private.depths < private.layout.levels].max() <= 11
    exact = cells_from_points(city, san_francisco, plan)
    assert 1.3 < len(private) / len(exact) < 2.3


def test_noise_makes_other_trees_and_a_seed_the_same(city: FloatArray, san_francisco: Region) -> None:
    first, again, other = (build_private_cells(city, san_francisco, rng=seed) for seed in (1, 1, 2))
    assert first.to_json() == again.to_json() != other.to_json()
    assert first.seeded
    assert not build_private_cells(city, san_francisco).seeded
    assert 0.3 < len(first) / len(cells_from_points(city, san_francisco)) < 2


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (0.7, False), (1.3, False)])
def test_the_noise_has_the_scale_that_the_theorem_asks_for(
    san_francisco: Region, monkeypatch: pytest.MonkeyPatch, factor: float, holds: bool
) -> None:
    """Empty boxes are halved with probability 1/8: the noise exceeds the bias ln 4 times its scale.

    Of 20,000 largest boxes; a two-sided test with a false-alarm rate of 1e-6. Kolmogorov-Smirnov tests with the same
    rate for the noise itself: 7/3 over nine tenths of epsilon in the tree, and a tenth for the numbers of people.
    """
    from scipy.stats import binomtest, kstest, laplace

    import nearveil.mechanisms.fit_cells as subject

    right = fixed_point_laplace
    monkeypatch.setattr(subject, "fixed_point_laplace", lambda exact, scale, rng: right(exact, factor * scale, rng))
    two = np.array([[37.51, -122.59], [37.89, -122.21]])
    plan = CellPlan(hide_among=1000, least_cell_m=140, largest_cell_m=300)
    noisy: list[FloatArray] = []
    cells = build_private_cells(
        two, san_francisco, epsilon=1.0, plan=plan, rng=5, watch=lambda _, counts: noisy.append(counts)
    )
    boxes = cells.layout.columns * cells.layout.rows
    assert boxes > 15_000
    halved = int((cells.depths == 1).sum()) // 4
    assert (binomtest(halved, boxes, 1 / 8).pvalue > 1e-6) == holds
    scale = 7 / 3 / 0.9
    assert (kstest(noisy[0], laplace(100 - 2 * math.log(4) * scale, scale).cdf).pvalue > 1e-6) == holds
    assert (kstest(noisy[-1], laplace(scale=10).cdf).pvalue > 1e-6) == holds


def test_noise_makes_up_no_people_to_hide_among(city: FloatArray) -> None:
    """Thousands of empty boxes: their noise is not counted, so that few people are not taken for many."""
    wide = Region(37.0, -123.2, 38.8, -120.9)
    cells = build_private_cells(city[:300], wide, rng=1)
    assert cells.layout.columns * cells.layout.rows > 2000
    # The noise of the sum has a standard deviation of 750 people or so; that of each box, kept, would add 15,000.
    assert cells.people.sum() < 300 + 3 * 10 * math.sqrt(2 * cells.layout.columns * cells.layout.rows)
    with pytest.raises(UsageError, match="fewer than the 10,000 to hide among"):
        cells.check_holds(10_000)


def test_the_cost_is_stated(city: FloatArray, san_francisco: Region) -> None:
    cells = build_private_cells(city, san_francisco, epsilon=0.7, rng=1)
    guarantee = cells.guarantee()
    assert guarantee.epsilon == 0.7
    assert guarantee.definition.value == "central"
    assert 0 < guarantee.delta < 1e-15
    assert "seed" in guarantee.notes[0]
    assert replace(cells, unit="row").guarantee().counted is Counted.ROWS
    assert cells_from_points(city, san_francisco).guarantee().epsilon == 0


def test_who_cannot_be_learned_from(san_francisco: Region) -> None:
    with pytest.raises(DataError, match="two people or more"):
        build_private_cells([[37.7, -122.4]], san_francisco)
    with pytest.raises(DataError, match="same location"):
        build_private_cells([[37.7, -122.4]] * 5, san_francisco)
    with pytest.raises(DataError, match="same location"):
        cells_from_published([[37.7, -122.4]] * 5, san_francisco, 500)


def test_files_that_are_no_cells(tmp_path: Path) -> None:
    for text in ("", "[]", "{", '{"nearveil": 3}', "[" * 100_000):
        with pytest.raises(DataError, match="not a file of cells"):
            cells_from_json(text)
    (tmp_path / "cells.json").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="not a file of cells"):
        load_cells(tmp_path / "cells.json")
    with pytest.raises(DataError, match="cannot be read"):
        load_cells(tmp_path / "others.json")
    with pytest.raises(UsageError, match="is GeoJSON"):
        load_cells(tmp_path / "cells.csv")
