"""Paths that Spark reads and writes, and its CSV files.

CSV is checked here because Spark passes over most of what can be wrong with it. It takes the first file's header for
the header of all, fills up rows that are too short, cuts those that are too long, and puts a sign in place of what is
not UTF-8. None of its own checks does without values in the error.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nearveil.errors import DataError, OutputError, UsageError
from nearveil.release.spark.hadoop import (
    HadoopPath,
    files_read,
    has_pattern,
    lies_in,
    put_in_place,
    split_pattern,
    taken_literally,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType


# With a null that no file has, an empty value is a null and "" is empty text, and both are written as they were.
_AS_IT_IS = {"header": "true", "escape": '"', "inferSchema": "false", "mode": "PERMISSIVE", "nullValue": "\x00null"}
WRITING = {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}

# Names that no column has, to avoid collisions.
_LINE, _WRONG = "_nearveil_line", "_nearveil_wrong"


def read_csv(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of CSV files with the same header, all values text, or refuse what Spark would change."""
    lines = spark.read.schema(f"{_LINE} string").text(path).where(f"trim({_LINE}) != ''")
    header = _header(lines)
    names = _names(header)
    across_lines = _refuse_bad_lines(lines, header)
    reader = spark.read.options(**_AS_IT_IS, multiLine=str(across_lines).lower())
    _refuse_bad_rows(reader, path, names)
    return reader.schema(_schema(names)).csv(path)


def read_written_csv(spark: SparkSession, path: str, names: list[str]) -> DataFrame:
    """Return the rows of files that Spark wrote as `WRITING` says, with these columns.

    A text may have several lines. Without the names Spark would look for them in files whose paths it takes for
    patterns.
    """
    return spark.read.options(**_AS_IT_IS, multiLine="true").schema(_schema(names)).csv(path)


def _header(lines: DataFrame) -> str:
    first = lines.where("_metadata.file_block_start = 0").select(_LINE).first()
    if first is None:
        raise DataError("the CSV files are empty; give a header line and one row per person")
    return str(first[0]).removeprefix("\ufeff")


def _names(header: str) -> list[str]:
    if header.count('"') % 2:
        raise DataError("a column's name in the CSV header goes over several lines; give it another name")
    names = [name or f"_c{place}" for place, name in enumerate(next(csv.reader([header])))]
    if len({name.casefold() for name in names}) < len(names):
        raise DataError("two columns in the CSV header have the same name, but for capitals; rename one")
    return names


def _refuse_bad_lines(lines: DataFrame, header: str) -> bool:
    """Look at the files as text; return whether values in them may go over several lines."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - an extra, by its usual name

    line = F.col(_LINE)
    unquoted = F.ltrim(F.replace(line, F.lit('"'), F.lit("")), F.lit("\ufeff"))
    quotes = F.length(line) - F.length(F.replace(line, F.lit('"'), F.lit("")))
    files = lines.groupBy(F.col("_metadata.file_path")).agg(
        # Anywhere in the file, as lines have no numbers: as a row, a header has no coordinates and is refused later.
        F.max(unquoted == F.lit(header.replace('"', ""))).alias("headed"),
        F.sum(quotes % 2).alias("open"),
        F.count_if(~F.is_valid_utf8(line)).alias("garbled"),
    )
    found = files.selectExpr("sum(garbled)", "count_if(not headed)", "count_if(open % 2 = 1)", "sum(open)").first()
    garbled, other_headers, never_closed, opened = found or (0, 0, 0, 0)
    if garbled:
        raise DataError(f"{garbled:,} lines of the CSV input are not UTF-8; save it as UTF-8")
    if other_headers:
        raise DataError(
            f"{other_headers:,} of the CSV files have another header than the first; give all the same columns in the "
            "same order"
        )
    if never_closed:
        raise DataError(
            f'{never_closed:,} of the CSV files have a quotation mark that is never closed; close it, or write "" for '
            "one in a text"
        )
    # A value with several lines leaves a quotation mark open on its first; without any, files can be split for tasks.
    return bool(opened)


def _refuse_bad_rows(reader: DataFrameReader, path: str, names: list[str]) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - an extra, by its usual name

    marked = reader.option("columnNameOfCorruptRecord", _WRONG).schema(_schema([*names, _WRONG])).csv(path)
    # By position: names may have dots in them.
    places = [f"c{place}" for place in range(len(names))]
    rows = marked.select(*(F.col(f"`{name.replace('`', '``')}`") for name in [*names, _WRONG])).toDF(*places, _WRONG)
    # All columns are looked at, since Spark does not count values of rows that it need not take apart.
    wrong, _ = rows.agg(F.count(_WRONG), F.sum(F.length(F.concat_ws("", *places)))).first() or (0, 0)
    if wrong:
        raise DataError(
            f"{wrong:,} rows of the CSV input have more or fewer values than the header has columns; correct them"
        )


def _schema(names: list[str]) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - an extra

    return StructType([StructField(name, StringType()) for name in names])


# Paths that Spark reads and writes: files and folders, here, in HDFS or in an object store.


# A column that only some files have would be lost otherwise.
_READING = {"parquet": {"mergeSchema": "true"}, "orc": {"mergeSchema": "true"}}
_OWN_CASE = ("csv", "parquet", "orc", "delta")
_GUESS_FOLDERS = "spark.sql.sources.partitionColumnTypeInference.enabled"


def check_format(spark: SparkSession, kind: str) -> None:
    """Raise if Spark has nothing that reads or writes a format."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - an extra
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra

    jvm: Any = spark._jvm
    try:
        settings = spark._jsparkSession.sessionState().conf()
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(kind, settings)
    except (Py4JError, PySparkException):
        raise UsageError(
            f"Spark does not know the format {kind!r}; use parquet, orc or csv, or load the package that has it "
            "(--spark-conf spark.jars.packages=…)"
        ) from None


