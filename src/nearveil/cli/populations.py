"""Users that commands work on: a population of the paper, the users of a file, or a synthetic city."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearveil.cli._output import progress_bar
from nearveil.errors import DataError, UsageError
from nearveil.io.datasets import DatasetName, load_dataset
from nearveil.io.location import id_columns
from nearveil.io.readers import STANDARD_STREAM, ReadOptions, Source, open_source, read_points
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region
from nearveil.types import FloatArray

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Users with their true locations, and a function from an id to a row; a region if they come with one."""

    name: str
    places: FloatArray
    row_of: Callable[[str], int]
    region: Region | None = None


def dataset_population(name: str) -> Population:
    """Return users of the paper; their ids are 1, 2, 3 ..."""
    dataset = load_dataset(DatasetName(name))
    return Population(dataset.name, dataset.places, _by_row(len(dataset.places)), dataset.region)


def file_population(path: Path, read: ReadOptions) -> Population:
    """Return the users of a file; their ids are those of a column such as user, id or person, or row numbers."""
    source = open_source(path, read)
    name = "standard input" if str(path) == STANDARD_STREAM else path.name
    places = read_points(source)
    column = next(iter(id_columns(source.columns)), None)
    return Population(name, places, _by_row(len(places)) if column is None else _by_id(source, column))


def _by_row(count: int) -> Callable[[str], int]:
    def row_of(user: str) -> int:
        if not user.isdecimal() or len(user) > _MOST_DIGITS or not 1 <= int(user) <= count:
            raise UsageError(f"there is no such user; the ids here are row numbers, 1 to {count:,}")
        return int(user) - 1

    return row_of


def _by_id(source: Source, column: str) -> Callable[[str], int]:
    def row_of(user: str) -> int:
        batches = source.batches([column])
        ids = np.array([str(value) for batch in batches for value in batch.table.column(0).to_pylist()])
        found = np.flatnonzero(ids == user)
        if len(found) == 0:
            raise UsageError(f"there is no such user in column {column!r}; check --user")
        if len(found) > 1:
            raise DataError(f"{len(found)} rows have this {column!r}; keep one row per user")
        return int(found[0])

    return row_of


# A synthetic city, for commands that need intervals or cells and get none.


def fitted_on_made_up_people(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism; one that learns from people, and was given nothing, is fitted on a synthetic city."""
    if mechanism.learns is None or not mechanism.is_to_be_fitted:
        return mechanism
    repeatable = mechanism.with_params(seed=SEED)
    with progress_bar(f"finding {mechanism.learns} in a synthetic city", mechanism.fit_steps) as advance:
        fitted = repeatable.fit(synthetic_city(PEOPLE, mechanism.resolved_region, rng=SEED), progress=advance)
    return mechanism.with_params(**{mechanism.learns: fitted.learned})
