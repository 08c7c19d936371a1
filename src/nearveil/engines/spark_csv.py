"""CSV through Spark, which would pass over in silence most of what can be wrong with it.

Spark takes the first file's header for the header of all, fills up rows that are too short, cuts those that are too
long, and puts a sign in place of what is not UTF-8. None of its own checks does without values in the error.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from nearveil.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

# With a null that no file has, an empty value is a null and "" is empty text, and both are written as they were.
_AS_IT_IS = {"header": "true", "escape": '"', "inferSchema": "false", "mode": "PERMISSIVE", "nullValue": "\x00null"}
WRITING = {"header": "true", "escape": '"', "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}

# Names that no column has, lest they meet.
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
