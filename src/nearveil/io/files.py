"""People in and out of files, by the file's extension."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import check_output, replacing
from nearveil.io.people import People, PeopleStream, PeopleWriter, ReadOptions


@dataclass(frozen=True, slots=True)
class Format:
    """How one kind of file is read and written: a module that is loaded when it is needed."""

    name: str
    module: str
    reader: str
    writer_class: str

    def open(self, path: Path, read: ReadOptions, *, carry: bool) -> PeopleStream:
        """Open a file for reading."""
        stream: PeopleStream = self._loaded(self.reader)(path, read, carry=carry)
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


def open_people(path: Path, read: ReadOptions | None = None, *, carry: bool = True) -> PeopleStream:
    """Open a CSV, GeoJSON or (Geo)Parquet file of people, to read a batch at a time.

    Parameters
    ----------
    path : Path
        The extension decides the format.
    read : ReadOptions, optional
        Which columns hold the coordinates, and which are left out.
    carry : bool
        Whether the other columns will be published: then a second exact location among them is refused.
    """
    chosen = file_format(path)
    if not path.exists():
        raise DataError(f"there is no file {path}; check the name")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file")
    if not path.is_file():
        raise DataError(f"{path} is not an ordinary file; save it as one first")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; give at least one person")
    return chosen.open(path, read or ReadOptions(), carry=carry)


def read_people(path: Path, read: ReadOptions | None = None, *, carry: bool = True) -> People:
    """Read all people of a file into memory; see `open_people`."""
    return open_people(path, read, carry=carry).read_all()


@contextmanager
def people_writer(path: Path, *, force: bool = False, metadata: dict[str, Any] | None = None) -> Iterator[PeopleWriter]:
    """Give a writer for a file that is there, whole, once nothing went wrong; an existing one stays without ``force``.

    ``metadata`` goes into formats that have a place for it.
    """
    chosen = file_format(path)
    with replacing(path, force=force) as partial, chosen.writer(partial, metadata or {}) as writer:
        yield writer


def write_people(people: People, path: Path, *, force: bool = False, metadata: dict[str, Any] | None = None) -> None:
    """Write people to a file, whole or not at all; see `people_writer`."""
    with people_writer(path, force=force, metadata=metadata) as writer:
        writer.write(writer.prepared(people))


def check_people_output(path: Path, *, force: bool) -> None:
    """Refuse early an output file that could not be written at the end."""
    file_format(path)
    check_output(path, force=force)
