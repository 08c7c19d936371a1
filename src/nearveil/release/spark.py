"""Protect a Spark DataFrame: the same mechanisms, card and ledger as on one machine, for as many as fit a cluster.

Nothing is drawn twice: a row's noise follows from a secret of the job and the row's key, so a task that is repeated
repeats it, and what is returned has been written down once. Nothing shows in the order: rows are dealt to partitions
and sorted within them by numbers that look random without the secret. Reading and writing is Spark's own.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError, NearveilError, UsageError, require_package
from nearveil.io.carried import check_carried, second_location, second_locations
from nearveil.io.columns import degrees_column, find_coordinates, person_columns
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.intervals import Intervals
from nearveil.privacy.guarantee import Guarantee
from nearveil.privacy.ledger import Ledger
from nearveil.randomness import subkey
from nearveil.release.card import card_of, check_mechanism
from nearveil.release.charging import charge_release, with_refusals_charged
from nearveil.release.publishing import predicting_columns, telling_column
from nearveil.release.row_names import checked_secret
from nearveil.release.spark_tasks import (
    TALLY_SCHEMA,
    PlaceColumns,
    PlacesInSpark,
    ReleaseRows,
    Tally,
    TallyRows,
    pickled,
    run_on_batches,
    tally_from_table,
)
from nearveil.types import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A release, and what is true of it.

    Attributes
    ----------
    rows : DataFrame
        The published rows, written down already: every action returns the same.
    guarantee : Guarantee
        The card.
    mechanism : Mechanism
        As it was used, with its intervals or cells.
    count : int
        How many rows there are, as many as went in.
    clipped : int
        How many were outside the region and moved to its edge first: a figure about true places, not to be published.
    several_rows : bool
        Whether a person may have several rows, so that the card counts rows.
    fitted_here : bool
        Whether the intervals or cells are from these very people.
    warnings : tuple of str
        What an operator should think about.
    """

    rows: DataFrame
    guarantee: Guarantee
    mechanism: Mechanism
    count: int
    clipped: int = field(repr=False)
    several_rows: bool
    fitted_here: bool
    warnings: tuple[str, ...]


class SparkFailedError(NearveilError):
    """Spark could not do it; its own log says more."""


