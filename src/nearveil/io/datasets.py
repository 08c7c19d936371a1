"""The two files of check-ins that SNAP publishes: what is known of them, and how they are read.

The data: E. Cho, S. A. Myers, J. Leskovec, "Friendship and Mobility: User Movement in Location-Based Social Networks",
KDD 2011; https://snap.stanford.edu/data/loc-Brightkite.html and https://snap.stanford.edu/data/loc-Gowalla.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from nearveil.errors import DataError
from nearveil.io.files import read_people
from nearveil.region import Region, named_region
from nearveil.types import FloatArray

SNAP_URL = "https://snap.stanford.edu/data/"


@dataclass(frozen=True, slots=True)
class SnapFile:
    """One file of SNAP.

    Attributes
    ----------
    name : str
        Of the file, on SNAP's server and on disk.
    check_ins : int
        How many SNAP's page says there are.
    sha256 : str, optional
        Checksum of the file; None where no published one is known.
    """

    name: str
    check_ins: int
    sha256: str | None = None


# SNAP publishes no checksums. That of Gowalla stands in several public repositories, among them
# Spatial-Temporal-Data-Mining/TrajDL (src/trajdl/datasets/open_source/conf.py, with the size, 105,470,044 bytes) and
# ISG-Siegen/OmniRec (src/omnirec/data_loaders/gowalla.py). For Brightkite none was found.
SNAP_FILES = {
    "brightkite": SnapFile("loc-brightkite_totalCheckins.txt.gz", 4_491_143),
    "gowalla": SnapFile(
        "loc-gowalla_totalCheckins.txt.gz",
        6_442_890,
        sha256="c1c3e19effba649b6c89aeab3c1f9459fad88cfdc2b460fc70fd54e295d83ea0",
    ),
}

# The files do not hold exactly what SNAP's pages count: Brightkite is said to have 5.7 % more rows, Gowalla
# two more. What has to be noticed is another file, or half of one.
_FEWEST_OF_PUBLISHED, _MOST_OF_PUBLISHED = 0.99, 1.06

_COLUMNS = ["user", "time", "latitude", "longitude", "location"]
_PLACE = ["latitude", "longitude"]
_BLOCK_BYTES = 1 << 20
_NUMBER = r"^-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?$"


class _DamagedError(Exception):
    """The file cannot be read to its end."""


def read_snap_places(path: Path, region: Region) -> FloatArray:
    """Return the distinct (latitude, longitude) of the check-ins inside a region.

    Rows that cannot be read, that are not a place on earth, or that say (0, 0), are left out. The file is read a block
    at a time, so that memory does not grow with it.
    """
    try:
        inside = [places[region.contains(places)] for places in _blocks(path)]
    except _DamagedError:
        raise DataError(
            f"{path} is damaged or not the file that SNAP publishes; remove it and fetch it again"
        ) from None
    found = np.concatenate(inside) if inside else np.empty((0, 2))
    if not len(found):
        raise DataError(f"{path} has no check-ins in the region; remove it and fetch it again")
    return np.unique(found, axis=0)


def snap_fault(path: Path, expected: SnapFile) -> str | None:
    """Say what is wrong with the content of a file, or return None.

    Reading it to the end checks the length and the CRC that gzip keeps. That is not a proof against somebody who means
    harm, but nothing that breaks on the way gets through.
    """
    try:
        count = sum(len(places) for places in _blocks(path))
    except _DamagedError:
        return "it is damaged or no gzip file of check-ins"
    if _FEWEST_OF_PUBLISHED <= count / expected.check_ins <= _MOST_OF_PUBLISHED:
        return None
    return f"it has {count:,} check-ins with a place where SNAP counts {expected.check_ins:,}"


def _blocks(path: Path) -> Iterator[FloatArray]:
    """Give the places of the check-ins, some tens of thousands at a time."""
    reading = pyarrow.csv.ReadOptions(column_names=_COLUMNS, block_size=_BLOCK_BYTES)
    parsing = pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False, invalid_row_handler=lambda _row: "skip")
    # As text: a value that is not a number must cost its row, not the whole file.
    converting = pyarrow.csv.ConvertOptions(
        include_columns=_PLACE, column_types=dict.fromkeys(_PLACE, pa.string()), strings_can_be_null=True
    )
    try:
        with pa.input_stream(str(path), compression="gzip") as stream:
            reader = pyarrow.csv.open_csv(
                stream, read_options=reading, parse_options=parsing, convert_options=converting
            )
            for batch in reader:
                yield _places(batch)
    except (pa.ArrowException, OSError):
        # Arrow's own message may quote a row.
        raise _DamagedError from None


def _places(batch: pa.RecordBatch) -> FloatArray:
    degrees = np.column_stack([_numbers(batch.column(name)) for name in _PLACE])
    on_earth = (np.abs(degrees) <= (90.0, 180.0)).all(axis=1)
    somewhere: FloatArray = degrees[on_earth & (degrees != 0.0).any(axis=1)]
    return somewhere


def _numbers(text: pa.Array) -> FloatArray:
    """Return text as numbers, NaN where it is none."""
    try:
        numbers = text.cast(pa.float64())
    except pa.ArrowInvalid:
        is_number = pc.match_substring_regex(text, _NUMBER)
        numbers = pc.if_else(is_number, text, pa.scalar(None, pa.string())).cast(pa.float64())
    found: FloatArray = numbers.to_numpy(zero_copy_only=False)
    return found


# The paper's four populations: two that are generated, two of real check-ins that are read from files.


DATA_DIR_VARIABLE = "NEARVEIL_DATA_DIR"
CACHE_DIR_VARIABLE = "NEARVEIL_CACHE_DIR"
SYNTHETIC_PEOPLE = 25_000

_SEED = 20_260
_FILE_NAMES = ("{name}_sf.csv.gz", "{name}_sf.csv", "{name}.csv.gz", "{name}.csv", "{name}.parquet")


class DatasetName(StrEnum):
    """Populations of the paper."""

    GAUSSIAN = "gaussian"
    BETA = "beta"
    BRIGHTKITE = "brightkite"
    GOWALLA = "gowalla"


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """People of one population, one place each.

    Attributes
    ----------
    name : str
        What it is called in tables.
    region : Region
        Public.
    places : ndarray of shape (n, 2)
        Latitude and longitude in degrees.
    source : str
        Where the places come from, for a report: ``generated``, ``SNAP original``, ``reconstruction (FILE)`` or
        ``file (FILE)``; empty if not known.
    """

    name: str
    region: Region
    places: FloatArray = field(repr=False)
    source: str = ""


def load_dataset(name: DatasetName, data_dir: Path | None = None) -> Dataset:
    """Return one of the paper's populations in the San Francisco region.

    Parameters
    ----------
    name : DatasetName
        ``gaussian``: 25,000 people with normal coordinates; ``beta``: 25,000 with B(2, 5) coordinates; both the same
        on every machine. ``brightkite``, ``gowalla``: real check-ins, read from a file, equal places dropped.
    data_dir : Path, optional
        Folder with the files of check-ins, looked into before the usual ones (`find_check_ins`).
    """
    region = named_region("san-francisco")
    if name is DatasetName.GAUSSIAN:
        return Dataset(name.value, region, _gaussian(region), "generated")
    if name is DatasetName.BETA:
        return Dataset(name.value, region, _beta(region), "generated")
    path = find_check_ins(name, data_dir)
    if path is None:
        raise DataError(
            f"no file of {name.value} check-ins was found; name its folder with data_dir= or {DATA_DIR_VARIABLE}, or "
            f"get it with: nearveil datasets fetch {name.value}"
        )
    if path.name == SNAP_FILES[name].name:
        return Dataset(name.value, region, read_snap_places(path, region), "SNAP original")
    places = region.check(read_people(path, carry=False).points)
    kind = "reconstruction" if path.name.startswith(f"{name.value}_sf.") else "file"
    return Dataset(name.value, region, np.unique(places, axis=0), f"{kind} ({path.name})")


def find_check_ins(name: DatasetName, data_dir: Path | None = None) -> Path | None:
    """Return the file of a population of real check-ins, or None.

    The first folder that has one counts: the one given, the one named by ``NEARVEIL_DATA_DIR``, the `cache_folder`.
    In a folder that has both SNAP's original and a part of it (``NAME_sf.csv.gz``), the original is taken, since it
    is the real thing.
    """
    if data_dir is not None and not data_dir.is_dir():
        raise DataError(f"there is no folder {data_dir}; check data_dir=")
    named = os.environ.get(DATA_DIR_VARIABLE)
    folders = [data_dir, Path(named) if named else None, cache_folder()]
    file_names = [SNAP_FILES[name].name, *(pattern.format(name=name.value) for pattern in _FILE_NAMES)]
    paths = (folder / file_name for folder in folders if folder is not None for file_name in file_names)
    return next((path for path in paths if path.is_file()), None)


def cache_folder() -> Path:
    """Return the folder for downloads: ``NEARVEIL_CACHE_DIR``, else ``nearveil`` in the user's folder of caches."""
    if chosen := os.environ.get(CACHE_DIR_VARIABLE):
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "nearveil"


def _gaussian(region: Region) -> FloatArray:
    """N(0, 1) on both axes, four deviations to the edge; points outside are drawn again."""
    rng = np.random.default_rng([_SEED, 1])
    drawn = np.empty((0, 2))
    while len(drawn) < SYNTHETIC_PEOPLE:
        more = rng.normal(size=(SYNTHETIC_PEOPLE, 2)) / 4
        drawn = np.vstack([drawn, more[(np.abs(more) < 1).all(axis=1)]])
    return _spread_over(region, drawn[:SYNTHETIC_PEOPLE])


def _beta(region: Region) -> FloatArray:
    rng = np.random.default_rng([_SEED, 2])
    return _spread_over(region, 2 * rng.beta(2, 5, (SYNTHETIC_PEOPLE, 2)) - 1)


def _spread_over(region: Region, square: FloatArray) -> FloatArray:
    """Scale the square [-1, 1]² to the region, each axis on its own."""
    return region.clip(region.with_scaling("per-axis").from_square(square))
