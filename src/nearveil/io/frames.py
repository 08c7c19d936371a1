"""Frames of pandas, GeoPandas, Polars and Arrow: locations from them, and published ones as a frame of their kind."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.io.location import Location, ReadOptions, Style, Values, epsg_name, find_location, objects, only_column
from nearveil.types import FloatArray, IntArray

_FIRST_ROWS = 1000


def is_frame(value: object) -> bool:
    """Whether something is a frame of any library."""
    return hasattr(value, "columns") and not isinstance(value, type)


def points_in_frame(frame: Any, read: ReadOptions | None = None) -> FloatArray:
    """Return latitude and longitude of all rows; a row without a location is an error with its number.

    Examples
    --------
    >>> import polars
    >>> points_in_frame(polars.DataFrame({"id": [1], "lat": [37.77], "lon": [-122.42]})).tolist()
    [[37.77, -122.42]]
    """
    points = true_points(frame, read)
    location_in_frame(frame, read).check(points)
    return points


def true_points(frame: Any, read: ReadOptions | None = None) -> FloatArray:
    """Return latitude and longitude of all rows; NaN where a row has no readable location."""
    location = location_in_frame(frame, read)
    if location.is_geometry:
        # Without a reference system, they are degrees.
        geometry = frame.geometry if frame.crs is None else frame.geometry.to_crs("OGC:CRS84")
        are_points = ((geometry.geom_type == "Point") & ~geometry.is_empty).to_numpy()
        x, y = (np.asarray(axis, dtype=np.float64) for axis in (geometry[are_points].x, geometry[are_points].y))
        points = np.full((len(frame), 2), np.nan)
        points[are_points] = np.column_stack([y, x])
        return points
    shared = _shared(frame)
    return location.decode([_values(shared, name) for name in location.columns])


def location_in_frame(frame: Any, read: ReadOptions | None = None) -> Location:
    """Return how a frame writes locations down."""
    if hasattr(frame, "to_crs") and (read is None or (read.location is None and read.latitude is None)):
        # A reference system of somebody's own may be centered on a user.
        crs = None if frame.crs is None else epsg_name(frame.crs.to_wkt())
        return Location(columns=(str(frame.geometry.name),), style=Style.WKB, crs=crs, is_geometry=True)
    shared = _shared(frame)
    names = _names(shared)

    def values(name: str) -> Values:
        return _values(shared.head(_FIRST_ROWS), name)

    return find_location(names, read, values)


def columns_of_frame(frame: Any, read: ReadOptions | None = None) -> tuple[str, ...]:
    """Return the names of all columns without the location's."""
    location = location_in_frame(frame, read)
    return tuple(name for name in _names(_shared(frame)) if name not in location.columns)


def values_in_frame(frame: Any, name: str) -> Values:
    """Return a column as NumPy has it: numbers as floats, anything else as objects."""
    return _values(_shared(frame), name)


def users_in_frame(frame: Any, user: str) -> list[str]:
    """Return the ids of the users as text, whole numbers as their digits; ``user`` is the name of their column."""
    ids = [_id_as_text(value) for value in _column(_shared(frame), user).to_list()]
    row = next((row for row, identity in enumerate(ids, start=1) if not identity.strip()), None)
    if row is not None:
        raise DataError(f"row {row}: {user!r} is missing or neither text nor a whole number; give every row an id")
    return ids


def _id_as_text(value: Any) -> str:
    """Return an id as text; empty if it is none."""
    if isinstance(value, str) or type(value).__name__ == "UUID":
        return str(value)
    is_whole = isinstance(value, int | float | np.number) and not isinstance(value, bool) and float(value).is_integer()
    return str(int(value)) if is_whole else ""


