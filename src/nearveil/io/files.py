"""People in and out of files, by the file's extension; of standard input and pipes, by what they hold."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from nearveil.errors import DataError, UsageError, without_context
from nearveil.io.atomic import check_output, replacing
from nearveil.io.bad_rows import UsablePeople
from nearveil.io.input_file import InputFile, is_standard
from nearveil.io.people import People, PeopleStream, PeopleWriter, ReadOptions
from nearveil.region import Region


@dataclass(frozen=True, slots=True)
class Format:
    """How one kind of file is read and written: a module that is loaded when it is needed."""

    name: str
    module: str
    reader: str
    writer_class: str

    def open(self, file: InputFile, read: ReadOptions, *, carry: bool) -> PeopleStream:
        """Open a file for reading."""
        stream: PeopleStream = self._loaded(self.reader)(file, read, carry=carry)
        return stream

    def writer(self, path: Path, metadata: dict[str, Any]) -> PeopleWriter:
        """Begin a file."""
        writer: PeopleWriter = self._loaded(self.writer_class)(path, metadata)
        return writer

    def _loaded(self, name: str) -> Any:
        return getattr(import_module(f"nearveil.io.{self.module}"), name)


_CSV = Format("CSV", "csv_file", "open_csv", "CsvWriter")
_GEOJSON = Format("GeoJSON", "geojson_file", "open_geojson", "GeoJsonWriter")
_PARQUET = Format("GeoParquet", "parquet_file", "open_parquet", "ParquetWriter")

FORMATS: dict[str, Format] = {
    ".csv": _CSV,
    ".csv.gz": _CSV,
    ".tsv": _CSV,
    ".tsv.gz": _CSV,
    ".txt": _CSV,
    ".geojson": _GEOJSON,
    ".json": _GEOJSON,
    ".parquet": _PARQUET,
    ".geoparquet": _PARQUET,
}


def file_format(path: Path) -> Format:
    """Return the format that a file's extension stands for."""
    name = path.name.lower()
    for extension, file_format in FORMATS.items():
        if name.endswith(extension):
            return file_format
    raise UsageError(f"the format of {path.name or path} is not known; use one of {', '.join(FORMATS)}")


def extension_of(path: Path) -> str:
    """Return the extension that decides a file's format, the longest that fits; empty if there is none."""
    name = path.name.lower()
    return next((each for each in sorted(FORMATS, key=len, reverse=True) if name.endswith(each)), "")


def _extension_by_content(file: InputFile) -> str:
    head = file.head()
    return ".parquet" if head.startswith(b"PAR1") else ".geojson" if head.lstrip().startswith(b"{") else ".csv"


# How xlsx and other zip files begin, and xls.
_NOT_TEXT = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")


def _refuse_wrong_extension(file: InputFile, extension: str) -> None:
    """Refuse a file of another format than its name says, where that is sure."""
    if file.head().startswith(_NOT_TEXT):
        raise DataError(f"{file.name} is an Excel or zip file, whatever its name says; save it as CSV")
    found = FORMATS[_extension_by_content(file)]
    sure = found is _PARQUET or (found is _GEOJSON and b'"type"' in file.head())
    if sure and found is not FORMATS[extension]:
        right = next(name for name, each in FORMATS.items() if each is found)
        raise DataError(f"{file.name} holds {found.name}, whatever its name says; rename it to end in {right}")


def open_people(
    path: str | Path, read: ReadOptions | None = None, *, carry: bool = True, region: Region | None = None
) -> PeopleStream:
    """Open a CSV, GeoJSON or (Geo)Parquet file of people, to read a batch at a time.

    Parameters
    ----------
    path : str or Path
        The extension decides the format. ``-`` is standard input, which is held in memory; what it holds decides.
    read : ReadOptions, optional
        How it is read: which columns hold the coordinates, which are left out, what is done with bad rows.
    carry : bool
        Whether the other columns will be published: then a second exact location among them is refused.
    region : Region, optional
        Public. Rows outside it are bad, if bad rows are skipped and people are not clipped.
    """
    options = read or ReadOptions()
    if not is_standard(path) and not Path(path).is_fifo():
        file_format(Path(path))
    if options.skip_bad is not None:
        # A file that is there may hold the same rows; that is known once they have been read.
        check_output(options.skip_bad, force=True)
    file = InputFile(path)
    extension = extension_of(file.path) or _extension_by_content(file)
    _refuse_wrong_extension(file, extension)
    stream = FORMATS[extension].open(file, options, carry=carry)
    if options.skip_bad is not None:
        stream = UsablePeople(stream, options.skip_bad, None if options.clip else region)
    stream.extension = extension
    return stream


@without_context()
def read_people(
    path: str | Path, read: ReadOptions | None = None, *, carry: bool = True, region: Region | None = None
) -> People:
    """Read all people of a file into memory; see `open_people`."""
    return open_people(path, read, carry=carry, region=region).read_all()


@contextmanager
def people_writer(
    path: Path, *, force: bool = False, metadata: dict[str, Any] | None = None, extension: str = ".csv"
) -> Iterator[PeopleWriter]:
    """Give a writer for a file that is there, whole, once nothing went wrong; an existing one stays without ``force``.

    ``metadata`` goes into formats that have a place for it. Standard output (``-``) gets the format of ``extension``,
    and its first byte once all is complete.
    """
    if not is_standard(path):
        with replacing(path, force=force) as partial, file_format(path).writer(partial, metadata or {}) as writer:
            yield writer
        return
    with tempfile.TemporaryDirectory(prefix="nearveil-") as folder:
        whole = Path(folder) / f"published{extension.removesuffix('.gz')}"
        with file_format(whole).writer(whole, metadata or {}) as writer:
            yield writer
        with whole.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def write_people(people: People, path: Path, *, force: bool = False, metadata: dict[str, Any] | None = None) -> None:
    """Write people to a file, whole or not at all; see `people_writer`."""
    with people_writer(path, force=force, metadata=metadata) as writer:
        writer.write(writer.prepared(people))


def check_people_output(path: Path, *, force: bool) -> None:
    """Refuse early an output file that could not be written at the end."""
    if not is_standard(path):
        file_format(path)
        check_output(path, force=force)
