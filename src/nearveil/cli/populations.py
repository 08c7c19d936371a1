"""Populations that commands work on: one of the paper's, the users in a file, or a synthetic city."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nearveil.cli._output import progress_bar
from nearveil.errors import DataError, UsageError
from nearveil.io.datasets import Dataset, DatasetName, load_dataset
from nearveil.io.readers import ReadOptions, open_source
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region

_MOST_DIGITS = 18
_ID_COLUMNS = ("user", "user_id", "userid", "id", "person", "person_id")


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """People, and a function from a person's id to their row."""

    dataset: Dataset
    number_of: Callable[[str], int]


def dataset_population(name: DatasetName) -> Population:
    """Return a population of the paper; the ids of its people are 1, 2, 3 ..."""
    dataset = load_dataset(name)
    return Population(dataset, _by_row(len(dataset.places)))


def file_population(path: Path, region: Region, read: ReadOptions) -> Population:
    """Return the users of a file; their ids are those of a column such as user or id, or row numbers."""
    source = open_source(path, read)
    column = next((name for name in source.columns if name.lower() in _ID_COLUMNS), None)
    batches = list(source.batches(() if column is None else (column,)))
    points = np.concatenate([batch.points for batch in batches]) if batches else np.empty((0, 2))
    name = "standard input" if str(path) == "-" else path.name
    if not len(points):
        raise DataError(f"{name} has no users in it; a service without users cannot be attacked")
    dataset = Dataset(name, region, region.check(points))
    if column is None:
        return Population(dataset, _by_row(len(dataset.places)))
    ids = [str(value) for batch in batches for value in batch.table.column(column).to_pylist()]
    return Population(dataset, _by_id(np.array(ids), column))


def _by_row(count: int) -> Callable[[str], int]:
    def number_of(person: str) -> int:
        if not person.isdecimal() or len(person) > _MOST_DIGITS or not 1 <= int(person) <= count:
            raise UsageError(f"there is no such person; the ids here are row numbers, 1 to {count:,}")
        return int(person) - 1

    return number_of


def _by_id(ids: npt.NDArray[np.str_], column: str) -> Callable[[str], int]:
    def number_of(person: str) -> int:
        found = np.flatnonzero(ids == person)
        if len(found) == 0:
            raise UsageError(f"there is no such person in column {column!r}; check --person")
        if len(found) > 1:
            raise DataError(f"{len(found)} rows have this {column!r}; keep one row per person")
        return int(found[0])

    return number_of


# A synthetic city, for commands that need intervals or cells and get none.


def fitted_on_made_up_people(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism; one that learns from people, and was given nothing, is fitted on the made-up city."""
    if mechanism.learns is None or not mechanism.is_to_be_fitted:
        return mechanism
    repeatable = mechanism.with_params(seed=SEED)
    with progress_bar(f"finding {mechanism.learns} in a synthetic city", mechanism.fit_steps) as advance:
        fitted = repeatable.fit(synthetic_city(PEOPLE, mechanism.resolved_region, rng=SEED), progress=advance)
    return mechanism.with_params(**{mechanism.learns: fitted.learned})
