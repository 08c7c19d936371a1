"""People in and out of files, by the file's extension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearveil.errors import DataError, UsageError
from nearveil.io.atomic import check_output, replacing
from nearveil.io.csv_file import read_csv, write_csv
from nearveil.io.geojson_file import read_geojson, write_geojson
from nearveil.io.parquet_file import read_parquet, write_parquet
from nearveil.io.people import People


@dataclass(frozen=True, slots=True)
class Format:
    """How one kind of file is read and written."""

    name: str
    read: Callable[..., People]
    write: Callable[[People, Path, dict[str, Any]], None]


_CSV = Format("CSV", read_csv, write_csv)
_GEOJSON = Format("GeoJSON", read_geojson, write_geojson)
_PARQUET = Format("GeoParquet", read_parquet, write_parquet)

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
    raise UsageError(f"the format of {path.name} is not known; use one of {', '.join(FORMATS)}")


def read_people(
    path: Path,
    *,
    latitude: str | None = None,
    longitude: str | None = None,
    drop: tuple[str, ...] = (),
    carry: bool = True,
) -> People:
    """Read people from a CSV, GeoJSON or (Geo)Parquet file.

    Parameters
    ----------
    path : Path
        The extension decides the format.
    latitude, longitude : str, optional
        Names of the coordinate columns, where they are not called as usual.
    drop : tuple of str
        Columns to leave out.
    carry : bool
        Whether the other columns will be published: then a second exact location among them is refused.
    """
    chosen = file_format(path)
    if not path.exists():
        raise DataError(f"there is no file {path}; check the name")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file")
    if not path.is_file():
        raise DataError(f"{path} is no ordinary file; save it as one first")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; give at least one person")
    return chosen.read(path, latitude=latitude, longitude=longitude, drop=drop, carry=carry)


def write_people(people: People, path: Path, *, force: bool = False, metadata: dict[str, Any] | None = None) -> None:
    """Write people to a file, whole or not at all, and over an existing one only with ``force``.

    ``metadata`` goes into formats that have a place for it.
    """
    with replacing(path, force=force) as partial:
        file_format(path).write(people, partial, metadata or {})


def check_people_output(path: Path, *, force: bool) -> None:
    """Refuse early an output file that could not be written at the end."""
    file_format(path)
    check_output(path, force=force)
