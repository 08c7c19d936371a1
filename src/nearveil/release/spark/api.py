"""Protect a Spark DataFrame: the same mechanisms, card and ledger as on one machine."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nearveil.errors import DataError, UsageError
from nearveil.hashing import checked_secret
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells
from nearveil.mechanisms.intervals import Intervals
from nearveil.privacy.guarantee import Guarantee
from nearveil.privacy.ledger import Ledger
from nearveil.randomness import subkey
from nearveil.release.card import card_of, check_mechanism
from nearveil.release.charging import charge_release, with_refusals_charged
from nearveil.release.protect import ProtectJob, ProtectResult, TrueFigures
from nearveil.release.spark.columns import (
    Columns,
    check_key_type,
    check_persons,
    check_published,
    find_columns,
    plain_field_type,
    quoted,
    refuse_repeated_keys,
    warn_of_predicting,
)
from nearveil.release.spark.errors import spark_errors
from nearveil.release.spark.paths import (
    check_count,
    check_files,
    check_format,
    check_paths,
    format_of,
    read_path,
    write_path,
)
from nearveil.release.spark.session import check_session, require_spark, session, session_warnings
from nearveil.release.spark.tasks import (
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
    from pyspark.sql.types import StructType


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


# Protect a Spark DataFrame: the same mechanisms, card and ledger as on one machine, for as many as fit a cluster.
#
# Nothing is drawn twice: a row's noise follows from a secret of the job and the row's key, so a task that is repeated
# repeats it, and what is returned has been written down once. Nothing shows in the order: rows are dealt to
# partitions and sorted within them by numbers that look random without the secret.


@spark_errors()
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
    job = Job(
        mechanism=mechanism,
        key=key,
        read=read or ReadOptions(),
        ledger=ledger,
        secret=checked_secret(secret),
        repeats=secret is not None,
        progress=progress,
    )
    planned = job.planned(df)
    job.charge(df, planned)
    rows = written_down(planned.rows)
    check_count(rows, planned.count)
    return replace(planned, rows=rows)


@spark_errors()
def protect_path(
    spark: SparkSession,
    source: str,
    output: str,
    *,
    mechanism: Mechanism,
    key: str,
    input_format: str | None = None,
    output_format: str | None = None,
    partition_by: tuple[str, ...] = (),
    force: bool = False,
    read: ReadOptions | None = None,
    ledger: Ledger | None = None,
    secret: bytes | None = None,
    progress: Progress | None = None,
) -> Protected:
    """Publish other places for everybody at a path, at another path.

    Parameters
    ----------
    spark : SparkSession
        A classic session.
    source, output : str
        Any paths that Spark reads and writes. The output is a folder, written whole or not at all.
    input_format, output_format : str, optional
        Spark's names of formats, such as ``"delta"``. Otherwise the extension decides: CSV, ORC, or else Parquet.
    partition_by : tuple of str
        Columns to make folders of.
    force : bool
        Replace the output if it exists.
    mechanism, key, read, ledger, secret, progress
        As of `protect`.
    """
    job = Job(
        mechanism=mechanism,
        key=key,
        read=read or ReadOptions(),
        ledger=ledger,
        secret=checked_secret(secret),
        repeats=secret is not None,
        progress=progress,
    )
    check_session(spark)
    written_as = output_format or format_of(output)
    for kind in (input_format, written_as):
        if kind is not None:
            check_format(spark, kind)
    check_paths(spark, source, output, force=force)
    df, _ = read_path(spark, source, input_format)
    check_files(df, output)
    planned = job.planned(df, partition_by)
    rows = write_path(
        planned.rows,
        output,
        written_as,
        count=planned.count,
        force=force,
        partition_by=partition_by,
        before_it_shows=lambda: job.charge(df, planned),
    )
    return replace(planned, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkEngine:
    """A Spark cluster, for `nearveil.protect_file`: reads and writes any path that Spark knows.

    Parameters
    ----------
    key : str
        A column of whole numbers or text with a different value in every row.
    input_format, output_format : str, optional
        Spark's names of formats. Otherwise the extension decides.
    partition_by : tuple of str
        Columns to make folders of.
    settings : mapping of str
        Spark's own settings, for a session that is not there yet.
    show_progress : bool
        Show Spark's own progress bar.
    """

    key: str
    input_format: str | None = None
    output_format: str | None = None
    partition_by: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    show_progress: bool = False

    def protect(self, job: ProtectJob) -> ProtectResult:
        """Run the release in the session that is there, or in one that the settings describe."""
        if job.keep_order:
            raise UsageError("the Spark engine publishes rows in random order; leave keep_order out")
        with session(dict(self.settings), show_progress=self.show_progress) as spark:
            done = protect_path(
                spark,
                job.source,
                job.output,
                mechanism=job.mechanism,
                key=self.key,
                input_format=self.input_format,
                output_format=self.output_format,
                partition_by=self.partition_by,
                force=job.force,
                read=job.read,
                ledger=job.ledger,
            )
        return ProtectResult(
            rows=done.count,
            mechanism=done.mechanism,
            guarantee=done.guarantee,
            several_rows=done.several_rows,
            fitted_here=done.fitted_here,
            keeps_order=False,
            warnings=done.warnings,
            true_figures=TrueFigures(clipped=done.clipped),
        )


# One release with Spark, step by step: look at all rows, refuse what cannot be used, fit, charge, plan.


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked for; the fields are the parameters of `nearveil.release.spark.api.protect`.

    ``repeats`` says that the secret was given, to repeat a release.
    """

    mechanism: Mechanism
    key: str
    read: ReadOptions
    ledger: Ledger | None
    secret: bytes = field(repr=False)
    repeats: bool
    progress: Progress | None

    def __post_init__(self) -> None:
        require_spark()
        check_mechanism(self.mechanism)
        if self.mechanism.seed is not None:
            raise UsageError("a seed protects nobody, and the Spark engine has no use for one; leave it out")
        if self.ledger is not None and self.read.per_row:
            raise UsageError("a ledger charges people, one row each; leave per_row or the ledger out")
        # Spark reads files itself, and executors know degrees alone.
        local = replace(self.read, latitude=None, longitude=None, clip=False).arguments()
        if local:
            raise UsageError(
                f"the Spark engine does not support {local[0]}: it reads UTF-8, a header line and degrees in two "
                "columns; convert the files first, or leave out --engine spark"
            )
        if self.repeats and _is_to_be_fitted(self.mechanism):
            raise UsageError(
                f"a secret repeats a release with the same {self.mechanism.learns}, and these are to be found anew; "
                f"give {self.mechanism.learns}"
            )

    def planned(self, df: DataFrame, partition_by: tuple[str, ...] = ()) -> Protected:
        """Check everything and fit; return the release with its rows still a plan."""
        if not hasattr(df, "sparkSession"):
            raise UsageError("df must be a Spark DataFrame; for a file there is nearveil protect, for arrays perturb")
        check_session(df.sparkSession)
        if df.isStreaming:
            raise UsageError("a stream has no end to count its keys by; protect its batches, one by one")
        columns, kept = find_columns(df.columns, key=self.key, read=self.read)
        check_key_type(df.schema, self.key)
        _check_folders(partition_by, columns)
        # By position: names may have dots in them.
        numbered = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
        people = numbered.select(*(f"c{place}" for place in kept)).toDF(*(f"c{place}" for place in range(len(kept))))
        warnings = (*session_warnings(df.sparkSession), *check_published(people, columns))
        tally = self._tally(people, columns)
        refuse_repeated_keys(people, columns, tally.rows)
        warnings = (*warnings, *warn_of_predicting(people, columns, tally.rows))
        several_rows, suspicions = check_persons(
            df, columns, tally.rows, person=self._other_person, per_row=self.read.per_row
        )
        if self.ledger is not None:
            if several_rows:
                raise UsageError(
                    "a ledger charges people, but some seem to have several rows; name their column (person)"
                )
            check_key_type(df.schema, self._other_person or self.key)
        fitted_here = _is_to_be_fitted(self.mechanism)
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
        rows = released_rows(
            people,
            columns,
            self._places(columns.latitude, columns.longitude, mechanism),
            settled,
            job_key(self.secret, settled, tally),
            partition_by,
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
        return PlaceColumns(latitude, longitude, mechanism.resolved_region, self.read.clip)

    def _tally(self, people: DataFrame, columns: Columns) -> Tally:
        region = self.mechanism.resolved_region
        wanted = people.select(*(f"c{place}" for place in (columns.key, columns.latitude, columns.longitude)))
        tally = tally_from_table(run_on_batches(wanted, TallyRows(region, self.secret), TALLY_SCHEMA).toArrow())
        tally.refuse_faults(self.key, region, clip=self.read.clip)
        return tally

    def _ids(self, df: DataFrame) -> Iterator[object]:
        """Everybody's id, collected when it is first asked for."""
        yield from df.select(quoted(self._other_person or self.key)).toArrow().column(0).to_pylist()

    def charge(self, df: DataFrame, planned: Protected) -> None:
        """Put everybody's loss on record, or refuse the release."""
        if self.ledger is not None:
            charge_release(self.ledger, planned.mechanism, self._ids(df), fitted_here=planned.fitted_here)


def _is_to_be_fitted(mechanism: Mechanism) -> bool:
    return mechanism.is_to_be_fitted and mechanism.learned is None


def _check_folders(partition_by: tuple[str, ...], columns: Columns) -> None:
    published = [columns.names[place] for place in columns.published]
    coordinates = (columns.names[columns.latitude], columns.names[columns.longitude])
    if len(set(partition_by)) < len(partition_by):
        raise UsageError("a column to make folders of is named twice; name it once")
    for name in partition_by:
        if name not in published or name in coordinates:
            raise DataError(
                f"{name!r} cannot be used to make folders; name a column that is published and is not a coordinate"
            )


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
    return value.to_json() if isinstance(value, Intervals | Cells) else repr(value)


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