# What a task of ours says of an error. It names classes and packages only.
_OF_TASKS = re.compile(
    r"Nearveil failed on an executor \(\w+\); please report it|executors cannot import [\w.]+; install it on them"
)
# Both print a whole message of Spark, with values, as soon as there is an error.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def _without_values() -> Iterator[None]:
    """Turn an error of Spark into a sentence with its class; what else it says may have values of the data in it."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - an extra
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - an extra

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    except (PySparkException, Py4JError) as error:
        own = _OF_TASKS.search(str(error))
        sentence = f"Spark could not do it ({type(error).__name__}); its own log, at level INFO, says more"
        raise SparkFailedError(own[0] if own else sentence) from None
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def protect(
    df: DataFrame,
    *,
    mechanism: Mechanism,
    key: str,
    read: ReadOptions | None = None,
    ledger: Ledger | None = None,
    secret: bytes | None = None,
    progress: Progress | None = None,
) -> Protected:
    """Publish other places for everybody in a DataFrame.

    The rows returned are in a checkpoint: in the checkpoint folder of the Spark context if it has one, which outlives
    executors, and on the executors otherwise. With those gone the rows are gone, too, rather than drawn again.

    Parameters
    ----------
    df : DataFrame
        True places, one row each. It is read several times and must be the same each time.
    mechanism : Mechanism
        DPRS without intervals and HideAmong without cells are fitted on these people, at the cost that the card states.
    key : str
        A column of whole numbers or text with a different value in every row.
    read : ReadOptions, optional
        Which columns are what. The key may be among those dropped, and tells people apart unless ``person`` does.
    ledger : Ledger, optional
        Everybody is charged in it before anything is published. It keeps ids on the driver.
    secret : bytes, optional
        16 random bytes, to repeat a release of the same rows by the same mechanism, whose intervals or cells are given
        or found already; fresh if not given. Anyone who has them can undo the noise.
    progress : callable, optional
        Called with 1 after each round of a fit.
    """
    require_package("pyspark", "protecting a Spark DataFrame")
    job = _Job(mechanism, key, read or ReadOptions(), ledger, checked_secret(secret), secret is not None, progress)
    with _without_values():
        planned = job.planned(df)
        job.charge(df, planned)
        rows = _written_down(planned.rows)
        if rows.count() != planned.count:
            raise DataError("the rows changed while they were being protected; protect a table or file that is at rest")
    return replace(planned, rows=rows)


# One release with Spark, step by step: look at all rows, refuse what cannot be used, fit, charge, plan.


@dataclass(frozen=True, slots=True)
class _Job:
    """What is asked for; ``repeats`` says that the secret was given, to repeat a release."""

    mechanism: Mechanism
    key: str
    read: ReadOptions
    ledger: Ledger | None
    secret: bytes = field(repr=False)
    repeats: bool
    progress: Progress | None

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        if self.mechanism.seed is not None:
            raise UsageError("a seed protects nobody, and there is no use for one on Spark; leave seed= out")
        if self.ledger is not None and self.read.per_row:
            raise UsageError("a ledger charges people, one row each; leave per_row=True or the ledger out")
        for each in fields(self.read):
            if each.name not in _READ_ON_SPARK and getattr(self.read, each.name) != each.default:
                raise UsageError(
                    f"{each.name}= is for files, and Spark reads its own; give a DataFrame with degrees in two columns"
                )
        if self.repeats and self.mechanism.is_to_be_fitted:
            raise UsageError(
                f"a secret repeats a release with the same {self.mechanism.learns}, and these are to be found anew; "
                f"give {self.mechanism.learns}"
            )

    def planned(self, df: DataFrame) -> Protected:
        """Check everything and fit; return the release with its rows still a plan."""
        if not hasattr(df, "sparkSession"):
            raise UsageError("df must be a Spark DataFrame; for a file there is protect_file, for arrays perturb")
        _check_session(df.sparkSession)
        if df.isStreaming:
            raise UsageError("a stream has no end to count its keys by; protect its batches, one by one")
        columns, kept = _find_columns(df.columns, key=self.key, read=self.read)
        _check_key_type(df.schema, self.key)
        # By position: names may have dots in them.
        numbered = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
        people = numbered.select(*(f"c{place}" for place in kept)).toDF(*(f"c{place}" for place in range(len(kept))))
        warnings = (*_session_warnings(df.sparkSession), *_check_published(people, columns))
        tally = self._tally(people, columns)
        _refuse_repeated_keys(people, columns, tally.rows)
        warnings = (*warnings, *_warn_of_predicting(people, columns, tally.rows))
        several_rows, suspicions = _check_persons(
            df, columns, tally.rows, person=self._other_person, per_row=self.read.per_row
        )
        if self.ledger is not None:
            if several_rows:
                raise UsageError(
                    "a ledger charges people, but some seem to have several rows; name their column with person="
                )
            _check_key_type(df.schema, self._other_person or self.key)
        fitted_here = self.mechanism.is_to_be_fitted
        # The caller's own is not changed.
        mechanism = copy.copy(self.mechanism) if fitted_here else self.mechanism

        def fit() -> tuple[Guarantee, Mechanism]:
            if fitted_here:
                places = people.select(f"c{columns.latitude}", f"c{columns.longitude}")
                asked = PlacesInSpark(places, self._places(0, 1, mechanism), tally)
                mechanism.fit(asked, progress=self.progress)
            card = card_of(mechanism, several_rows=several_rows, fitted_here=fitted_here, clip=self.read.clip)
            # Executors draw by the very numbers that the card is about.
            return card, mechanism.settled()

        card, settled = with_refusals_charged(fit, self.ledger, mechanism, self._ids(df))
        clipped = tally.outside if self.read.clip else 0
        rows = _released_rows(
            people,
            columns,
            self._places(columns.latitude, columns.longitude, mechanism),
            settled,
            job_key(self.secret, settled, tally),
        )
        return Protected(
            rows=rows,
            guarantee=card,
            mechanism=mechanism,
            count=tally.rows,
            clipped=clipped,
            several_rows=several_rows,
            fitted_here=fitted_here,
            warnings=(*warnings, *suspicions),
        )

    @property
    def _other_person(self) -> str | None:
        """The column that tells people apart, if it is named and is not the key, of which every value is there once."""
        return None if self.read.person == self.key else self.read.person

    def _places(self, latitude: int, longitude: int, mechanism: Mechanism) -> PlaceColumns:
        return PlaceColumns(latitude, longitude, mechanism.area, self.read.clip)

    def _tally(self, people: DataFrame, columns: _Columns) -> Tally:
        region = self.mechanism.area
        wanted = people.select(*(f"c{place}" for place in (columns.key, columns.latitude, columns.longitude)))
        tally = tally_from_table(run_on_batches(wanted, TallyRows(region, self.secret), TALLY_SCHEMA).toArrow())
        tally.refuse_faults(self.key, region, clip=self.read.clip)
        return tally

    def _ids(self, df: DataFrame) -> Iterator[object]:
        """Everybody's id, collected when it is first asked for."""
        yield from df.select(_quoted(self._other_person or self.key)).toArrow().column(0).to_pylist()

    def charge(self, df: DataFrame, planned: Protected) -> None:
        """Put everybody's loss on record, or refuse the release."""
        if self.ledger is not None:
            charge_release(self.ledger, planned.mechanism, self._ids(df), fitted_here=planned.fitted_here)


