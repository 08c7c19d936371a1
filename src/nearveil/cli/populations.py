"""Populations that commands work on: one of the paper's, the people in a file, or a made-up city."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearveil.cli._output import progress_bar
from nearveil.errors import DataError, UsageError
from nearveil.io.datasets import Dataset, DatasetName, load_dataset
from nearveil.io.location import id_columns
from nearveil.io.readers import STANDARD_STREAM, ReadOptions, Source, open_source, read_points
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.mechanisms.base import Mechanism
from nearveil.region import Region

_MOST_DIGITS = 18


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
    """Return the people of a file; their ids are those of a column such as person, id or user, or row numbers."""
    source = open_source(path, read)
    name = "standard input" if str(path) == STANDARD_STREAM else path.name
    dataset = Dataset(name, region, region.check(read_points(source)))
    column = next(iter(id_columns(source.columns)), None)
    return Population(dataset, _by_row(len(dataset.places)) if column is None else _by_id(source, column))


def _by_row(count: int) -> Callable[[str], int]:
    def number_of(person: str) -> int:
        if not person.isdecimal() or len(person) > _MOST_DIGITS or not 1 <= int(person) <= count:
            raise UsageError(f"there is no such person; the ids here are row numbers, 1 to {count:,}")
        return int(person) - 1

    return number_of


def _by_id(source: Source, column: str) -> Callable[[str], int]:
    def number_of(person: str) -> int:
        batches = source.batches([column])
        ids = np.array([str(value) for batch in batches for value in batch.table.column(0).to_pylist()])
        found = np.flatnonzero(ids == person)
        if len(found) == 0:
            raise UsageError(f"there is no such person in column {column!r}; check --person")
        if len(found) > 1:
            raise DataError(f"{len(found)} rows have this {column!r}; keep one row per person")
        return int(found[0])

    return number_of


# A made-up city, for commands that need intervals or cells and get none.


def fitted_on_made_up_people(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism; one that learns from people, and was given nothing, is fitted on the made-up city."""
    if mechanism.learns is None or not mechanism.is_to_be_fitted:
        return mechanism
    repeatable = mechanism.with_params(seed=SEED)
    with progress_bar(f"finding {mechanism.learns} in a made-up city", mechanism.fit_steps) as advance:
        fitted = repeatable.fit(synthetic_city(PEOPLE, mechanism.resolved_region, rng=SEED), progress=advance)
    return mechanism.with_params(**{mechanism.learns: fitted.learned})
