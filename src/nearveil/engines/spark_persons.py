"""One key, one row; one person, one row: counted by Spark, one aggregation each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearveil.engines.spark_columns import Columns, likely_person_columns, quoted
from nearveil.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
