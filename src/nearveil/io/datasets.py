"""The paper's four populations: two that are generated, two of real check-ins, which SNAP publishes.

The data: E. Cho, S. A. Myers, J. Leskovec, "Friendship and Mobility: User Movement in Location-Based Social Networks",
KDD 2011; https://snap.stanford.edu/data/loc-Brightkite.html and https://snap.stanford.edu/data/loc-Gowalla.html.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from nearveil.errors import DataError, UsageError, require_package
from nearveil.io.atomic import replacing
from nearveil.io.location import ReadOptions
from nearveil.region import Region, named_region
from nearveil.types import FloatArray

SNAP_URL = "https://snap.stanford.edu/data/"
DATA_DIR_VARIABLE = "NEARVEIL_DATA_DIR"
CACHE_DIR_VARIABLE = "NEARVEIL_CACHE_DIR"
SYNTHETIC_USERS = 25_000

_SEED = 20_260
_FILE_NAMES = ("{name}_sf.csv.gz", "{name}_sf.csv", "{name}.csv.gz", "{name}.csv", "{name}.parquet")


@dataclass(frozen=True, slots=True)
class SnapFile:
    """One file of SNAP: its name, how many check-ins SNAP's page counts, and its checksum if one is known."""

    name: str
    check_ins: int
    sha256: str | None = None


# SNAP publishes no checksums. That of Gowalla stands in several public repositories, among them
# Spatial-Temporal-Data-Mining/TrajDL (src/trajdl/datasets/open_source/conf.py) and ISG-Siegen/OmniRec
# (src/omnirec/data_loaders/gowalla.py). For Brightkite none was found.
SNAP_FILES = {
    "brightkite": SnapFile("loc-brightkite_totalCheckins.txt.gz", 4_491_143),
    "gowalla": SnapFile(
        "loc-gowalla_totalCheckins.txt.gz",
        6_442_890,
        sha256="c1c3e19effba649b6c89aeab3c1f9459fad88cfdc2b460fc70fd54e295d83ea0",
    ),
}

# Brightkite is said to have 5.7 % more rows than it has. What has to be noticed is another file, or half of one.
_FEWEST_OF_PUBLISHED, _MOST_OF_PUBLISHED = 0.99, 1.06


class DatasetName(StrEnum):
    """Populations of the paper."""

    GAUSSIAN = "gaussian"
    BETA = "beta"
    BRIGHTKITE = "brightkite"
    GOWALLA = "gowalla"


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Users of one population, one location each; ``source`` says in a report where they come from."""

    name: str
    region: Region
    places: FloatArray = field(repr=False)
    source: str = ""


def load_dataset(name: DatasetName, data_dir: Path | None = None) -> Dataset:
    """Return one of the paper's populations in the San Francisco region.

    ``gaussian`` and ``beta`` have 25,000 users with normal and B(2, 5) coordinates, the same on every machine.
    ``brightkite`` and ``gowalla`` are real check-ins, read from a file (`find_check_ins`), equal locations dropped.
    """
    region = named_region("san-francisco")
    if name in (DatasetName.GAUSSIAN, DatasetName.BETA):
        places = region.clip(region.with_scaling("per-axis").from_square(_generated(name)))
        return Dataset(name.value, region, places, "generated")
    path = find_check_ins(name, data_dir)
    if path is None:
        raise DataError(
            f"no file of {name.value} check-ins was found; name its folder with data_dir= or {DATA_DIR_VARIABLE}, or "
            f"get it with: nearveil datasets fetch {name.value}"
        )
    if path.name == SNAP_FILES[name].name:
        inside = [places[region.contains(places)] for places in _check_ins(path)]
        found = np.concatenate([np.empty((0, 2)), *inside])
        if not len(found):
            raise DataError(f"{path} has no check-ins in the region; remove it and fetch it again")
        return Dataset(name.value, region, np.unique(found, axis=0), "SNAP original")
    from nearveil.io.readers import read_points  # noqa: PLC0415 - loads pyarrow

    places = region.check(read_points(path))
    kind = "reconstruction" if path.name.startswith(f"{name.value}_sf.") else "file"
    return Dataset(name.value, region, np.unique(places, axis=0), f"{kind} ({path.name})")


def find_check_ins(name: DatasetName, data_dir: Path | None = None) -> Path | None:
    """Return the file of a population of real check-ins, or None.

    The first folder that has one counts: the one given, the one named by ``NEARVEIL_DATA_DIR``, the `cache_folder`. Of
    SNAP's original and a part of it (``NAME_sf.csv.gz``) in one folder, the original is taken.
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