def published_frame(
    frame: Any,
    points: FloatArray,
    columns: Sequence[str],
    order: IntArray,
    read: ReadOptions | None = None,
) -> Any:
    """Return a frame of the same kind with these columns and published locations, and nothing else of the frame.

    ``points`` has a published location for each row of the frame; ``order`` says which rows come in which order. The
    index is new, and there are no attributes, metadata or categories.
    """
    location, shared = location_in_frame(frame, read), _shared(frame)
    names = [name for name in _names(shared) if name in columns or name in location.columns]
    if location.is_geometry:
        moved = location.numbers_of(points[order])
        crs = frame.crs and (location.crs or "EPSG:4326")
        placed: dict[str, Any] = {
            location.columns[0]: sys.modules["geopandas"].GeoSeries.from_xy(moved[:, 1], moved[:, 0], crs=crs)
        }
    else:
        placed = dict(zip(location.columns, location.encode(points[order]), strict=True))
    library = shared.implementation
    if library.is_pandas():
        native = {name: placed[name] if name in placed else _pandas_values(shared, name, order) for name in names}
        own = dict(zip(_names(shared), frame.columns, strict=True))
        data = {own[name]: values for name, values in native.items()}
        if location.is_geometry:
            return sys.modules["geopandas"].GeoDataFrame(data, geometry=own[location.columns[0]])
        return sys.modules["pandas"].DataFrame(data)
    if library.is_pyarrow():
        return _arrow_table(shared, placed, names, order)
    import narwhals as nw  # noqa: PLC0415 - for frames only

    series = [
        nw.new_series(name, placed[name].tolist() if placed[name].dtype == object else placed[name], backend=library)
        if name in placed
        else _plain_series(_column(shared, name), order)
        for name in names
    ]
    return nw.from_dict({one.name: one for one in series}, backend=library).to_native()


def frame_of_points(points: FloatArray, like: Any) -> Any:
    """Return locations alone, in their order, in a frame of the kind and with the names of another."""
    return published_frame(like, points, (), np.arange(len(points)))


def _pandas_values(shared: Any, name: str, order: IntArray) -> Any:
    """Return rows of a column of pandas, with its type but without categories, or values under missing ones."""
    array = _column(shared, name).to_native().array.take(order)
    inner, is_sparse = str(getattr(array.dtype, "pyarrow_dtype", "")), hasattr(array, "sp_values")
    if hasattr(array, "categories") or is_sparse or re.match("struct|list|map|dictionary|extension", inner):
        # Their types say more than the rows: other categories, what is left out, metadata of fields.
        return np.asarray(array, dtype=object if inner else None)
    is_hiding = inner or hasattr(array, "_mask")
    return type(array)._from_sequence(list(array), dtype=array.dtype) if is_hiding else array


def _plain_series(series: Any, order: IntArray) -> Any:
    """Return rows of a column without categories, or values under missing ones."""
    import narwhals as nw  # noqa: PLC0415 - for frames only

    taken = series[order.tolist()]
    if taken.dtype in (nw.Categorical, nw.Enum):
        return taken.cast(nw.String)
    if any(kind in str(taken.dtype) for kind in ("Categorical", "Enum")):
        raise DataError(f"column {taken.name!r} holds categories in lists or structures; make them text")
    if taken.dtype.is_nested() or taken.null_count():
        return nw.new_series(taken.name, taken.to_list(), taken.dtype, backend=taken.implementation)
    return taken


def _arrow_table(shared: Any, placed: dict[str, Any], names: list[str], order: IntArray) -> Any:
    """Return rows of a table of Arrow without metadata and categories, or values under missing ones."""
    import pyarrow as pa  # noqa: PLC0415 - who has such a table has it

    from nearveil.io.readers import plain  # noqa: PLC0415 - needs pyarrow

    kept = plain(shared.to_native().select([name for name in names if name not in placed]).take(pa.array(order)))
    columns = {}
    for name in names:
        column = pa.array(placed[name].tolist()) if name in placed else kept.column(name)
        is_clean = name in placed or not (pa.types.is_nested(column.type) or column.null_count)
        columns[name] = column if is_clean else pa.array(column.to_pylist(), column.type)
    return pa.table(columns)


def _shared(frame: Any) -> Any:
    """Return a frame as narwhals has it, which is one interface to all libraries."""
    import narwhals as nw  # noqa: PLC0415 - for frames only

    try:
        return nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError:
        raise DataError("several columns of the frame have the same name; rename all but one") from None
    except TypeError:
        raise UsageError(
            "this is not a frame that Nearveil knows; give one of pandas, Polars, GeoPandas or Arrow (a lazy one after "
            "collect)"
        ) from None


def _names(shared: Any) -> list[str]:
    return [str(name) for name in shared.columns]


def _column(shared: Any, name: str) -> Any:
    names = _names(shared)
    return shared.get_column(shared.columns[names.index(only_column(names, name))])


def _values(shared: Any, name: str) -> Values:
    """Return a column as NumPy has it: numbers as floats, anything else as objects."""
    import narwhals as nw  # noqa: PLC0415 - for frames only

    column = _column(shared, name)
    if column.dtype.is_numeric() and not isinstance(column.dtype, nw.Decimal):
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if isinstance(column.dtype, nw.Categorical):
        column = column.cast(nw.String)
    return objects(column.to_list())
