"""Density: public data on where people in general are, as points, or as a grid or polygons with counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError, UsageError, require_package
from nearveil.io.columns import find_counts, numbers_column
from nearveil.io.input_file import InputFile
from nearveil.io.people import ReadOptions
from nearveil.region import Region
from nearveil.types import FloatArray, ObjectArray


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """Numbers of people at places, each a point, the middle of a box of degrees, or a polygon.

    Attributes
    ----------
    points : ndarray of shape (n, 2)
        Latitude, longitude.
    counts : ndarray of shape (n,)
        How many people each stands for.
    height_deg, width_deg : ndarray of shape (n,)
        Extent of each box in latitude and longitude; 0 for a point. Of a polygon, its bounding box.
    polygons : ndarray of shape (n,), optional
        Polygons and multipolygons of shapely, in longitude and latitude: people are spread over them, not their boxes.
    """

    points: FloatArray
    counts: FloatArray
    height_deg: FloatArray
    width_deg: FloatArray
    polygons: ObjectArray | None = None

    def __post_init__(self) -> None:
        if not len(self.points):
            raise DataError("the density has no rows; give at least one")
        if not np.isfinite(self.counts).all():
            raise DataError("a count of the density is missing or not a finite number; give 0 where nobody is")
        if (self.counts < 0).any():
            raise DataError("a count of the density is negative; counts are numbers of people, 0 or more")
        if not self.counts.sum() > 0:
            raise DataError("all counts of the density are 0; check its column of counts")
        if not (np.isfinite(self.points).all() and (np.abs(self.points) <= (90, 180)).all()):
            raise DataError("a row of the density is no place in degrees; check its latitude and longitude")

    @classmethod
    def of_points(cls, points: FloatArray) -> Self:
        """Return the density of places, one person each."""
        nothing = np.zeros(len(points))
        return cls(points, np.ones(len(points)), nothing, nothing)

    @classmethod
    def of_grid(cls, points: FloatArray, counts: FloatArray) -> Self:
        """Return the density of counts: boxes as wide as the spacing of their middles, or points without a spacing."""
        spacing = [_spacing(points[:, axis]) for axis in (0, 1)]
        height, width = (spacing[0], spacing[1]) if all(spacing) else (0.0, 0.0)
        return cls(points, counts, np.full(len(points), height), np.full(len(points), width))

    @classmethod
    def of_polygons(cls, polygons: ObjectArray, counts: FloatArray) -> Self:
        """Return the density of counts in polygons of shapely, which are in longitude and latitude."""
        _check_polygons(polygons)
        import shapely  # noqa: PLC0415 - an extra

        west, south, east, north = shapely.bounds(polygons).T
        middles = np.column_stack([(south + north) / 2, (west + east) / 2])
        return cls(middles, counts, north - south, east - west, polygons)


_SIDES_PER_REGION = 64


def polygons_in(polygons: ObjectArray, counts: FloatArray, region: Region) -> tuple[ObjectArray, FloatArray]:
    """Cut polygons with counts at a region's edge, and return the parts inside and how many people each has."""
    import shapely  # noqa: PLC0415 - an extra

    spans = [(region.west, region.east)]
    if region.west > region.east:
        spans = [(region.west, 180.0), (-180.0, region.east)]
    edges = shapely.union_all([shapely.box(west, region.south, east, region.north) for west, east in spans])
    # Sides are straight in degrees, and only nearly so in metres: so they are short.
    longest_deg = max(region.height_deg, region.width_deg) / _SIDES_PER_REGION
    polygons, edges = shapely.segmentize(polygons, longest_deg), shapely.segmentize(edges, longest_deg)
    parts, rows = shapely.get_parts(shapely.intersection(polygons, edges), return_index=True)
    areas = shapely.area(_equal_area(parts))
    # Where a polygon only touches the region, a line or a point of it is left.
    flat = areas > 0
    inside = counts[rows] * areas / shapely.area(_equal_area(polygons))[rows]
    return parts[flat], inside[flat]


def _equal_area(polygons: ObjectArray) -> ObjectArray:
    """Map polygons so that areas are as on the ground (Lambert's cylindrical projection)."""
    import shapely  # noqa: PLC0415 - an extra

    mapped: ObjectArray = shapely.transform(
        polygons, lambda places: np.column_stack([np.radians(places[:, 0]), np.sin(np.radians(places[:, 1]))])
    )
    return mapped


def _check_polygons(polygons: ObjectArray) -> None:
    """Refuse what people cannot be spread over, by its row."""
    import shapely  # noqa: PLC0415 - an extra

    flat = (shapely.GeometryType.POLYGON, shapely.GeometryType.MULTIPOLYGON)
    west, south, east, north = shapely.bounds(polygons).T
    wrong = {
        "has no polygon that can be read; give every row a Polygon or MultiPolygon": ~np.isin(
            shapely.get_type_id(polygons), flat
        ),
        "has an empty polygon; leave the row out": shapely.is_empty(polygons),
        "has a polygon that is no place in degrees; check its longitude and latitude": ~(
            (west >= -180) & (east <= 180) & (south >= -90) & (north <= 90)
        ),
        "has a polygon that crosses itself, or whose parts overlap; repair it ('Fix geometries' in QGIS)": ~(
            shapely.is_valid(polygons)
        ),
        "has a polygon without an area; leave the row out": shapely.area(polygons) <= 0,
    }
    for words, is_wrong in wrong.items():
        if is_wrong.any():
            raise DataError(f"row {int(np.argmax(is_wrong)) + 1} of the density {words}")