def read_path(spark: SparkSession, source: str, kind: str | None) -> tuple[DataFrame, str]:
    """Return what lies at a path as a DataFrame, and its format; what is there is no pattern, whatever its name."""
    path = HadoopPath(spark, source)
    there = path.exists()
    if not there and not (has_pattern(source) and path.matches()):
        raise DataError(f"there is nothing at {source}; check the name")
    chosen = _cased(kind) if kind else "delta" if path.has("_delta_log") else format_of(source)
    pattern = taken_literally(source) if there and chosen != "delta" else source
    with _folders_as_text(spark):
        if chosen == "csv":
            return read_csv(spark, pattern), chosen
        return spark.read.format(chosen).options(**_READING.get(chosen, {})).load(pattern), chosen


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
    if to_path.is_root:
        raise UsageError("the output is the root of a file system; name a folder in it")
    if has_pattern(source) and not from_path.exists():
        _refuse_in_pattern(spark, source, to_path)
        _refuse_overlap(to_path, (path.real for path in from_path.matches()))
    else:
        _refuse_overlap(to_path, [from_path.real])
    if not force and to_path.exists():
        raise OutputError(f"{output} exists already; choose another name, or force to replace it")
    to_path.refuse_unwritable()


def check_files(rows: DataFrame, output: str) -> None:
    """Refuse an output that would touch any file that the rows are read from, a link in an input folder included."""
    _refuse_overlap(HadoopPath(rows.sparkSession, output), files_read(rows))


def write_path(
    rows: DataFrame,
    output: str,
    kind: str,
    *,
    count: int,
    force: bool,
    partition_by: tuple[str, ...],
    before_it_shows: Callable[[], None] = lambda: None,
) -> DataFrame:
    """Write ``count`` rows to a path, whole or not at all, and over an existing one only with ``force``.

    ``before_it_shows`` is called when nothing of the rows can be seen yet, and all is written where that can be hidden.
    Returns the rows as read from there.
    """
    target = HadoopPath(rows.sparkSession, output)
    check_files(rows, output)
    names = [name for name in rows.columns if name not in partition_by]
    if _cased(kind) == "delta" or not target.renames_at_once:
        # A table format commits in one step; an object store has its own committer, and _SUCCESS says that it is done.
        before_it_shows()
        _write(rows, output, kind, "overwrite" if force else "errorifexists", partition_by)
        published = _read_back(target, kind, names)
        check_count(published, count)
        return published
    with put_in_place(target, force=force) as partial:
        _write(rows, str(partial), kind, "errorifexists", partition_by)
        # What is in the folder, since Spark is loud about a hidden one.
        check_count(_read_back(partial, kind, names, "/*"), count)
        before_it_shows()
    return _read_back(target, kind, names)


def check_count(published: DataFrame, count: int) -> None:
    """Raise if there are not as many rows as were looked at."""
    if published.count() != count:
        raise DataError("the rows changed while they were being protected; protect a table or file that is at rest")


def _cased(kind: str) -> str:
    """Spark takes CSV for csv, and so must whatever looks at the name."""
    return kind.lower() if kind.lower() in _OWN_CASE else kind


def _refuse_overlap(output: HadoopPath, inputs: Iterable[str]) -> None:
    real = output.real
    if any(lies_in(real, path) or lies_in(path, real) for path in inputs):
        raise UsageError("the output lies in the input or around it, whose true places would be lost; write elsewhere")


def _refuse_in_pattern(spark: SparkSession, source: str, output: HadoopPath) -> None:
    """Refuse an output around all that a pattern may stand for, or which it stands for once it is there."""
    above, rest = split_pattern(source)
    jvm: Any = spark._jvm
    real, root = output.real, HadoopPath(spark, above).real
    pattern = jvm.org.apache.hadoop.fs.GlobPattern(f"{taken_literally(root.rstrip('/'))}/{rest}")
    if lies_in(root, real) or pattern.matches(real):
        _refuse_overlap(output, [real])


def _read_back(path: HadoopPath, kind: str, names: list[str], within: str = "") -> DataFrame:
    """Return the rows that were written to a path, and no others that it might stand for as a pattern."""
    spark = path.spark
    pattern = (str(path) if _cased(kind) == "delta" else taken_literally(str(path))) + within
    with _folders_as_text(spark):
        if _cased(kind) == "csv":
            return read_written_csv(spark, pattern, names)
        return spark.read.format(kind).load(pattern)


@contextmanager
def _folders_as_text(spark: SparkSession) -> Iterator[None]:
    """Let a folder zip=00123 be the text 00123, which Spark would make the number 123."""
    before = spark.conf.get(_GUESS_FOLDERS)
    spark.conf.set(_GUESS_FOLDERS, "false")
    try:
        yield
    finally:
        spark.conf.set(_GUESS_FOLDERS, before or "true")


def _write(rows: DataFrame, path: str, kind: str, mode: str, partition_by: tuple[str, ...]) -> None:
    writer = rows.write.format(kind).mode(mode)
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.options(**(WRITING if _cased(kind) == "csv" else {})).save(path)
