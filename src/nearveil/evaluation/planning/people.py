"""The people a plan is measured on: true ones, or made-up ones drawn from a noisy histogram of them."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.evaluation.defences import Defence
from nearveil.io.columns import person_columns
from nearveil.io.datasets import Dataset
from nearveil.io.files import extension_of, read_people
from nearveil.io.input_file import is_standard
from nearveil.io.people import People, ReadOptions
from nearveil.mechanisms.fit_grid import COUNTING_SHARE, noisy_grid
from nearveil.mechanisms.fit_pic import PlacesInMemory
from nearveil.privacy.guarantee import SEEDED_NOTE, Basis, Guarantee, Notion, check_epsilon
from nearveil.randomness import EXPONENTIAL_REACH, Randomness, as_randomness
from nearveil.region import Region
from nearveil.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PlanningPeople:
    """Whom a plan is measured on.

    Attributes
    ----------
    description : str
        Who they are.
    guarantee : Guarantee, optional
        What holds for the people as far as the plan goes; None where it was made on their true places.
    warnings : tuple of str
        To be printed.
    """

    dataset: Dataset = field(repr=False)
    description: str
    guarantee: Guarantee | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleSource:
    """Where people are: a file, or places in memory; with how to read them and the public region."""

    people: str | Path | FloatArray | None = field(repr=False)
    region: Region
    region_text: str
    read: ReadOptions

    @property
    def name(self) -> str:
        """What the people are called."""
        if self._path is not None and is_standard(self._path):
            return "standard input"
        return self._path.name if self._path else "the people given"

    def without_places(self) -> PeopleSource:
        """Return the source as a plan keeps it: a file's name, or nothing."""
        return self if self._path else replace(self, people=None)

    @property
    def _path(self) -> Path | None:
        return Path(self.people) if isinstance(self.people, str | Path) else None

    def true_people(self) -> PlanningPeople:
        """Return the people as they are, one at each place."""
        rows, found = self._places()
        places = np.unique(rows, axis=0)
        description = f"the {len(places):,} different places of {self.name}"
        return PlanningPeople(
            Dataset(self.name, self.region, places), description, None, _warnings(found, len(rows) - len(places))
        )

    def private_people(self, epsilon: float, seed: int | None) -> PlanningPeople:
        """Return made-up people from one noisy histogram; nothing else is kept, said or looked at again.

        Not even warnings: how many rows repeat is a fact about true people.
        """
        check_epsilon(epsilon, "--private-epsilon")
        # One row more or less is at most one place more or less, so this costs no more than counting rows would.
        places = np.unique(self._places()[0], axis=0)
        made_up = synthetic_people(places, region=self.region, epsilon=epsilon, rng=seed)
        return PlanningPeople(
            Dataset("made-up people", self.region, made_up),
            f"{len(made_up):,} made-up people, drawn from one noisy histogram of {self.name}",
            _planning_guarantee(epsilon, seed),
            (f"a seed was given. {SEEDED_NOTE}",) if seed is not None else (),
        )

    def _places(self) -> tuple[FloatArray, People | None]:
        found = None if self._path is None else read_people(self._path, self.read, carry=False, region=self.region)
        points = self.people if found is None else found.points
        return (self.region.clip if self.read.clip else self.region.check)(points), found

    def protect_command(self, defence: Defence, *, named: str | None = None) -> str:
        """Return the ``nearveil protect`` that runs a defence, without a seed.

        ``named`` is what somebody else's class was called by.
        """
        arguments = [
            *("nearveil", "protect", str(self._path or "INPUT"), self._output()),
            *("--region", self.region_text),
            *self.read.arguments(),
        ]
        return shlex.join([*arguments, *_defence_arguments(defence, named or defence.mechanism)])

    def _output(self) -> str:
        """A file name other than the input's."""
        name = "OUTPUT" if self._path is None else self._path.name
        extension = extension_of(Path(name)) or ".csv"
        output = f"protected{extension}"
        return output if output != name else f"published{extension}"


