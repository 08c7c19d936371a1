"""The paper's four populations: two that are generated, two of real check-ins that are read from files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from nearveil.errors import DataError
from nearveil.io.files import read_people
from nearveil.region import Region
from nearveil.region_names import named_region
from nearveil.types import FloatArray

DATA_DIR_VARIABLE = "NEARVEIL_DATA_DIR"
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
    """

    name: str
    region: Region
    places: FloatArray


def load_dataset(name: DatasetName, data_dir: Path | None = None) -> Dataset:
    """Return one of the paper's populations in the San Francisco region.

    Parameters
    ----------
    name : DatasetName
        ``gaussian``: 25,000 people with normal coordinates; ``beta``: 25,000 with B(2, 5) coordinates; both the same
        on every machine. ``brightkite``, ``gowalla``: real check-ins, read from a file, equal places dropped.
    data_dir : Path, optional
        Folder with the files of check-ins; by default the one named by ``NEARVEIL_DATA_DIR``.
    """
    region = named_region("san-francisco")
    if name is DatasetName.GAUSSIAN:
        return Dataset(name.value, region, _gaussian(region))
    if name is DatasetName.BETA:
        return Dataset(name.value, region, _beta(region))
    people = read_people(_file_of(name, data_dir), carry=False)
    places = region.check(people.points)
    return Dataset(name.value, region, np.unique(places, axis=0))


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


def _file_of(name: DatasetName, data_dir: Path | None) -> Path:
    folder = data_dir or (Path(os.environ[DATA_DIR_VARIABLE]) if os.environ.get(DATA_DIR_VARIABLE) else None)
    if folder is None:
        raise DataError(
            f"{name.value} is read from a file of check-ins; name its folder with --data-dir or {DATA_DIR_VARIABLE}"
        )
    for pattern in _FILE_NAMES:
        path = folder / pattern.format(name=name.value)
        if path.exists():
            return path
    raise DataError(f"the folder {folder} has no {_FILE_NAMES[0].format(name=name.value)}; check --data-dir")
