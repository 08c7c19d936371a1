"""Public data on where people are: points, grids, polygons and rasters, and a sentence for what cannot be used."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.io.density import Density, read_density
from nearveil.io.parquet_file import geo_metadata_of
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.fit_cells import CellPlan, _spread_counts, cells_from_density
from nearveil.region import Region
from nearveil.types import FloatArray

GRID_LATITUDES, GRID_LONGITUDES = 37.525 + 0.05 * np.arange(8), -122.575 + 0.05 * np.arange(8)


def csv_of(path: Path, header: str, *columns: FloatArray) -> Path:
    np.savetxt(path, np.column_stack(columns), delimiter=",", header=header, comments="", fmt="%.4f")
    return path


@pytest.fixture(scope="module")
def grid() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Middles of 64 boxes that fill San Francisco's region, and counts."""
    latitude, longitude = (axis.ravel() for axis in np.meshgrid(GRID_LATITUDES, GRID_LONGITUDES, indexing="ij"))
    return latitude, longitude, np.random.default_rng(1).integers(0, 200, 64).astype(float)


def test_rows_without_counts_are_one_person_each(tmp_path: Path, city: FloatArray) -> None:
    density = read_density(csv_of(tmp_path / "points.csv", "lat,lng", city[:50, 0], city[:50, 1]))
    assert density.counts.tolist() == [1.0] * 50
    assert not density.height_deg.any()


def test_counts_on_even_coordinates_are_a_grid(tmp_path: Path, grid: tuple[FloatArray, FloatArray, FloatArray]) -> None:
    """Also where boxes without people are left out, and coordinates are rounded."""
    latitude, longitude, counts = (part[grid[2] > 40] for part in grid)
    density = read_density(csv_of(tmp_path / "grid.csv", "Latitude,Longitude,Population", latitude, longitude, counts))
    assert np.allclose(density.height_deg, 0.05)
    assert np.allclose(density.width_deg, 0.05)
    assert density.counts.tolist() == counts.tolist()


def test_counts_elsewhere_are_points(tmp_path: Path, city: FloatArray) -> None:
    path = csv_of(
        tmp_path / "villages.csv", "latitude,longitude,heads", city[:40, 0], city[:40, 1], np.arange(1.0, 41.0)
    )
    density = read_density(path, column="heads")
    assert not density.width_deg.any()
    assert density.counts.sum() == 820


def test_a_grid_spreads_its_people_evenly(
    grid: tuple[FloatArray, FloatArray, FloatArray], san_francisco: Region
) -> None:
    """All people are in some cell, and a box of many people is cut into more and smaller cells than one of few."""
    latitude, longitude, counts = grid
    density = Density.of_grid(np.column_stack([latitude, longitude]), counts)
    cells = cells_from_density(density, san_francisco, CellPlan(hide_among=100))
    assert np.isclose(cells.people.sum(), counts.sum(), rtol=1e-4)
    there = cells.find(san_francisco.to_square(density.points))
    assert cells.sides_m[there[counts > 150]].mean() < cells.sides_m[there[counts < 10]].mean()


def parquet_of_boxes(path: Path, grid: tuple[FloatArray, FloatArray, FloatArray], name: str = "people") -> Path:
    shapely = pytest.importorskip("shapely")
    latitude, longitude, counts = grid
    boxes = shapely.box(longitude - 0.025, latitude - 0.025, longitude + 0.025, latitude + 0.025)
    table = pa.table({name: counts, "geometry": shapely.to_wkb(boxes).tolist()})
    pq.write_table(table.replace_schema_metadata({"geo": geo_metadata_of("geometry", "Polygon")}), path)
    return path


def test_polygons_are_read_with_their_counts(tmp_path: Path, grid: tuple[FloatArray, FloatArray, FloatArray]) -> None:
    path = parquet_of_boxes(tmp_path / "census.parquet", grid)
    density = read_density(path)
    assert np.allclose(density.points, np.column_stack(grid[:2]))
    assert np.allclose(density.height_deg, 0.05)
    assert density.counts.tolist() == grid[2].tolist()
    with pytest.raises(DataError, match="there is no column 'heads'"):
        read_density(path, column="heads")
    with pytest.raises(DataError, match="polygons without counts; name the column"):
        read_density(parquet_of_boxes(tmp_path / "other.parquet", grid, "inhabitants"))


def feature(geometry: object, people: object = 100, name: str = "people") -> dict[str, object]:
    return {"type": "Feature", "properties": {name: people}, "geometry": geometry}


