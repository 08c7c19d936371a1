"""The users a plan is measured on, and how their file is named and read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.io.columns import person_columns
from nearveil.io.datasets import Dataset
from nearveil.io.files import extension_of, read_people
from nearveil.io.input_file import is_standard
from nearveil.io.people import People, ReadOptions
from nearveil.region import WHOLE_EARTH, Region, as_region, region_around
from nearveil.types import FloatArray

# Noise is to stay within a box that is drawn around users for measuring.
_AROUND = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class PlanUsers:
    """Users, one at each location; ``region`` is the public one as it was given, if any was."""

    dataset: Dataset = field(repr=False)
    path: Path | None
    region: Region | str | None
    read: ReadOptions
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, people: str | Path | FloatArray, region: Region | str | None, read: ReadOptions) -> PlanUsers:
        """Read users from a file, or take their locations."""
        path = Path(people) if isinstance(people, str | Path) else None
        box = WHOLE_EARTH if region is None else as_region(region)
        found = None if path is None else read_people(path, read, carry=False, region=box)
        rows = (box.clip if read.clip else box.check)(people if found is None else found.points)
        places = np.unique(rows, axis=0)
        name = "the users given" if path is None else "standard input" if is_standard(path) else path.name
        dataset = Dataset(name, region_around(places, _AROUND) if region is None else box, places)
        return cls(dataset, path, region, read, _warnings(found, len(rows) - len(places)))

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
