"""Frames of pandas, GeoPandas, Polars and Arrow: locations from them, and published ones as a frame of their kind."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError, UsageError, without_context
from nearveil.io.carried import second_locations
from nearveil.io.columns import find_coordinates, refuse_repeated
from nearveil.types import FloatArray

WGS84 = "OGC:CRS84"
_PAIR = ("latitude", "longitude")


def is_frame(data: object) -> bool:
    """Whether something is a frame of any library; only what is loaded already can have made it."""
    return hasattr(data, "columns") and not isinstance(data, type)


def is_geo_frame(frame: object) -> bool:
    """Whether a frame is one of GeoPandas, with geometries."""
    module = sys.modules.get("geopandas")
    return module is not None and isinstance(frame, module.GeoDataFrame)


def shared_frame(frame: Any) -> Any:
    """Return a frame as narwhals has it, which is one interface to all libraries."""
    import narwhals as nw  # noqa: PLC0415 - for frames only

    try:
        return nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError:
        refuse_repeated([str(name) for name in getattr(frame, "column_names", frame.columns)])
        raise
    except TypeError:
        raise UsageError(
            "this is not a frame that Nearveil knows; give a pyarrow.Table, or a frame of pandas, Polars or GeoPandas "
            "(a lazy one after collect)"
        ) from None


@without_context()
def points_in_frame(frame: Any) -> FloatArray:
    """Return latitude and longitude of all rows.

    They are found by their usual names, or are the two columns that there are. The points of a GeoDataFrame count in
    whatever reference system they are.

    Examples
    --------
    >>> points_in_frame(pa.table({"id": [1], "lat": [37.77], "lon": [-122.42]})).tolist()
    [[37.77, -122.42]]
    """
    if is_geo_frame(frame):
        return points_in_geometry(frame)
    shared = shared_frame(frame)
    latitude, longitude = _names(shared)
    try:
        columns = [shared.get_column(name).to_numpy() for name in (latitude, longitude)]
        return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    except (TypeError, ValueError, OverflowError):
        raise DataError("the coordinate columns do not hold numbers; give degrees as decimal numbers") from None


def points_in_geometry(frame: Any) -> FloatArray:
    """Return latitude and longitude of the points of a GeoDataFrame; without a reference system, they are degrees."""
    are_points = (frame.geometry.geom_type == "Point").to_numpy()
    if not are_points.all():
        row = int(np.argmin(are_points)) + 1
        raise DataError(f"row {row}: the geometry is missing or something else than a point; give one point per person")
    in_degrees = frame.geometry if frame.crs is None else frame.geometry.to_crs(WGS84)
    return np.column_stack([in_degrees.y.to_numpy(), in_degrees.x.to_numpy()])


def geometry_at(points: FloatArray, crs: Any) -> Any:
    """Return published places as geometries of GeoPandas in a reference system; None is degrees without a name."""
    geopandas = sys.modules["geopandas"]
    geometry = geopandas.points_from_xy(points[:, 1], points[:, 0], crs=None if crs is None else WGS84)
    return geometry if crs is None else geometry.to_crs(crs)


def frame_of_points(points: FloatArray, like: Any) -> Any:
    """Return locations alone, in a frame of the kind and with the names, index and reference system of another."""
    if is_geo_frame(like):
        geometry = geometry_at(points, like.crs)
        return sys.modules["geopandas"].GeoDataFrame(
            {like.geometry.name: geometry}, geometry=like.geometry.name, index=_checked_index(like)
        )
    shared = shared_frame(like)
    columns = dict(zip(_names(shared), points.T, strict=True))
    if shared.implementation.is_pandas_like():
        return type(like)(columns, index=_checked_index(like))
    import narwhals as nw  # noqa: PLC0415

    return nw.from_dict(columns, backend=shared.implementation).to_native()


def frame_by_name(points: FloatArray, library: Literal["pandas", "polars"], like: Any) -> Any:
    """Return locations in a frame of pandas or Polars; in pandas, with the index of another frame if it has one."""
    import narwhals as nw  # noqa: PLC0415

    names = _names(shared_frame(like)) if is_frame(like) and not is_geo_frame(like) else _PAIR
    frame = nw.from_dict(dict(zip(names, points.T, strict=True)), backend=library).to_native()
    if library != "pandas" or not hasattr(like, "index") or callable(like.index):
        return frame
    return frame.set_axis(_checked_index(like) if is_frame(like) else like.index)


def _checked_index(frame: Any) -> Any:
    """Return the index of a pandas frame, which goes along; refuse one that holds the location."""
    index = frame.index
    if type(index).__name__ == "RangeIndex":
        return index
    tables = []
    for level in range(index.nlevels):
        # Of what Arrow cannot take, nothing is known.
        with suppress(pa.ArrowException, TypeError, ValueError):
            tables.append(pa.table({"level": pa.Array.from_pandas(index.get_level_values(level))}))
    if any(second_locations(table, points_in_frame(frame)) for table in tables):
        raise DataError(
            "the frame's index holds a second exact location, which would be published unprotected; leave it out with "
            "reset_index(drop=True)"
        )
    return index


def _names(shared: Any) -> tuple[str, str]:
    names = [str(name) for name in shared.columns]
    found = find_coordinates(names)
    if found is not None:
        return shared.columns[found.latitude], shared.columns[found.longitude]
    if len(names) == len(_PAIR):
        return shared.columns[0], shared.columns[1]
    raise DataError("there are no coordinate columns such as 'latitude' and 'longitude'; rename or select two columns")


# Columns that are carried along come back with their types, but not with what these say of other rows.


def pandas_column(column: pa.ChunkedArray, kind: Any) -> Any:
    """Return a column of Arrow as values for pandas, of a type that it had there.

    A category type may list its categories in the order in which they first came, and those that no row has. Only
    those in use come back, sorted unless their order means something.
    """
    pandas = sys.modules["pandas"]
    if isinstance(kind, pandas.CategoricalDtype):
        values = column.to_pandas()
        used = set(values.dropna())
        categories = [each for each in kind.categories if each in used] if kind.ordered else None
        return pandas.Categorical(values, categories=categories, ordered=kind.ordered)
    if isinstance(kind, pandas.ArrowDtype):
        return pandas.ArrowDtype(column.type).__from_arrow__(column)
    if hasattr(kind, "__from_arrow__"):
        return kind.__from_arrow__(column)
    return column.to_pandas().astype(kind)
