"""Density: public data on where people in general are, as points, or as a grid with counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from nearveil.errors import DataError, UsageError, require_package
from nearveil.io.location import ReadOptions, numbers, objects, only_column
from nearveil.region import Region
from nearveil.types import FloatArray

_COUNTS = ("count", "people", "population")


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Numbers of people at locations, each a point or the middle of a box of degrees.

    ``counts`` says how many people each stands for; ``height_deg`` and ``width_deg`` are 0 for a point.
    """

    points: FloatArray
    counts: FloatArray
    height_deg: FloatArray
    width_deg: FloatArray

    def __post_init__(self) -> None:
        is_count = np.isfinite(self.counts) & (self.counts >= 0)
        if not is_count.all():
            row = int(np.argmin(is_count)) + 1
            raise DataError(f"row {row}: the count is missing, negative or not finite; give 0 where nobody is")
        if not self.counts.sum() > 0:
            raise DataError("all counts of the density are 0; check its column of counts")
        if not (np.abs(self.points) <= (90, 180)).all():
            raise DataError("a row of the density is no location in degrees; check its latitude and longitude")

    @classmethod
    def of_points(cls, points: FloatArray) -> Self:
        """Return the density of locations, one person each."""
        nothing = np.zeros(len(points))
        return cls(points, np.ones(len(points)), nothing, nothing)

    @classmethod
    def of_grid(cls, points: FloatArray, counts: FloatArray) -> Self:
        """Return the density of counts: boxes as wide as the spacing of their middles, or points without a spacing."""
        spacing = [_spacing(points[:, axis]) for axis in (0, 1)]
        height, width = (spacing[0], spacing[1]) if all(spacing) else (0.0, 0.0)
        return cls(points, counts, np.full(len(points), height), np.full(len(points), width))


def read_density(
    path: str | Path,
    *,
    column: str | None = None,
    region: Region | None = None,
    read: ReadOptions | None = None,
) -> Density:
    r"""Read public data on where people are.

    Without counts, every row of a file of points is one person. With counts, points whose coordinates are evenly
    spaced are the middles of a grid's boxes. Of a GeoTIFF the first band counts.

    ``column`` holds the counts, if it is not called count, people or population; ``read`` says how the file is read,
    such as the names of its coordinate columns. Of a GeoTIFF, only what covers ``region`` is read.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "census.csv"
    >>> _ = file.write_text("lat,lon,people\n37.7,-122.4,10\n37.7,-122.3,0\n37.8,-122.4,5\n37.8,-122.3,7\n")
    >>> density = read_density(file)
    >>> density.counts.sum(), density.width_deg.round(6).tolist()
    (np.float64(22.0), [0.1, 0.1, 0.1, 0.1])
    """
    source = Path(path)
    if source.suffix.lower() in (".tif", ".tiff"):
        if column is not None or read not in (None, ReadOptions()):
            raise UsageError("a GeoTIFF has no columns; its first band is read, so name none")
        return _from_raster(source, region)
    from nearveil.io.readers import open_source, read_points  # noqa: PLC0415 - loads pyarrow

    table = open_source(source, read)
    points = read_points(table)
    usual = [name for name in table.columns if name.lower() in _COUNTS]
    if column is None and len(usual) > 1:
        raise DataError(f"several columns could be the counts: {', '.join(map(repr, usual))}; name one with column=")
    if column is None and not usual:
        return Density.of_points(points)
    name = only_column(table.columns, column or usual[0])
    counts = [numbers(objects(batch.table.column(0).to_pylist())) for batch in table.batches([name])]
    return Density.of_grid(points, np.concatenate(counts))


def _spacing(values: FloatArray) -> float:
    """Return the distance of neighboring coordinates if these are evenly spaced, but for gaps, and repeat; else 0."""
    different = np.unique(values)
    steps = np.diff(different)
    if not 1 < len(different) < len(values) or not np.isfinite(steps).all():
        return 0.0
    # Rounding makes steps differ a little, so that the mean of the small ones is taken.
    spacing = float(steps[steps < 1.5 * steps.min()].mean())
    is_even = (np.abs(steps / spacing - np.rint(steps / spacing)) < 0.1).all()
    return spacing if is_even else 0.0


# GeoTIFF.


def _from_raster(path: Path, region: Region | None) -> Density:
    require_package("rasterio", "a GeoTIFF")
    import rasterio  # noqa: PLC0415 - an extra

    try:
        with rasterio.open(path) as raster:
            if raster.crs is None:
                raise DataError(f"{path} does not say where it is (it has no CRS); export it with one")
            window = _window(raster, region)
            # No data is nobody: the sea, or beyond a border.
            counts = np.ma.filled(raster.read(1, window=window, masked=True).astype(np.float64), 0.0)
            return _of_pixels(counts, window, raster)
    except rasterio.errors.RasterioIOError:
        raise DataError(f"{path} cannot be read as a GeoTIFF; check the name, or export it again") from None


def _window(raster: Any, region: Region | None) -> Any:
    """Return the part of a raster that covers the region; all of it where that cannot be said by a box."""
    from rasterio.errors import WindowError  # noqa: PLC0415 - an extra
    from rasterio.warp import transform_bounds  # noqa: PLC0415
    from rasterio.windows import Window, from_bounds  # noqa: PLC0415

    whole = Window(0, 0, raster.width, raster.height)
    if region is None or region.west > region.east or raster.transform.b or raster.transform.d:
        return whole
    edges = transform_bounds("OGC:CRS84", raster.crs, region.west, region.south, region.east, region.north)
    part = from_bounds(*edges, transform=raster.transform)
    around = Window(np.floor(part.col_off) - 1, np.floor(part.row_off) - 1, part.width // 1 + 4, part.height // 1 + 4)
    try:
        return around.intersection(whole)
    except WindowError:
        raise DataError("the density has nobody inside the region; check the file and the region") from None


def _of_pixels(counts: FloatArray, window: Any, raster: Any) -> Density:
    from pyproj import Transformer  # noqa: PLC0415 - slow to load

    rows, columns = np.nonzero(counts)
    to_degrees = Transformer.from_crs(raster.crs.to_wkt(), "OGC:CRS84", always_xy=True)

    def place(across: float, down: float) -> FloatArray:
        column, row, by = columns + window.col_off + across, rows + window.row_off + down, raster.transform
        x, y = by.a * column + by.b * row + by.c, by.d * column + by.e * row + by.f
        return np.column_stack(to_degrees.transform(x, y)[::-1])

    along, up = place(1, 0.5) - place(0, 0.5), place(0.5, 0) - place(0.5, 1)
    # A projection may shear pixels: boxes as high and as large as they are.
    height = np.abs(along[:, 0]) + np.abs(up[:, 0])
    area = np.abs(along[:, 1] * up[:, 0] - along[:, 0] * up[:, 1])
    return Density(place(0.5, 0.5), counts[rows, columns], height, area / height)
