"""The users a plan is measured on: true ones, or synthetic ones drawn from a noisy histogram of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.errors import UsageError
from nearveil.io.columns import person_columns
from nearveil.io.datasets import Dataset
from nearveil.io.files import extension_of, read_people
from nearveil.io.input_file import is_standard
from nearveil.io.people import People, ReadOptions
from nearveil.mechanisms.fit_grid import synthetic_delta, synthetic_people
from nearveil.privacy.guarantee import SEEDED_NOTE, Basis, Guarantee, Notion, check_epsilon
from nearveil.region import WHOLE_EARTH, Region, as_region, region_around
from nearveil.types import FloatArray

# Noise is to stay within a box that is drawn around users for measuring.
_AROUND = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class PlanUsers:
    """Users that a plan is measured on; ``guarantee`` is what holds for them as far as the plan goes, if anything."""

    dataset: Dataset = field(repr=False)
    description: str
    guarantee: Guarantee | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSource:
    """Where users' locations are from, without the locations: a file's name, how it is read, and the public region."""

    path: Path | None
    region: Region | str | None
    read: ReadOptions

    def users(self, points: FloatArray | None) -> PlanUsers:
        """Return the users as they are, one at each location."""
        rows, found = self._locations(points)
        places = np.unique(rows, axis=0)
        region = region_around(places, _AROUND) if self.region is None else as_region(self.region)
        warnings = _warnings(found, len(rows) - len(places))
        return PlanUsers(
            Dataset(self._name, region, places), f"{len(places):,} locations of {self._name}", None, warnings
        )

    def synthetic_users(self, points: FloatArray | None, epsilon: float, seed: int | None) -> PlanUsers:
        """Return synthetic users from one noisy histogram; nothing else is kept, said or looked at again.

        Not even warnings: how many rows repeat is a fact about true users.
        """
        check_epsilon(epsilon, "private_epsilon")
        if self.region is None:
            raise UsageError("the noisy histogram is over a public region; name it, such as region=berlin")
        region = as_region(self.region)
        # One row more or less is at most one location more or less, so this costs no more than counting rows would.
        made = synthetic_people(np.unique(self._locations(points)[0], axis=0), region=region, epsilon=epsilon, rng=seed)
        described = f"{len(made):,} synthetic users, drawn from one noisy histogram of {self._name}"
        warnings = (f"a seed was given. {SEEDED_NOTE}",) if seed is not None else ()
        return PlanUsers(Dataset("synthetic users", region, made), described, _guarantee(epsilon, seed), warnings)

    @property
    def _name(self) -> str:
        if self.path is None:
            return "the users given"
        return "standard input" if is_standard(self.path) else self.path.name

    def _locations(self, points: FloatArray | None) -> tuple[FloatArray, People | None]:
        region = WHOLE_EARTH if self.region is None else as_region(self.region)
        found = None if self.path is None else read_people(self.path, self.read, carry=False, region=region)
        return (region.clip if self.read.clip else region.check)(points if found is None else found.points), found

    def protect_command(self, arguments: Sequence[str]) -> str:
        """Return the ``nearveil protect`` with these arguments, without a seed."""
        extension = extension_of(Path("OUTPUT" if self.path is None else self.path.name)) or ".csv"
        taken = self.path is not None and self.path.name == f"protected{extension}"
        output, box = f"{'published' if taken else 'protected'}{extension}", self.region
        if isinstance(box, Region):
            box = f"{box.south},{box.west},{box.north},{box.east}"
        where = [] if box is None else ["--region", box]
        words = ["nearveil", "protect", str(self.path or "INPUT"), output, *where, *self.read.arguments(), *arguments]
        return shlex.join(words)


def _guarantee(epsilon: float, seed: int | None) -> Guarantee:
    return Guarantee(
        title="This plan: all that is printed, drawn and recommended",
        notion=Notion.CENTRAL,
        epsilon=epsilon,
        unit="per row",
        delta=synthetic_delta(epsilon),
        neighbours="the file with and without one row, both such as are not refused",
        promise="how much the plan can depend on any one row is bounded by epsilon, spent once",
        not_covered=(
            "a row with another location counts twice, and each of a user's rows counts; this comes on top of what the "
            "protection costs, and no ledger was charged"
        ),
        basis=Basis.THEOREM,
        because=(
            "Laplace noise on a count and on every cell of a public grid; all else was measured on users drawn from "
            "those noisy numbers; delta bounds what the finite precision of the noise adds"
        ),
        notes=(SEEDED_NOTE,) if seed is not None else (),
        per_row=True,
    )


def _warnings(people: People | None, repeated: int) -> tuple[str, ...]:
    found = []
    if repeated:
        found.append(f"{repeated:,} rows repeat a location and were left out: a plan has one user at each location")
    found += [] if people is None else people.warnings
    carried = pa.table({}) if people is None else people.carried
    for name in person_columns(carried.column_names):
        ids = carried.column(name)
        if not pa.types.is_nested(ids.type) and len(pc.unique(ids)) < len(ids):
            found.append(
                f"column {name!r} looks like a user's id and repeats: the plan counts every location as a user of its "
                "own, but several rows of one user protect that user less than it says"
            )
            break
    return tuple(found)
