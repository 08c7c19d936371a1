"""Paths that Spark reads and writes: files and folders, here, in HDFS or in an object store."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from nearveil.errors import DataError, OutputError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Where a folder is renamed in one step; elsewhere renaming copies, and Spark's committer must do.
_RENAMED_AT_ONCE = ("file", "hdfs", "viewfs")
# All values stay the text they were, and a value that cannot be read is not shown in an error.
_CSV = {"header": "true", "escape": '"', "inferSchema": "false", "mode": "PERMISSIVE"}


class HadoopPath:
    """A path as Hadoop's file systems see it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._make = jvm.org.apache.hadoop.fs.Path
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self._spark = spark
        given = self._make(path)
        self._system = given.getFileSystem(self._configuration)
        self._path = given.makeQualified(self._system.getUri(), self._system.getWorkingDirectory())

    def __str__(self) -> str:
        return str(self._path.toString())

    @property
    def renames_at_once(self) -> bool:
        """Whether a whole folder can be put in place in one step."""
        return str(self._path.toUri().getScheme()) in _RENAMED_AT_ONCE

    def exists(self) -> bool:
        """Whether there is something."""
        return bool(self._system.exists(self._path))

    def has(self, name: str) -> bool:
        """Whether it is a folder with something of that name in it."""
        return bool(self._system.exists(self._make(self._path, name)))

    def sibling(self, name: str) -> HadoopPath:
        """Return a path in the same folder."""
        return HadoopPath(self._spark, self._make(self._path.getParent(), name).toString())

    def rename(self, target: HadoopPath) -> None:
        """Move to another name in the same file system."""
        if not self._system.rename(self._path, target._path):
            raise OutputError(f"{target} cannot be written: the file system refused to rename; write elsewhere")

    def delete(self) -> None:
        """Remove it with all that is in it."""
        self._system.delete(self._path, True)

    def holds(self, other: HadoopPath) -> bool:
        """Whether the other is the same path or lies in it."""
        return f"{other}/".startswith(f"{self}/")


def read_path(spark: SparkSession, source: str, kind: str | None) -> tuple[DataFrame, str]:
    """Return what lies at a path as a DataFrame, and its format."""
    path = HadoopPath(spark, source)
    if not any(sign in source for sign in "*?[{") and not path.exists():
        raise DataError(f"there is nothing at {source}; check the name")
    chosen = kind or ("delta" if path.has("_delta_log") else format_of(source))
    return spark.read.format(chosen).options(**(_CSV if chosen == "csv" else {})).load(source), chosen


def format_of(path: str) -> str:
    """Return the format that a path's extension stands for; a folder without one is Parquet.

    Examples
    --------
    >>> format_of("s3a://bucket/people.csv.gz"), format_of("/data/people"), format_of("people.orc")
    ('csv', 'parquet', 'orc')
    """
    name = path.rstrip("/").rsplit("/", 1)[-1].lower()
    if name.endswith((".csv", ".csv.gz", ".csv.bz2")):
        return "csv"
    if name.endswith((".json", ".geojson", ".jsonl")):
        raise UsageError("the Spark engine does not read or write GeoJSON; use Parquet or CSV, or the local engine")
    return "orc" if name.endswith(".orc") else "parquet"


def check_paths(spark: SparkSession, source: str, output: str, *, force: bool) -> None:
    """Refuse early an output that could not be written at the end, or would touch the input."""
    from_path, to_path = HadoopPath(spark, source), HadoopPath(spark, output)
    if from_path.holds(to_path) or to_path.holds(from_path):
        raise UsageError("the output lies in the input or around it, whose true places would be lost; write elsewhere")
    if not force and to_path.exists():
        raise OutputError(f"{output} exists already; choose another name, or force to replace it")


def write_path(
    rows: DataFrame, output: str, kind: str, *, count: int, force: bool, partition_by: tuple[str, ...]
) -> None:
    """Write so many rows to a path, whole or not at all, and over an existing one only with ``force``."""
    target = HadoopPath(rows.sparkSession, output)
    if kind == "delta" or not target.renames_at_once:
        # A table format commits in one step; an object store has its own committer, and _SUCCESS says that it is done.
        _write(rows, output, kind, "overwrite" if force else "errorifexists", partition_by)
        check_count(read_path(rows.sparkSession, output, kind)[0], count)
        return
    with _put_in_place(target, force=force) as partial:
        _write(rows, str(partial), kind, "errorifexists", partition_by)
        # What is in the folder, since Spark is loud about a hidden one.
        check_count(read_path(rows.sparkSession, f"{partial}/*", kind)[0], count)


def check_count(published: DataFrame, count: int) -> None:
    """Raise if there are not as many rows as were looked at."""
    if published.count() != count:
        raise DataError("the rows changed while they were being protected; protect a table or file that is at rest")


def _write(rows: DataFrame, path: str, kind: str, mode: str, partition_by: tuple[str, ...]) -> None:
    writer = rows.write.format(kind).mode(mode)
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.options(**({"header": "true", "escape": '"'} if kind == "csv" else {})).save(path)


@contextmanager
def _put_in_place(target: HadoopPath, *, force: bool) -> Iterator[HadoopPath]:
    """Give a hidden folder beside the target to write to; rename it if nothing went wrong, else remove it."""
    token = secrets.token_hex(4)
    partial, replaced = target.sibling(f".{token}.partial"), target.sibling(f".{token}.replaced")
    try:
        yield partial
        if target.exists():
            if not force:
                raise OutputError(f"{target} was made by somebody else meanwhile; choose another name")
            target.rename(replaced)
        partial.rename(target)
    finally:
        # What failed already must not be hidden by a failure to clean up.
        with suppress(Exception):
            partial.delete()
        with suppress(Exception):
            if target.exists():
                replaced.delete()
            elif replaced.exists():
                replaced.rename(target)
