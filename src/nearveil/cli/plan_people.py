"""Whom ``nearveil plan`` measures on: the people of a file, or made-up ones drawn from a noisy histogram of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.cli.options import places_in_region
from nearveil.io.columns import person_columns
from nearveil.io.datasets import Dataset
from nearveil.io.files import read_people
from nearveil.io.people import People
from nearveil.mechanisms.base import SEEDED_NOTE
from nearveil.mechanisms.synthetic_people import synthetic_delta, synthetic_people
from nearveil.privacy.guarantee import Basis, Guarantee, Notion, check_epsilon
from nearveil.region import Region


@dataclass(frozen=True, slots=True, eq=False)
class PlanningPeople:
    """Whom a plan is measured on.

    Attributes
    ----------
    words : str
        Who they are.
    guarantee : Guarantee, optional
        What holds for the people of the file as far as the plan goes; None where it was made on their true places.
    warnings : tuple of str
        To be printed.
    """

    dataset: Dataset
    words: str
    guarantee: Guarantee | None
    warnings: tuple[str, ...] = ()


def true_people(
    path: Path, region: Region, *, latitude: str | None, longitude: str | None, clip: bool
) -> PlanningPeople:
    """Return the people of a file as they are, one at each place."""
    people = read_people(path, latitude=latitude, longitude=longitude, carry=False)
    places = np.unique(places_in_region(people, region, clip=clip), axis=0)
    return PlanningPeople(
        Dataset(path.name, region, places),
        f"the {len(places):,} different places of {path.name}",
        None,
        _warnings(people, len(places)),
    )


def private_people(
    path: Path,
    region: Region,
    epsilon: float,
    seed: int | None,
    *,
    latitude: str | None,
    longitude: str | None,
    clip: bool,
) -> PlanningPeople:
    """Return made-up people from one noisy histogram; nothing else of the file is kept, said or looked at again.

    Not even warnings: how many rows repeat is a fact about true people.
    """
    check_epsilon(epsilon, "--private-epsilon")
    people = read_people(path, latitude=latitude, longitude=longitude, carry=False)
    # One row more or less is at most one place more or less, so this costs no more than counting rows would.
    places = np.unique(places_in_region(people, region, clip=clip), axis=0)
    made_up = synthetic_people(places, region=region, epsilon=epsilon, rng=seed)
    return PlanningPeople(
        Dataset("made-up people", region, made_up),
        f"{len(made_up):,} made-up people, drawn from one noisy histogram of {path.name}",
        _planning_guarantee(epsilon, seed),
        (f"a seed was given. {SEEDED_NOTE}",) if seed is not None else (),
    )


def _planning_guarantee(epsilon: float, seed: int | None) -> Guarantee:
    return Guarantee(
        title="This plan: all that is printed, drawn and recommended",
        notion=Notion.CENTRAL,
        epsilon=epsilon,
        unit="per row",
        delta=synthetic_delta(epsilon),
        neighbours="the file with and without one row, both such as are not refused",
        protects=(
            "how much the plan can depend on any one row is bounded by epsilon, spent once; a row with another "
            "place counts twice, and whoever has several rows pays for each. It comes on top of what the protection "
            "costs, and no ledger was charged"
        ),
        basis=Basis.THEOREM,
        because=(
            "Laplace noise on a head count and on every cell of a public grid; all else was measured on people drawn "
            "from those noisy numbers; delta is what no number drawn can reach"
        ),
        notes=(SEEDED_NOTE,) if seed is not None else (),
        per_row=True,
    )


def _warnings(people: People, places: int) -> tuple[str, ...]:
    repeated = len(people) - places
    found = []
    if repeated:
        found.append(
            f"{repeated:,} rows have the place of another row and were left out: a plan has one person at each place"
        )
    for name in person_columns(people.carried.column_names):
        ids = people.carried.column(name)
        if not pa.types.is_nested(ids.type) and len(pc.unique(ids)) < len(ids):
            found.append(
                f"column {name!r} looks like a person's id and repeats: the plan takes every place for a person of its "
                "own, but several rows of a person protect that person less than it says"
            )
            break
    return tuple(found)
