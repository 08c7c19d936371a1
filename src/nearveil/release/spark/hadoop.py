"""Paths as Hadoop's file systems see them, and which files they are in truth, behind patterns and links."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from nearveil.errors import OutputError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Where a folder is renamed in one step; elsewhere renaming copies, and Spark's committer must do.
_RENAMED_AT_ONCE = ("file", "hdfs", "viewfs")
_PATTERN_SIGN = re.compile(r"[\\*?\[\]{}]")


class HadoopPath:
    """A path as Hadoop's file systems see it; signs of patterns in it stand for themselves."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        from py4j.protocol import Py4JError  # noqa: PLC0415 - an extra
        from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra

        if not path:
            raise UsageError("a path is empty; name the input and the output")
        jvm: Any = spark._jvm
        self._make = jvm.org.apache.hadoop.fs.Path
        self.spark = spark
        try:
            given = self._make(path)
            self._system = given.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
            self._path = given.makeQualified(self._system.getUri(), self._system.getWorkingDirectory())
        except (Py4JError, PySparkException):
            raise UsageError(f"Spark has no file system for the path {path}; check how it begins") from None

    def __str__(self) -> str:
        return str(self._path.toString())

    @property
    def scheme(self) -> str:
        """The kind of file system, such as ``file``."""
        return str(self._path.toUri().getScheme())

    @property
    def renames_at_once(self) -> bool:
        """Whether a whole folder can be put in place in one step."""
        return self.scheme in _RENAMED_AT_ONCE

    @property
    def is_root(self) -> bool:
        """Whether there is nothing above it."""
        return self._path.getParent() is None

    @property
    def real(self) -> str:
        """The path without links, where the file system has them."""
        return _real(self.scheme, str(self._path.toUri().getPath())) or str(self)

    def exists(self) -> bool:
        """Whether there is something."""
        return bool(self._system.exists(self._path))

    def has(self, name: str) -> bool:
        """Whether it is a folder with something of that name in it."""
        return bool(self._system.exists(self._make(self._path, name)))

    def sibling(self, name: str) -> HadoopPath:
        """Return a path in the same folder."""
        return HadoopPath(self.spark, self._make(self._path.getParent(), name).toString())

    def rename(self, target: HadoopPath) -> None:
        """Move to another name in the same file system."""
        if not self._system.rename(self._path, target._path):
            raise OutputError(f"{target} cannot be written: the file system refused to rename; write elsewhere")

    def delete(self) -> None:
        """Remove it with all that is in it."""
        self._system.delete(self._path, True)

    def matches(self) -> list[HadoopPath]:
        """Return what there is, with the path taken for a pattern."""
        found = self._system.globStatus(self._path) or []
        return [HadoopPath(self.spark, status.getPath().toString()) for status in found]

    def refuse_unwritable(self) -> None:
        """Raise if the folder around it, where it is on this machine, is none or cannot be written to."""
        if self.scheme != "file":
            return
        above = Path(os.path.realpath(str(self._path.toUri().getPath()))).parent
        while not above.exists():
            above = above.parent
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise OutputError(
                f"{self} cannot be written: {above} is not a folder that can be written to; write elsewhere"
            )


@contextmanager
def put_in_place(target: HadoopPath, *, force: bool) -> Iterator[HadoopPath]:
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


def has_pattern(path: str) -> bool:
    """Whether a path may stand for others."""
    return _PATTERN_SIGN.search(path) is not None


def split_pattern(path: str) -> tuple[str, str]:
    """Return the folder above the first sign of a pattern, and the rest.

    Examples
    --------
    >>> split_pattern("/data/year=*/part-?"), split_pattern("/*"), split_pattern("*.csv")
    (('/data', 'year=*/part-?'), ('/', '*'), ('.', '*.csv'))
    """
    sign = _PATTERN_SIGN.search(path)
    above, slash, _ = path[: sign.start() if sign else len(path)].rpartition("/")
    return above or slash or ".", path[len(above) + len(slash) :]


def taken_literally(path: str) -> str:
    r"""Return the pattern that stands for this very path.

    Examples
    --------
    >>> print(taken_literally("/data/o[1]"))
    /data/o\[1\]
    """
    return _PATTERN_SIGN.sub(r"\\\g<0>", path)


def files_read(rows: DataFrame) -> set[str]:
    """Return the files that a DataFrame is made of, without links."""
    return {_real_file(address) for address in rows.inputFiles()}


def lies_in(inner: str, outer: str) -> bool:
    """Whether a real path is another or lies in it.

    Examples
    --------
    >>> lies_in("file:/a/b", "file:/a"), lies_in("file:/ab", "file:/a"), lies_in("file:/a", "file:/")
    (True, False, True)
    """
    return (inner.rstrip("/") + "/").startswith(outer.rstrip("/") + "/")


def _real_file(address: str) -> str:
    """Spark gives addresses with percent signs, while Hadoop's paths have none."""
    parts = urlsplit(address)
    path = unquote(parts.path)
    return _real(parts.scheme, path) or f"{parts.scheme}://{parts.netloc}{path}"


def _real(scheme: str, path: str) -> str | None:
    return f"file:{os.path.realpath(path)}" if scheme == "file" else None