def _generated(name: DatasetName) -> FloatArray:
    """Return points of [-1, 1]²: B(2, 5), or N(0, 1) with four deviations to the edge and none outside."""
    rng = np.random.default_rng([_SEED, 1 if name is DatasetName.GAUSSIAN else 2])
    if name is DatasetName.BETA:
        return 2 * rng.beta(2, 5, (SYNTHETIC_USERS, 2)) - 1
    drawn = rng.normal(size=(2 * SYNTHETIC_USERS, 2)) / 4
    return drawn[(np.abs(drawn) < 1).all(axis=1)][:SYNTHETIC_USERS]


def _check_ins(path: Path) -> Iterator[FloatArray]:
    """Return the locations on Earth of SNAP's file, some at a time; (0, 0) is none."""
    from nearveil.io.readers import open_source  # noqa: PLC0415 - loads pyarrow

    read = ReadOptions(columns=("user", "time", "latitude", "longitude", "place"), delimiter="tab")
    try:
        for batch in open_source(path, read).batches():
            degrees = batch.points
            yield degrees[(np.abs(degrees) <= (90.0, 180.0)).all(axis=1) & (degrees != 0.0).any(axis=1)]
    except DataError:
        raise DataError(
            f"{path} is damaged or not the file that SNAP publishes; remove it and fetch it again"
        ) from None


# Downloads.


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that is in its place, its checksum, and whether it was there already."""

    path: Path
    sha256: str
    was_there: bool


def fetch_snap(
    name: str, folder: Path, *, base_url: str = SNAP_URL, sha256: str | None = None, progress: Any = None
) -> Fetched:
    """Download a file of check-ins with pooch, unless it is there, and check it; no file stays that fails the check.

    ``name`` is ``brightkite`` or ``gowalla``, ``base_url`` the folder on SNAP or a mirror, ``sha256`` the checksum to
    expect if it is not the one known, and ``progress`` a progress bar as pooch takes one.
    """
    require_package("pooch", "downloading check-ins")
    file = SNAP_FILES[name]
    path, expected = folder / file.name, (sha256 or file.sha256 or "").lower()
    if sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", expected):
        raise UsageError("a SHA-256 is 64 hexadecimal digits; check sha256=")
    if path.exists():
        return Fetched(path, _checked(path, file, expected), was_there=True)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    with replacing(path, force=False) as part:
        _download(base_url, part, path, progress)
        return Fetched(path, _checked(part, file, expected), was_there=False)


def _checked(path: Path, file: SnapFile, expected: str) -> str:
    """Return the checksum of a file that is the right one: by it, and by what it holds."""
    import pooch  # noqa: PLC0415 - an extra

    # Reading it to the end also checks the length and the CRC that gzip keeps.
    count = sum(map(len, _check_ins(path)))
    checksum: str = pooch.file_hash(str(path))
    if expected not in ("", checksum):
        problem = "does not have the SHA-256 expected"
    elif not _FEWEST_OF_PUBLISHED <= count / file.check_ins <= _MOST_OF_PUBLISHED:
        problem = f"has {count:,} check-ins with a location where SNAP counts {file.check_ins:,}"
    else:
        return checksum
    raise DataError(f"{file.name} {problem}; remove it if it is there, and fetch it again")


def _download(base_url: str, part: Path, path: Path, progress: Any) -> None:
    import pooch  # noqa: PLC0415 - an extra
    import requests  # noqa: PLC0415 - pooch brings it

    host = urlsplit(base_url).hostname
    if not host or not base_url.startswith(("http://", "https://")):
        raise UsageError("files are downloaded from an address that starts with https:// or http://; check base_url=")
    # The bytes of the file itself: a server must not pack it once more on the way.
    headers = {"User-Agent": "nearveil", "Accept-Encoding": "identity"}
    get = pooch.HTTPDownloader(progressbar=progress or False, headers=headers, timeout=30)
    try:
        get(f"{base_url.rstrip('/')}/{path.name}", str(part), None)
    except requests.RequestException as error:
        answer = error.response
        done = "cannot be reached, or broke off" if answer is None else f"answers {answer.status_code}"
        raise DataError(
            f"{host} {done}; download {path.name} yourself and put it in {path.parent}, or set data_dir="
        ) from None