def square(west: float, south: float, side: float = 0.1) -> list[list[float]]:
    east, north = west + side, south + side
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def polygon(*rings: object) -> dict[str, object]:
    return {"type": "Polygon", "coordinates": list(rings)}


def geojson_of(path: Path, *features: object) -> Path:
    path.write_text(json.dumps({"type": "FeatureCollection", "features": list(features)}))
    return path


COARSE = CellPlan(hide_among=10, least_cell_m=800)


def spread(density: Density, region: Region) -> tuple[FloatArray, FloatArray]:
    """Return how many people each smallest box holds, and the places of their middles."""
    layout = COARSE.layout(region)
    rows, columns = layout.shape
    half_extent = np.array(region.half_extent_square)
    middles = np.stack(np.meshgrid(np.arange(columns) + 0.5, np.arange(rows) + 0.5), axis=-1).reshape(-1, 2)
    return _spread_counts(density, layout).ravel(), region.from_square(middles * layout.box - half_extent)


def test_people_of_a_polygon_are_spread_evenly_over_it(san_francisco: Region) -> None:
    """By area, worked out by another way: shapely cuts every polygon with every box. Some reach beyond the region."""
    shapely = pytest.importorskip("shapely")
    rng, layout = np.random.default_rng(3), COARSE.layout(san_francisco)
    stars = []
    for west, south in rng.uniform((-122.62, 37.48), (-122.2, 37.9), (40, 2)):
        angles, reach = np.sort(rng.uniform(0, 2 * np.pi, 15)), rng.uniform(0.01, 0.06, 15)
        corners = np.column_stack([west + reach * np.cos(angles), south + reach * np.sin(angles)])
        # Either way around.
        stars.append(shapely.Polygon(corners[:: rng.choice([1, -1])]))
    with_hole = shapely.box(-122.5, 37.6, -122.3, 37.8) - shapely.box(-122.45, 37.65, -122.35, 37.75)
    apart = shapely.MultiPolygon(
        [shapely.box(-122.59, 37.51, -122.58, 37.52), with_hole - shapely.box(-123, 37, -122, 37.7)]
    )
    polygons = np.array([*(star for star in stars if star.is_valid), with_hole, apart], dtype=object)
    counts = rng.uniform(1, 100, len(polygons))
    assert len(polygons) > 30

    rows, columns = layout.shape
    west, south = (axis.ravel() for axis in np.meshgrid(np.arange(columns), np.arange(rows)))
    boxes = shapely.box(west, south, west + 1, south + 1)
    half_extent = np.array(san_francisco.half_extent_square)

    def in_boxes(places: FloatArray) -> FloatArray:
        return (san_francisco.to_square(places[:, ::-1]) + half_extent) / layout.box

    expected = np.zeros(rows * columns)
    edges = shapely.box(-122.6, 37.5, -122.2, 37.9)
    for one, people in zip(polygons, counts, strict=True):
        inside = shapely.intersection(one, edges)
        placed = shapely.transform(shapely.segmentize(inside, 0.002), in_boxes)
        areas = shapely.area(shapely.intersection(boxes, placed))
        expected += people * (inside.area / one.area) * areas / max(areas.sum(), 1e-12)
    found = spread(Density.of_polygons(polygons, counts), san_francisco)[0]
    # Points stand for a polygon, 32 or more to its longer side: single boxes at its edge may be a little off.
    assert np.abs(found - expected).max() < 0.08 * expected.max()
    assert np.abs(found - expected).sum() < 0.03 * expected.sum()
    assert found.sum() == pytest.approx(expected.sum(), rel=2e-3)
    assert found.sum() < 0.99 * counts.sum()


@pytest.mark.parametrize("suffix", ["geojson", "json", "parquet"])
def test_holes_and_parts_of_polygons_in_files(tmp_path: Path, san_francisco: Region, suffix: str) -> None:
    """Nobody in a hole, and as many in each part as its area says."""
    shapely = pytest.importorskip("shapely")
    with_hole = polygon(square(-122.5, 37.6, 0.2), square(-122.45, 37.65, 0.1))
    parts = {"type": "MultiPolygon", "coordinates": [[square(-122.58, 37.52, 0.02)], [square(-122.28, 37.82, 0.06)]]}
    path = tmp_path / f"tracts.{suffix}"
    if suffix == "parquet":
        shapes = shapely.to_wkb(shapely.from_geojson([json.dumps(with_hole), json.dumps(parts)]))
        table = pa.table({"people": [300, 100], "geometry": shapes.tolist()})
        pq.write_table(table.replace_schema_metadata({"geo": geo_metadata_of("geometry", "Polygon")}), path)
    else:
        geojson_of(path, feature(with_hole, 300), feature(parts, 100))
    people, middles = spread(read_density(path), san_francisco)
    assert people.sum() == pytest.approx(400, rel=1e-6)

    def within(west: float, south: float, side: float) -> float:
        return float(people[((middles > (south, west)) & (middles < (south + side, west + side))).all(axis=1)].sum())

    # A margin of a box around the hole, whose sides lie within boxes.
    assert within(-122.44, 37.66, 0.08) == pytest.approx(0, abs=1e-6)
    assert within(-122.51, 37.59, 0.22) == pytest.approx(300, rel=1e-6)
    assert within(-122.6, 37.5, 0.06) == pytest.approx(10, rel=0.02)
    assert within(-122.3, 37.8, 0.1) == pytest.approx(90, rel=0.02)


