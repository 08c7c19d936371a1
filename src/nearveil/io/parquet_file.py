"""Parquet with latitude and longitude columns, and GeoParquet with points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearveil.errors import DataError
from nearveil.io.columns import find_coordinates
from nearveil.io.coordinates import check_carried, degrees_column, split_table, without_columns
from nearveil.io.people import Layout, People, Place, table_with_coordinates, with_column
from nearveil.io.wkb import points_from_wkb, wkb_from_points
from nearveil.types import FloatArray

_SAME_PLACE_DEG = 1e-9
_ROW_GROUP = 1 << 20


def read_parquet(
    path: Path,
    *,
    latitude: str | None = None,
    longitude: str | None = None,
    drop: tuple[str, ...] = (),
    carry: bool = True,
) -> People:
    """Read people from Parquet: from the primary geometry of GeoParquet, else from coordinate columns."""
    try:
        table = pq.ParquetFile(path).read()
    except OSError as error:
        if error.errno:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        raise _damaged(path) from None
    except pa.ArrowException:
        raise _damaged(path) from None
    geo = _geo_metadata(table, path)
    table = _without_metadata(table)
    if geo is None or geo["primary_column"] in drop:
        return split_table(table, latitude=latitude, longitude=longitude, drop=drop, carry=carry)
    return _read_geometry(table, geo, latitude, longitude, drop, carry=carry)


def write_parquet(people: People, path: Path, metadata: dict[str, Any]) -> None:
    """Write people as GeoParquet 1.1; coordinate columns stay where the input had them."""
    layout = people.layout
    has_columns = layout.latitude is not None and layout.longitude is not None
    table = table_with_coordinates(people) if has_columns else people.carried
    geometry = layout.geometry or Place("geometry", table.num_columns)
    table = with_column(table, geometry, wkb_from_points(people.points))
    geo = {
        "version": "1.1.0",
        "primary_column": geometry.name,
        "columns": {geometry.name: {"encoding": "WKB", "geometry_types": ["Point"]}},
    }
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), b"geo": json.dumps(geo), b"nearveil": json.dumps(metadata)}
    )
    pq.write_table(table, path, row_group_size=_ROW_GROUP)


def _damaged(path: Path) -> DataError:
    return DataError(f"{path} is damaged, cut short or no Parquet file; export it again")


def _without_metadata(table: pa.Table) -> pa.Table:
    """Leave out what the file and its columns say of themselves: bounds or statistics of true places may hide there."""
    return table.cast(pa.schema([field.remove_metadata() for field in table.schema]))


def _geo_metadata(table: pa.Table, path: Path) -> dict[str, Any] | None:
    text = (table.schema.metadata or {}).get(b"geo")
    if text is None:
        return None
    try:
        geo: dict[str, Any] = json.loads(text)
        column = geo["columns"][geo["primary_column"]]
        encoding, crs = column["encoding"], column.get("crs", "OGC:CRS84")
        if geo["primary_column"] not in table.column_names:
            raise KeyError("primary_column")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{path} has damaged GeoParquet metadata; export it again") from None
    if not _is_wgs84(crs):
        raise DataError(f"{path} is not in WGS84 longitude and latitude; reproject it to OGC:CRS84 (EPSG:4326)")
    if encoding not in ("WKB", "point"):
        raise DataError(f"{path} holds geometries that are not points; give one point per person")
    return geo


def _is_wgs84(crs: Any) -> bool:
    if crs == "OGC:CRS84":
        return True
    identity = crs.get("id") if isinstance(crs, dict) else None
    if not isinstance(identity, dict):
        return False
    return (identity.get("authority"), str(identity.get("code"))) in {("OGC", "CRS84"), ("EPSG", "4326")}


def _read_geometry(
    table: pa.Table,
    geo: dict[str, Any],
    latitude: str | None,
    longitude: str | None,
    drop: tuple[str, ...],
    *,
    carry: bool,
) -> People:
    primary = geo["primary_column"]
    table = without_columns(table, (*drop, *_covering_columns(geo, primary, table)))
    if table.num_rows == 0:
        raise DataError("the file has no rows; give at least one person")
    position = table.column_names.index(primary)
    column = table.column(position)
    table = table.remove_column(position)
    if carry:
        _refuse_other_geometries(geo, table)
    points = _points_from_struct(column) if geo["columns"][primary]["encoding"] == "point" else points_from_wkb(column)
    if find_coordinates(table.column_names, latitude, longitude) is None:
        warnings = check_carried(table, points) if carry else ()
        return People(points, table, Layout(geometry=Place(primary, position)), warnings=warnings)
    # Coordinates beside the geometry: the same place written twice, to be replaced in both.
    people = split_table(table, latitude=latitude, longitude=longitude, drop=(), carry=carry)
    apart = ~(np.abs(people.points - points) <= _SAME_PLACE_DEG).all(axis=1)
    if apart.any():
        row = int(np.argmax(apart)) + 1
        raise DataError(f"row {row}: the geometry and the coordinate columns differ; leave one of them out with --drop")
    layout = Layout(people.layout.latitude, people.layout.longitude, Place(primary, position))
    return People(points, people.carried, layout, warnings=people.warnings)


def _refuse_other_geometries(geo: dict[str, Any], table: pa.Table) -> None:
    for name in geo["columns"]:
        if name in table.column_names:
            raise DataError(
                f"column {name!r} holds a second geometry that would be published as it is; leave it out with "
                f"--drop {name}"
            )


def _covering_columns(geo: dict[str, Any], primary: str, table: pa.Table) -> list[str]:
    """Columns with each row's bounding box, an exact location in disguise."""
    covering = geo["columns"][primary].get("covering", {}).get("bbox", {})
    return sorted({path[0] for path in covering.values() if path and path[0] in table.column_names})


def _points_from_struct(column: pa.ChunkedArray) -> FloatArray:
    try:
        parts = [pa.chunked_array([chunk.field(axis) for chunk in column.chunks]) for axis in ("y", "x")]
    except (KeyError, pa.ArrowException):
        raise DataError("the geometry column holds no points; give one point per person") from None
    return np.column_stack([degrees_column(part, "geometry") for part in parts])
