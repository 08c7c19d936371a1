"""Public data on where people are: points, grids and rasters, and a sentence for what cannot be used."""

from pathlib import Path

import numpy as np
import pytest

from nearveil.errors import DataError, UsageError
from nearveil.io.density import read_density
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_density
from nearveil.region import Region
from nearveil.types import FloatArray

GRID_LATITUDES, GRID_LONGITUDES = 37.525 + 0.05 * np.arange(8), -122.575 + 0.05 * np.arange(8)


def csv_of(path: Path, header: str, *columns: FloatArray) -> Path:
    np.savetxt(path, np.column_stack(columns), delimiter=",", header=header, comments="", fmt="%.4f")
    return path


def test_counts_elsewhere_are_points_and_rows_without_counts_one_person_each(tmp_path: Path, city: FloatArray) -> None:
    counts = np.arange(1.0, 41.0)
    path = csv_of(tmp_path / "villages.csv", "latitude,longitude,heads", city[:40, 0], city[:40, 1], counts)
    density = read_density(path, column="heads")
    assert not density.width_deg.any()
    assert density.counts.sum() == 820
    assert read_density(path).counts.tolist() == [1.0] * 40


def test_counts_on_even_coordinates_are_a_grid(tmp_path: Path) -> None:
    """Also where boxes without people are left out, and coordinates are rounded."""
    latitude, longitude = (axis.ravel() for axis in np.meshgrid(GRID_LATITUDES, GRID_LONGITUDES, indexing="ij"))
    counts = np.random.default_rng(1).integers(0, 200, 64).astype(float)
    some = [part[counts > 40] for part in (latitude, longitude, counts)]
    density = read_density(csv_of(tmp_path / "grid.csv", "Latitude,Longitude,Population", *some))
    assert np.allclose([density.height_deg, density.width_deg], 0.05)
    assert density.counts.tolist() == some[2].tolist()


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
        ("37.7,-122.4,-3", "row 2: the count is missing, negative"),
        ("37.7,-122.4,0", "all counts of the density are 0"),
        ("37.7,-122.4,", "row 2: the count is missing"),
        ("95,-122.4,3", "row 2 is not on Earth"),
    ],
)
def test_counts_that_cannot_be_used(tmp_path: Path, rows: str, words: str) -> None:
    path = tmp_path / "density.csv"
    path.write_text(f"lat,lon,count\n37.71,-122.41,0\n{rows}\n")
    with pytest.raises(DataError, match=words):
        read_density(path)