def test_polygons_on_both_sides_of_the_antimeridian(tmp_path: Path) -> None:
    pytest.importorskip("shapely")
    fiji = Region(-18.5, 178.0, -16.5, -179.0)
    both = {"type": "MultiPolygon", "coordinates": [[square(179.5, -17.5, 0.5)], [square(-180.0, -17.5, 0.5)]]}
    beyond = polygon(square(-179.1, -17.5, 0.2))
    density = read_density(geojson_of(tmp_path / "islands.geojson", feature(both, 50), feature(beyond, 20)))
    people, middles = spread(density, fiji)
    assert people.sum() == pytest.approx(60, rel=1e-4)
    assert people[middles[:, 1] > 0].sum() == pytest.approx(25, rel=0.02)


def test_a_polygon_that_also_touches_the_region_counts_by_what_is_inside(tmp_path: Path, san_francisco: Region) -> None:
    """One arm reaches into the region, and another only touches its eastern edge."""
    pytest.importorskip("shapely")
    arms = [
        [-122.3, 37.6], [-122.0, 37.6], [-122.0, 37.9], [-122.2, 37.9], [-122.2, 37.8], [-122.1, 37.8],
        [-122.1, 37.7], [-122.3, 37.7], [-122.3, 37.6],
    ]  # fmt: skip
    density = read_density(
        geojson_of(tmp_path / "tracts.geojson", feature(polygon(arms), 60), feature(polygon(HERE), 7))
    )
    people, middles = spread(density, san_francisco)
    # A sixth of its area, as one of six squares.
    assert people.sum() == pytest.approx(17, rel=1e-3)
    assert people[(middles > (37.72, -122.4)).all(axis=1)].sum() == pytest.approx(0, abs=1e-6)


def test_polygons_elsewhere_are_nobody_here(tmp_path: Path, san_francisco: Region) -> None:
    pytest.importorskip("shapely")
    # The second touches the region in a line, the third in a point.
    far = [square(2.3, 48.8), square(-122.2, 37.6), square(-122.2, 37.9)]
    density = read_density(geojson_of(tmp_path / "far.geojson", *(feature(polygon(ring)) for ring in far)))
    with pytest.raises(DataError, match="nobody inside the region"):
        cells_from_density(density, san_francisco)


HERE = square(-122.5, 37.6)
BOW_TIE = [[-122.5, 37.6], [-122.4, 37.7], [-122.4, 37.6], [-122.5, 37.7], [-122.5, 37.6]]


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([feature(polygon(HERE), name="n")], "polygons without counts; name the column"),
        ([feature(polygon(HERE)), feature(polygon(HERE), None)], "a count of the density is missing"),
        ([feature(polygon(HERE)), feature(polygon(HERE), "many")], "row 2: the count is empty or not a number"),
        ([feature(polygon(HERE), -1)], "negative"),
        ([feature(polygon(HERE), 0)], "all counts of the density are 0"),
        ([feature(polygon(HERE)), feature(polygon(BOW_TIE))], "row 2 of the density has a polygon that crosses itself"),
        (
            [feature({"type": "MultiPolygon", "coordinates": [[HERE], [HERE]]})],
            "row 1 of the density has a polygon that crosses itself, or whose parts overlap",
        ),
        ([feature(polygon(HERE)), feature(polygon())], "row 2 of the density has an empty polygon"),
        ([feature(polygon(HERE)), feature(None)], "row 2 of the density has no polygon that can be read"),
        ([feature(polygon(HERE)), feature({"type": "Point", "coordinates": [-122.4, 37.7]})], "row 2 .* no polygon"),
        ([feature(polygon(HERE[:-1]))], "row 1 of the density has no polygon that can be read"),
        ([feature(polygon([["a", "b"]] * 4))], "row 1 of the density has no polygon that can be read"),
        ([feature({"type": "Polygon", "coordinates": 7})], "row 1 of the density has no polygon that can be read"),
        ([feature(polygon(square(-122.5, 89.95)))], "row 1 of the density has a polygon that is no place in degrees"),
        ([feature(polygon([[-122.5, 37.6]] * 4))], "row 1 of the density has a polygon"),
        ([feature(polygon(HERE)), "no feature"], "row 1: the feature has no point"),
    ],
    ids=str,
)
def test_polygons_that_cannot_be_used(tmp_path: Path, features: list[object], words: str) -> None:
    pytest.importorskip("shapely")
    with pytest.raises(DataError, match=words):
        read_density(geojson_of(tmp_path / "tracts.geojson", *features))


