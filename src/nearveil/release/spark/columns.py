"""Which column is which in a DataFrame, that none of them gives the true place away, and that ids occur once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError, UsageError
from nearveil.io.carried import check_carried, second_location, second_locations
from nearveil.io.columns import degrees_column, find_coordinates, person_columns
from nearveil.io.people import ReadOptions
from nearveil.release.publishing import predicting_columns, telling_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


_SAMPLE_ROWS = 200
_PREDICTING_ROWS = 4096
_KEY_TYPES = ("tinyint", "smallint", "int", "bigint", "string")


@dataclass(frozen=True, slots=True)
class Columns:
    """Positions in the DataFrame that goes to the executors.

    Attributes
    ----------
    names : tuple of str
        All columns that are not left out, the key's among them.
    key, latitude, longitude : int
        Their positions.
    carries_key : bool
        Whether the key is published.
    """

    names: tuple[str, ...]
    key: int
    latitude: int
    longitude: int
    carries_key: bool

    @property
    def published(self) -> list[int]:
        """Positions of the columns that are published."""
        return [place for place in range(len(self.names)) if self.carries_key or place != self.key]


def find_columns(names: list[str], *, key: str, read: ReadOptions) -> tuple[Columns, list[int]]:
    """Return the columns to work on, and their positions in the DataFrame."""
    for name in read.drop:
        if name not in names:
            raise DataError(f"there is no column {name!r} to drop")
    if names.count(key) != 1:
        many = "there is no column" if key not in names else "there are several columns"
        raise DataError(f"{many} {key!r} to tell rows apart by; name one with a different value in every row")
    kept = [place for place, name in enumerate(names) if name not in read.drop or name == key]
    left = tuple(names[place] for place in kept)
    found = find_coordinates(left, read.latitude, read.longitude)
    if found is None:
        raise DataError(
            "there are no coordinate columns such as 'latitude' and 'longitude'; "
            "name them with --latitude and --longitude"
        )
    position = left.index(key)
    if position in (found.latitude, found.longitude):
        raise UsageError("the key is a coordinate, and equal places would get equal noise; name another column")
    return Columns(left, position, found.latitude, found.longitude, key not in read.drop), kept


def check_key_type(schema: StructType, key: str) -> None:
    """Refuse a key that is neither a whole number nor text."""
    kind = schema[key].dataType.simpleString().split(" collate")[0]
    if kind not in _KEY_TYPES:
        raise DataError(f"the key {key!r} is neither whole numbers nor text; cast it to either")


def check_published(df: DataFrame, columns: Columns) -> tuple[str, ...]:
    """Refuse to carry a second exact location over, as the local engine does; return its warnings."""
    sample = _first_rows(df, _SAMPLE_ROWS)
    if not sample.num_rows:
        raise DataError("there are no rows; give at least one person")
    try:
        coordinates = [degrees_column(sample.column(place), "") for place in (columns.latitude, columns.longitude)]
    except DataError:
        # Rows that hold no numbers are counted and refused later on; names can be looked at now.
        coordinates = [np.full(sample.num_rows, np.nan)] * 2
    coordinate_places = (columns.latitude, columns.longitude)
    carried = [place for place in columns.published if place not in coordinate_places]
    table = pa.table([sample.column(place) for place in carried], names=[columns.names[place] for place in carried])
    return check_carried(table, np.column_stack(coordinates)) if carried else ()


def warn_of_predicting(df: DataFrame, columns: Columns, rows: int) -> tuple[str, ...]:
    """Return a warning for each published column that follows people's places, by a sample of the rows.

    The sample is so small that Spark sends it to the driver at once: a larger result would wait in its block store.
    """
    coordinates = (columns.latitude, columns.longitude)
    carried = [place for place in columns.published if place not in coordinates and _is_flat(df.schema[place].dataType)]
    if not carried:
        return ()
    wanted = df.select(*(f"c{place}" for place in (*carried, *coordinates)))
    sample = wanted.sample(fraction=min(1.0, _PREDICTING_ROWS / rows)).toArrow()
    points = np.column_stack([degrees_column(sample.column(len(carried) + axis), "") for axis in (0, 1)])
    table = sample.select(range(len(carried))).rename_columns([columns.names[place] for place in carried])
    exact = second_locations(table, points)
    if exact:
        raise second_location(*exact)
    return tuple(telling_column(name) for name in predicting_columns(table, points))


def likely_person_columns(schema: StructType, columns: Columns) -> list[str]:
    """Return columns, other than the key, that look like the id of a person; whether they are published or not."""
    flat = [field.name for field in schema if _is_flat(field.dataType) and field.name != columns.names[columns.key]]
    return person_columns(flat)


def plain_field_type(kind: DataType) -> DataType:
    """Return the type without what its parts say of themselves: statistics of true places may hide there."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType  # noqa: PLC0415 - an extra

    if isinstance(kind, StructType):
        return StructType([StructField(part.name, plain_field_type(part.dataType), part.nullable) for part in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(plain_field_type(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(plain_field_type(kind.keyType), plain_field_type(kind.valueType), kind.valueContainsNull)
    return kind


def quoted(name: str) -> str:
    """Return a column's name as Spark takes it, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def _first_rows(df: DataFrame, count: int) -> pa.Table:
    """Return some rows: to the driver and nowhere else. Spark's own way to Arrow would shuffle them, in files."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - an extra

    rows = [row.asDict(recursive=True) for row in df.take(count)]
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(df.schema))


def _is_flat(kind: Any) -> bool:
    return kind.typeName() not in ("array", "map", "struct", "variant")


# One key, one row; one person, one row: counted by Spark, one aggregation each.


def refuse_repeated_keys(people: DataFrame, columns: Columns, rows: int) -> None:
    """Raise if two rows have one key: they would get the same noise, and tell more together than either alone."""
    distinct, _ = _distinct(people, f"c{columns.key}")
    if distinct < rows:
        name = columns.names[columns.key]
        raise DataError(
            f"{rows - distinct:,} rows repeat the {name!r} of another row, and equal keys would get equal noise; name "
            "a key with a different value in every row"
        )


def check_persons(
    df: DataFrame, columns: Columns, rows: int, *, person: str | None, per_row: bool
) -> tuple[bool, tuple[str, ...]]:
    """Return whether some person may have several rows, and warnings; refuse that unless ``per_row``.

    ``person`` is None if the key tells people apart.
    """
    if person is None:
        suspicions = () if per_row else _suspicions(df, columns, rows)
        return per_row or bool(suspicions), suspicions
    if df.columns.count(person) != 1:
        many = "there is no column" if person not in df.columns else "there are several columns"
        raise DataError(f"{many} {person!r} to tell people apart by; check the name")
    distinct, missing = _distinct(df, quoted(person))
    if missing:
        raise DataError(f"{missing:,} rows have no {person!r}; complete or remove such rows")
    if distinct < rows and not per_row:
        raise DataError(
            f"{rows - distinct:,} rows have the same {person!r} as another: several rows of a person protect that "
            "person less; keep one row each, or accept that (per_row)"
        )
    return distinct < rows, ()


def _suspicions(df: DataFrame, columns: Columns, rows: int) -> tuple[str, ...]:
    """Warn of a column that looks like a person's id and repeats."""
    for name in likely_person_columns(df.schema, columns):
        distinct, missing = _distinct(df, quoted(name))
        if distinct + min(missing, 1) < rows:
            return (
                f"column {name!r} looks like a person's id and repeats: several rows of a person protect that person "
                "less, and the card counts rows; name it as the person",
            )
    return ()


def _distinct(df: DataFrame, column: str) -> tuple[int, int]:
    """Return how many different values there are, and how many rows without one."""
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    counted = df.agg(functions.count_distinct(column), functions.count(column), functions.count("*")).first()
    assert counted is not None  # noqa: S101 - an aggregation has one row
    distinct, present, rows = counted
    return int(distinct), int(rows) - int(present)
