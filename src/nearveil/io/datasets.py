"""The paper's four populations: two that are generated, two of real check-ins that are read from files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from nearveil.errors import DataError
from nearveil.io.files import read_people
from nearveil.io.snap import SNAP_FILES, read_snap_places
from nearveil.region import Region
from nearveil.region_names import named_region
from nearveil.types import FloatArray

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
        ``file (FILE)``; empty if nobody said.
    """

    name: str
    region: Region
    places: FloatArray
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
            f"no file of {name.value} check-ins was found; name its folder with --data-dir or {DATA_DIR_VARIABLE}, or "
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
        raise DataError(f"there is no folder {data_dir}; check --data-dir")
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
    """N(0, 1) on both axes, four deviations to the edge; whoever falls outside is drawn again."""
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