def _defence_arguments(defence: Defence, named: str) -> list[str]:
    strength = [] if defence.epsilon is None else ["--epsilon", f"{defence.epsilon:g}"]
    if defence.noise_m is not None:
        strength = ["--noise", f"{defence.noise_m:.12g}m"]
    if defence.hides_among:
        fit = [] if defence.fit_epsilon is None else _set(fit_epsilon=f"{defence.fit_epsilon:g}")
        cells = fit if defence.free_cells is None else defence.free_cells.arguments
        return ["--hide-among", f"{defence.hide_among}", *cells]
    if not defence.is_dprs:
        return ["--mechanism", named, *strength]
    if defence.release == "paper" or defence.centres_from == "public":
        raise TypeError("a plan recommends only the sound releases of DPRS")
    params = {
        "release": defence.release,
        **({"noise": "gaussian"} if defence.noise == "gaussian" else {}),
        "fit_method": defence.centres_from,
        "fit_epsilon": f"{defence.fit_epsilon:g}",
        "centres": f"{defence.centres}",
    }
    return [*strength, *_set(**params)]


def _set(**parameters: object) -> list[str]:
    return [word for name, value in parameters.items() for word in ("--set", f"{name}={value}")]


def _planning_guarantee(epsilon: float, seed: int | None) -> Guarantee:
    return Guarantee(
        title="This plan: all that is printed, drawn and recommended",
        notion=Notion.CENTRAL,
        epsilon=epsilon,
        unit="per row",
        delta=synthetic_delta(epsilon),
        neighbours="the file with and without one row, both such as are not refused",
        promise="how much the plan can depend on any one row is bounded by epsilon, spent once",
        not_covered=(
            "a row with another place counts twice, and each of a person's rows counts; this comes on top of what the "
            "protection costs, and no ledger was charged"
        ),
        basis=Basis.THEOREM,
        because=(
            "Laplace noise on a head count and on every cell of a public grid; all else was measured on people drawn "
            "from those noisy numbers; delta bounds what the finite precision of the noise adds"
        ),
        notes=(SEEDED_NOTE,) if seed is not None else (),
        per_row=True,
    )


def _warnings(people: People | None, repeated: int) -> tuple[str, ...]:
    found = []
    if repeated:
        found.append(
            f"{repeated:,} rows have the place of another row and were left out: a plan has one person at each place"
        )
    found += [] if people is None else people.warnings
    carried = pa.table({}) if people is None else people.carried
    for name in person_columns(carried.column_names):
        ids = carried.column(name)
        if not pa.types.is_nested(ids.type) and len(pc.unique(ids)) < len(ids):
            found.append(
                f"column {name!r} looks like a person's id and repeats: the plan takes every place for a person of its "
                "own, but several rows of a person protect that person less than it says"
            )
            break
    return tuple(found)


# Made-up users from one noisy histogram, for plans that must not look at true ones.


MOST_SYNTHETIC = 1_000_000
"""However many the noisy head count says."""


def synthetic_people(
    points: object,
    *,
    region: Region,
    epsilon: float,
    rng: Randomness | np.random.Generator | int | None = None,
) -> FloatArray:
    """Draw made-up users who live about where the true ones do: latitude and longitude, shape (n, 2).

    They are uniform within each cell of the grid whose count stands out of the noise. Whatever is done with them
    afterwards costs the true users nothing more than ``epsilon``, for one of them more or less; another location of one
    of them counts twice. There are as many as the noisy head count.
    """
    users = region.check(points)
    check_epsilon(epsilon)
    generator = as_randomness(rng).generator
    grid = noisy_grid(PlacesInMemory(users, region), epsilon, None, generator)
    # From here on only the noisy answers are looked at.
    counts = grid.counts_that_stand_out
    u = generator.random(min(round(grid.population), MOST_SYNTHETIC))
    drawn = np.bincount(np.searchsorted(np.cumsum(counts)[:-1] / counts.sum(), u, side="right"), minlength=len(counts))
    return region.clip(region.from_square(grid.uniform_in_cells(drawn, generator)))


def synthetic_delta(epsilon: float) -> float:
    """Return the delta of `synthetic_people`: what the finite range of the noise adds.

    The same sum as for intervals (`Intervals.fit_cost`), over the head count and the histogram.
    """
    parts = (COUNTING_SHARE * epsilon, (1 - COUNTING_SHARE) * epsilon)
    return min(1.0, sum(4 * math.exp(part - EXPONENTIAL_REACH) for part in parts))