# From true rows to a plan for published ones, and from the plan to rows that are written down.


def job_key(secret: bytes, mechanism: Mechanism, tally: Tally) -> bytes:
    """Return the key of one release: of these rows, by this mechanism.

    One secret used for two releases would give a row the same noise twice, and the difference of the two places would
    be the true one. With this key any other row or parameter makes all noise new.
    """
    settings = sorted(vars(mechanism).items())
    parts = [f"{name}={_as_text(value)}".encode() for name, value in settings]
    if mechanism.learned is not None:
        parts.append(_as_text(mechanism.learned).encode())
    return subkey(secret, "job", type(mechanism).__qualname__.encode(), *parts, tally.digest.tobytes())


def _as_text(value: object) -> str:
    if isinstance(value, Intervals | Cells):
        return value.to_json()
    # By default NumPy leaves out numbers of long arrays and digits of all.
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return repr(value)


def _released_rows(
    people: DataFrame,
    columns: _Columns,
    places: PlaceColumns,
    mechanism: Mechanism,
    secret: bytes,
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
    return rows.repartition(*order).sortWithinPartitions(*order).drop(*order)


def _written_down(plan: DataFrame) -> DataFrame:
    """Compute the rows once and forget how: a plan that is computed again could meet other data."""
    if plan.sparkSession.sparkContext.getCheckpointDir() is not None:
        return plan.checkpoint(eager=True)
    return plan.localCheckpoint(eager=True)


def _schema(people: DataFrame, columns: _Columns) -> StructType:
    from pyspark.sql.types import DoubleType, LongType, StructField, StructType  # noqa: PLC0415 - an extra

    coordinates = (columns.latitude, columns.longitude)
    kinds = [
        DoubleType() if place in coordinates else _plain_field_type(people.schema[place].dataType)
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


# What a session must be like, and which columns of a DataFrame are what.


_READ_ON_SPARK = ("latitude", "longitude", "drop", "person", "per_row", "clip")
_UNENCRYPTED = (
    "Spark may write what executors hold in memory, the job's secret included, to their disks unencrypted; set "
    "spark.io.encryption.enabled, and spark.authenticate and spark.network.crypto.enabled for what travels"
)


def _check_session(spark: object) -> None:
    """Refuse Spark Connect: it puts functions, and the secret in them, into plans that servers keep."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            "Spark Connect writes a job's functions, and so its secret, into plans that servers log; use a classic "
            "session, as spark-submit makes it"
        )


def _session_warnings(spark: SparkSession) -> tuple[str, ...]:
    """Return what an operator should know about the session's settings."""
    context = spark.sparkContext
    encrypted = (context.getConf().get("spark.io.encryption.enabled", "false") or "").lower() == "true"
    return () if encrypted or (context.master or "").startswith("local") else (_UNENCRYPTED,)


_SAMPLE_ROWS = 200
_PREDICTING_ROWS = 4096
_KEY_TYPES = ("tinyint", "smallint", "int", "bigint", "string")


@dataclass(frozen=True, slots=True)
class _Columns:
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


def _find_columns(names: list[str], *, key: str, read: ReadOptions) -> tuple[_Columns, list[int]]:
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
            "name them with latitude= and longitude="
        )
    position = left.index(key)
    if position in (found.latitude, found.longitude):
        raise UsageError("the key is a coordinate, and equal places would get equal noise; name another column")
    return _Columns(left, position, found.latitude, found.longitude, key not in read.drop), kept


def _check_key_type(schema: StructType, key: str) -> None:
    """Refuse a key that is neither a whole number nor text."""
    kind = schema[key].dataType.simpleString().split(" collate")[0]
    if kind not in _KEY_TYPES:
        raise DataError(f"the key {key!r} is neither whole numbers nor text; cast it to either")


def _check_published(df: DataFrame, columns: _Columns) -> tuple[str, ...]:
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


def _warn_of_predicting(df: DataFrame, columns: _Columns, rows: int) -> tuple[str, ...]:
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


def _likely_person_columns(schema: StructType, columns: _Columns) -> list[str]:
    """Return columns, other than the key, that look like the id of a person; whether they are published or not."""
    flat = [field.name for field in schema if _is_flat(field.dataType) and field.name != columns.names[columns.key]]
    return person_columns(flat)


def _plain_field_type(kind: DataType) -> DataType:
    """Return the type without what its parts say of themselves: statistics of true places may hide there."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType  # noqa: PLC0415 - an extra

    if isinstance(kind, StructType):
        return StructType([StructField(part.name, _plain_field_type(part.dataType), part.nullable) for part in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(_plain_field_type(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_plain_field_type(kind.keyType), _plain_field_type(kind.valueType), kind.valueContainsNull)
    return kind


def _quoted(name: str) -> str:
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


def _refuse_repeated_keys(people: DataFrame, columns: _Columns, rows: int) -> None:
    """Raise if two rows have one key: they would get the same noise, and tell more together than either alone."""
    distinct, _ = _distinct(people, f"c{columns.key}")
    if distinct < rows:
        name = columns.names[columns.key]
        raise DataError(
            f"{rows - distinct:,} rows repeat the {name!r} of another row, and equal keys would get equal noise; name "
            "a key with a different value in every row"
        )


def _check_persons(
    df: DataFrame, columns: _Columns, rows: int, *, person: str | None, per_row: bool
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
    distinct, missing = _distinct(df, _quoted(person))
    if missing:
        raise DataError(f"{missing:,} rows have no {person!r}; complete or remove such rows")
    if distinct < rows and not per_row:
        raise DataError(
            f"{rows - distinct:,} rows have the same {person!r} as another: several rows of a person protect that "
            "person less; keep one row each, or accept that with per_row=True"
        )
    return distinct < rows, ()


def _suspicions(df: DataFrame, columns: _Columns, rows: int) -> tuple[str, ...]:
    """Warn of a column that looks like a person's id and repeats."""
    for name in _likely_person_columns(df.schema, columns):
        distinct, missing = _distinct(df, _quoted(name))
        if distinct + min(missing, 1) < rows:
            return (
                f"column {name!r} looks like a person's id and repeats: several rows of a person protect that person "
                "less, and the card counts rows; name it with person=",
            )
    return ()


def _distinct(df: DataFrame, column: str) -> tuple[int, int]:
    """Return how many different values there are, and how many rows without one."""
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    counted = df.agg(functions.count_distinct(column), functions.count(column), functions.count("*")).first()
    assert counted is not None  # noqa: S101 - an aggregation has one row
    distinct, present, rows = counted
    return int(distinct), int(rows) - int(present)