def read_density(
    path: str | Path,
    *,
    column: str | None = None,
    region: Region | None = None,
    read: ReadOptions | None = None,
) -> Density:
    r"""Read public data on where people are.

    Without counts, every row of a file of points is one person. With counts, points whose coordinates are evenly
    spaced are the middles of a grid's boxes. The people of a polygon are spread evenly over it. Of a GeoTIFF the first
    band counts.

    Parameters
    ----------
    path : path
        CSV, GeoJSON, (Geo)Parquet or GeoTIFF, by extension.
    column : str, optional
        The column of counts, if it is not called count, people or population.
    region : Region, optional
        Of a GeoTIFF, read what covers this region only.
    read : ReadOptions, optional
        How the file is read, such as the names of its coordinate columns.

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
        if column is not None or (read is not None and read.arguments()):
            raise UsageError("a GeoTIFF has no columns; its first band is read, so name none")
        return _from_raster(source, region)
    return _from_table(source, column, read or ReadOptions())


def _from_table(path: Path, column: str | None, read: ReadOptions) -> Density:
    from nearveil.io.files import open_people  # noqa: PLC0415 - loads the formats

    of_polygons = _POLYGONS_BY_SUFFIX.get(path.suffix.lower())
    density = of_polygons(path, column, read) if of_polygons and path.is_file() else None
    if density is not None:
        return density
    people = open_people(path, read, carry=False).read_all()
    counts = _counts(people.carried, column)
    return Density.of_points(people.points) if counts is None else Density.of_grid(people.points, counts)


def _counts(table: pa.Table, column: str | None) -> FloatArray | None:
    place = find_counts(table.column_names, column)
    return None if place is None else numbers_column(table.column(place), "count", "numbers of people, 0 or more")


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


# GeoJSON and GeoParquet with polygons.


def _geojson_polygons(path: Path, column: str | None, read: ReadOptions) -> Density | None:
    """Read polygons with counts; None if the file has none."""
    from nearveil.io.geojson_file import properties_table, read_features, refuse_columns  # noqa: PLC0415

    features, crs = read_features(InputFile(path))
    if not all(isinstance(feature, dict) for feature in features):
        return None
    geometries = [feature.get("geometry") for feature in features]
    if not any(isinstance(geometry, dict) and geometry.get("type") in _FLAT for geometry in geometries):
        return None
    refuse_columns(read)
    _refuse_crs(path, crs)
    texts = [json.dumps(geometry) for geometry in geometries]
    properties = properties_table(features)
    return _with_counts(path, column, properties, lambda shapely: shapely.from_geojson(texts, on_invalid="ignore"))


def _parquet_polygons(path: Path, column: str | None, _read: ReadOptions) -> Density | None:
    """Read polygons with counts; None if the file has points."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to load
    import pyarrow.parquet as pq  # noqa: PLC0415

    from nearveil.io.parquet_file import ParquetSource, geo_metadata  # noqa: PLC0415

    source = ParquetSource(InputFile(path))
    geo = geo_metadata(source.metadata, source.schema.names, str(path))
    if geo is None or geo.native:
        return None
    _refuse_crs(path, geo.crs)
    table = pq.read_table(path)
    geometry = table.column(geo.primary)
    # A point in well-known binary takes 21 bytes, a polygon more.
    if not len(geometry) or pc.max(pc.binary_length(geometry)).as_py() == _POINT_BYTES:
        return None
    properties = table.drop_columns(geo.primary)
    return _with_counts(
        path, column, properties, lambda shapely: shapely.from_wkb(geometry.to_pylist(), on_invalid="ignore")
    )


def _refuse_crs(path: Path, crs: str | None) -> None:
    if crs is not None:
        raise DataError(f"{path} is in {crs}; a density of polygons is read in degrees only, reproject it to EPSG:4326")


def _with_counts(path: Path, column: str | None, properties: pa.Table, read: Callable[[Any], ObjectArray]) -> Density:
    require_package("shapely", "a density of polygons")
    import shapely  # noqa: PLC0415 - an extra

    counts = _counts(properties, column)
    if counts is None:
        raise DataError(f"{path} has polygons without counts; name the column of counts with column=")
    return Density.of_polygons(shapely.force_2d(read(shapely)), counts)


_FLAT = ("Polygon", "MultiPolygon")
_POINT_BYTES = 21
_POLYGONS_BY_SUFFIX = {
    ".geojson": _geojson_polygons,
    ".json": _geojson_polygons,
    ".parquet": _parquet_polygons,
    ".geoparquet": _parquet_polygons,
}


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
    from rasterio.warp import transform_bounds  # noqa: PLC0415 - an extra
    from rasterio.windows import Window, from_bounds  # noqa: PLC0415

    whole = Window(0, 0, raster.width, raster.height)
    if region is None or region.west > region.east or raster.transform.b or raster.transform.d:
        return whole
    edges = transform_bounds("OGC:CRS84", raster.crs, region.west, region.south, region.east, region.north)
    part = from_bounds(*edges, transform=raster.transform)
    first_column, first_row = max(0, int(np.floor(part.col_off)) - 1), max(0, int(np.floor(part.row_off)) - 1)
    last_column = min(raster.width, int(np.ceil(part.col_off + part.width)) + 1)
    last_row = min(raster.height, int(np.ceil(part.row_off + part.height)) + 1)
    if last_column <= first_column or last_row <= first_row:
        raise DataError("the density has nobody inside the region; check the file and the region")
    return Window(first_column, first_row, last_column - first_column, last_row - first_row)


def _of_pixels(counts: FloatArray, window: Any, raster: Any) -> Density:
    from pyproj import Transformer  # noqa: PLC0415 - slow to load

    # Empty pixels need no place; one is kept, so that there is something to say that all are empty of.
    rows, columns = np.nonzero(counts) if counts.any() else (np.zeros(1, dtype=int), np.zeros(1, dtype=int))
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
