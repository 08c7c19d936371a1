"""From true rows to a plan for published ones, and from the plan to rows that are written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearveil.engines.batch_places import PlaceColumns
from nearveil.engines.releasing import ReleaseRows
from nearveil.engines.spark_columns import Columns, plain_field_type, quoted
from nearveil.engines.spark_tasks import pickled, run_on_batches
from nearveil.engines.tally import Tally
from nearveil.hashing import subkey
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def job_key(secret: bytes, mechanism: Mechanism, tally: Tally) -> bytes:
    """Return the key of one release: of these rows, by this mechanism.

    One secret used for two releases would give a row the same noise twice, and the difference of the two places would
    be the true one. With this key any other row or parameter makes all noise new.
    """
    settings = sorted(vars(mechanism).items())
    parts = [f"{name}={_as_text(value)}".encode() for name, value in settings]
    if isinstance(mechanism, DPRS):
        parts.append(_as_text(mechanism.current_intervals).encode())
    return subkey(secret, "job", type(mechanism).__qualname__.encode(), *parts, tally.digest.tobytes())


def _as_text(value: object) -> str:
    return value.to_json() if isinstance(value, Intervals) else repr(value)


def released_rows(
    people: DataFrame,
    columns: Columns,
    places: PlaceColumns,
    mechanism: Mechanism,
    secret: bytes,
    partition_by: tuple[str, ...] = (),
) -> DataFrame:
    """Return a plan for the published rows, dealt to partitions and sorted by numbers that only the secret explains.

    True places are replaced before anything is shuffled, so shuffle files hold published places only.
    """
    # The mechanism may be large, and what is large Spark keeps in files; so the secret does not go with it.
    shared = people.sparkSession.sparkContext.broadcast(pickled(mechanism))
    task = ReleaseRows(shared, secret, places, columns.key, columns.carries_key)
    names = [columns.names[place] for place in columns.published]
    order = _new_names(names)
    rows = run_on_batches(people, task, _schema(people, columns)).toDF(*names, *order)
    within = [quoted(name) for name in (*partition_by, *order)]
    return rows.repartition(*order).sortWithinPartitions(*within).drop(*order)


def written_down(plan: DataFrame) -> DataFrame:
    """Compute the rows once and forget how: a plan that is computed again could meet other data."""
    if plan.sparkSession.sparkContext.getCheckpointDir() is not None:
        return plan.checkpoint(eager=True)
    return plan.localCheckpoint(eager=True)


def _schema(people: DataFrame, columns: Columns) -> StructType:
    from pyspark.sql.types import DoubleType, LongType, StructField, StructType  # noqa: PLC0415 - an extra

    coordinates = (columns.latitude, columns.longitude)
    kinds = [
        DoubleType() if place in coordinates else plain_field_type(people.schema[place].dataType)
        for place in columns.published
    ]
    kinds += [LongType(), LongType()]
    return StructType([StructField(f"c{number}", kind) for number, kind in enumerate(kinds)])


def _new_names(names: list[str]) -> list[str]:
    """Return two names that no column has."""
    stem = "nearveil_order"
    while any(name.lower().startswith(stem) for name in names):
        stem += "_"
    return [f"{stem}_1", f"{stem}_2"]