def test_columns_of_coordinates_do_not_go_with_polygons(tmp_path: Path) -> None:
    path = geojson_of(tmp_path / "tracts.geojson", feature(polygon(HERE), 5, name="n"))
    with pytest.raises(DataError, match="leave out latitude= and longitude="):
        read_density(path, read=ReadOptions(latitude="lat", longitude="lon"))
    assert read_density(path, column="n").counts.tolist() == [5.0]


def test_polygons_name_the_extra_that_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shapely", None)
    for name in ("tracts.geojson", "tracts.json"):
        with pytest.raises(UsageError, match=r"a density of polygons needs shapely, .* 'nearveil\[files\]'"):
            read_density(geojson_of(tmp_path / name, feature(polygon(HERE))))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # rasterio's own, of affine 3
def test_a_raster_is_read_where_the_region_is(tmp_path: Path, san_francisco: Region) -> None:
    """In degrees and in a projection that shears: the same people at the same places; what has no data is nobody."""
    rasterio = pytest.importorskip("rasterio")
    from pyproj import Transformer

    counts = np.random.default_rng(2).integers(0, 50, (100, 240)).astype("float32")
    counts[:, :3] = -9999
    mollweide = Transformer.from_crs("OGC:CRS84", "ESRI:54009", always_xy=True).transform(-123.9, 38.1)
    for crs, origin, size in (("EPSG:4326", (-123.9, 38.1), 0.01), ("ESRI:54009", mollweide, 900.0)):
        path = tmp_path / f"{size}.tif"
        place = rasterio.transform.from_origin(*origin, size, size)
        settings = {"width": 240, "height": 100, "count": 1, "dtype": "float32", "nodata": -9999}
        with rasterio.open(path, "w", driver="GTiff", crs=crs, transform=place, **settings) as raster:
            raster.write(counts, 1)
        whole, part = read_density(path), read_density(path, region=san_francisco)
        assert whole.counts.sum() == counts[:, 3:].sum()
        assert len(part.counts) < len(whole.counts)
        cells = [cells_from_density(one, san_francisco, CellPlan(hide_among=100)) for one in (whole, part)]
        assert np.isclose(cells[0].people.sum(), cells[1].people.sum(), rtol=1e-3)
        # The region is as many pixels large as it holds people, at about 24.5 people a pixel.
        pixels = (san_francisco.height_deg / whole.height_deg.mean()) * (
            san_francisco.width_deg / whole.width_deg.mean()
        )
        assert np.isclose(cells[0].people.sum() / pixels, counts[:, 3:].mean(), rtol=0.1)
    with pytest.raises(DataError, match="nobody inside the region"):
        read_density(path, region=Region(48.8, 2.2, 48.9, 2.4))
    with pytest.raises(UsageError, match="a GeoTIFF has no columns"):
        read_density(path, column="people")
    (tmp_path / "text.tif").write_text("no picture")
    with pytest.raises(DataError, match="cannot be read as a GeoTIFF"):
        read_density(tmp_path / "text.tif")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("37.7,-122.4,-3", "negative"),
        ("37.7,-122.4,0", "all counts of the density are 0"),
        ("37.7,-122.4,", "row 2: the count is empty or not a number"),
        ("37.7,-122.4,nan", "missing"),
        ("37.7,-122.4,many", "row 2: the count is empty or not a number"),
        ("95,-122.4,3", "no place in degrees"),
    ],
)
def test_counts_that_cannot_be_used(tmp_path: Path, rows: str, words: str) -> None:
    path = tmp_path / "density.csv"
    path.write_text(f"lat,lon,count\n37.71,-122.41,0\n{rows}\n")
    with pytest.raises(DataError, match=words):
        read_density(path)
