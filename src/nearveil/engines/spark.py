"""Protect a Spark DataFrame: the same mechanisms, card and ledger as on one machine, for as many as fit a cluster.

Nothing is drawn twice: a row's noise follows from a secret of the job and the row's key, so a task that is repeated
repeats it, and what is returned has been written down once. Nothing shows in the order: rows are dealt to partitions
and sorted within them by numbers that look random to whoever lacks the secret.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nearveil.engines.protected import Protected
from nearveil.engines.safe_errors import sparks_errors_told
from nearveil.engines.spark_job import Job
from nearveil.engines.spark_paths import (
    check_count,
    check_files,
    check_format,
    check_paths,
    format_of,
    read_path,
    write_path,
)
from nearveil.engines.spark_release import written_down
from nearveil.engines.spark_session import check_session
from nearveil.hashing import checked_secret
from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.ledger import Ledger
from nearveil.types import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Protected", "protect", "protect_path"]


@sparks_errors_told()
def protect(
    df: DataFrame,
    *,
    mechanism: Mechanism,
    key: str,
    latitude: str | None = None,
    longitude: str | None = None,
    drop: tuple[str, ...] = (),
    person: str | None = None,
    per_row: bool = False,
    clip: bool = False,
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
        DPRS without intervals is fitted on these people, at the cost that the card states.
    key : str
        A column of whole numbers or text with a different value in every row.
    latitude, longitude : str, optional
        Names of the coordinate columns, where they are not called as usual.
    drop : tuple of str
        Columns not to publish; the key may be one of them.
    person : str, optional
        The column that tells people apart, where that is not the key.
    per_row : bool
        Allow several rows of a person; the card then counts rows.
    clip : bool
        Move people outside the region to its edge.
    ledger : Ledger, optional
        Everybody is charged in it before anything is published. It keeps ids on the driver.
    secret : bytes, optional
        16 random bytes, to repeat a release of the same rows by the same mechanism, whose intervals are given or found
        already; fresh if not given. Whoever has them can undo the noise.
    progress : callable, optional
        Called with 1 after each round of a fit.
    """
    job = Job(
        mechanism=mechanism,
        key=key,
        latitude=latitude,
        longitude=longitude,
        drop=drop,
        person=person,
        per_row=per_row,
        clip=clip,
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


@sparks_errors_told()
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
    latitude: str | None = None,
    longitude: str | None = None,
    drop: tuple[str, ...] = (),
    person: str | None = None,
    per_row: bool = False,
    clip: bool = False,
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
    mechanism, key, latitude, longitude, drop, person, per_row, clip, ledger, secret, progress
        As of `protect`.
    """
    job = Job(
        mechanism=mechanism,
        key=key,
        latitude=latitude,
        longitude=longitude,
        drop=drop,
        person=person,
        per_row=per_row,
        clip=clip,
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
