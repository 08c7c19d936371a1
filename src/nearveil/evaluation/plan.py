"""From users to a mechanism with its setting: measured on these users, not promised.

A few settings of each mechanism are measured. Where a goal is given, a root finder closes in on where it is just met,
and what it finds is measured again with fresh noise, users and queries.
"""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from nearveil.errors import DataError, UsageError
from nearveil.evaluation.area import MOST_GROWN, densest_area, grown_city
from nearveil.evaluation.contenders import Contender, contender, deployable
from nearveil.evaluation.parallel import in_parallel
from nearveil.evaluation.stats import Estimate, percent
from nearveil.evaluation.tradeoff import Sizes, measure, together
from nearveil.html_card import html_card
from nearveil.io.datasets import Dataset
from nearveil.io.location import ReadOptions, id_columns
from nearveil.io.readers import extension_of, open_source, read_points
from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.guarantee import Guarantee
from nearveil.region import WHOLE_EARTH, Region, as_region
from nearveil.types import FloatArray, ProgressBar, no_bar

if TYPE_CHECKING:
    import pandas as pd

NOT_COVERED = "This plan was computed from true locations, and no guarantee covers it: keep it to yourself."

_WITHIN = (
    "Its guarantee holds within an interval only, and the interval of each user is disclosed; no mechanism whose "
    "guarantee holds between all locations meets the goal."
)
_CHANCE = "That it meets the goal may be chance: ask for more than you need."
_ONE_FIT = "'nearveil protect' fits again: the cells or intervals of this plan are those of one fit"

LEAST_USERS, MOST_K = 50, 100
USUAL_GOAL = {"named_sparsest": 0.1}
"""What a plan aims at without a goal."""
# Settings are tried between these, and hiding among at most a quarter of all users.
_BOUNDS = {"noise_m": (10.0, 50_000.0), "hide_among": (2.0, 100_000.0), "epsilon": (0.1, 50.0)}
# The search aims a little beyond the goal, and what misses it with fresh noise goes farther: as shares.
_MARGIN, _STEP, _STEPS, _CLOSE = 0.03, 0.1, 3, 0.02
_LEAST_SHARE = 1e-4
# How much is measured on the way and at the end, and in how many runs at the end.
SEARCH, FINAL, RUNS = Sizes(500, 60, 2_000), Sizes(2_000, 200, 2_000), 2

_GOALS = {
    "found": "the best attacker finds at most {} of users within 100 m",
    "named_sparsest": "it names at most {} of the sparsest tenth",
}


@dataclass(frozen=True, slots=True)
class Goal:
    """The largest shares of users that the best attacker may find within 100 m, and name in the sparsest tenth.

    Examples
    --------
    >>> print(Goal({"found": 0.1}))
    the best attacker finds at most 10 % of users within 100 m
    """

    most: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, share in self.most.items():
            if not 0 < share < 1:
                raise UsageError(f"a share is more than 0 and less than 1, such as {name}=0.1")

    def __str__(self) -> str:
        return ", and ".join(_GOALS[name].format(percent(share)) for name, share in self.most.items())

    def gap(self, row: Row, *, surely: bool = False) -> float:
        """Return by how much a row misses the goal, as a share of it; less than 0 where it does more than is asked.

        ``surely`` goes by the worse end of the 95 % interval.
        """
        gaps = []
        for name, share in self.most.items():
            found = row.estimates[name]
            value = found.high if surely and found.high is not None else found.value
            gaps.append(math.log(max(value, _LEAST_SHARE) / share))
        return max(gaps)

    def met(self, row: Row, *, surely: bool = False) -> bool:
        """Whether a row has no gap."""
        return self.gap(row, surely=surely) <= 0


@dataclass(frozen=True, slots=True)
class Row:
    """A mechanism at one setting, measured: estimates by their names in `nearveil.evaluation.tradeoff`."""

    contender: Contender = field(repr=False)
    value: float
    estimates: dict[str, Estimate]

    @property
    def name(self) -> str:
        """Mechanism and setting."""
        made, setting = self.contender, self.contender.parameter(self.value)
        if made.swept != "hide_among":
            return f"{made.label}, {setting}"
        return f"hidden {setting}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        made = self.contender
        settings = {name: self.value if name == made.swept else None for name in _BOUNDS}
        about = {"mechanism": made.label, "sound": made.sound, "promise": made.promise}
        return {**about, **settings, **{name: asdict(estimate) for name, estimate in self.estimates.items()}}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """The result of planning: rows by mechanism, the recommended one first, and what was measured on the way.

    ``command`` runs the first row; ``left_out`` says which mechanisms were not tried, and why; ``notes`` what else to
    know of them; and ``warnings`` what to know of the users.
    """

    goal: Goal
    k: int
    rows: tuple[Row, ...]
    sweep: tuple[Row, ...]
    dataset: Dataset
    command: str
    guarantee: Guarantee
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    seed: int
    seconds: float

    @property
    def recommended(self) -> Row | None:
        """The first row if it meets the goal, with a guarantee that holds."""
        return self.rows[0] if self.goal.met(self.rows[0]) and self.rows[0].contender.sound else None

    @property
    def sentence(self) -> str:
        """The recommendation in one sentence: how exposed users still are, and what it costs."""
        best = self.rows[0]
        names = ("found", "named_sparsest", "listed_m", "nearest_m")
        found, named, listed_m, nearest_m = (best.estimates[name].value for name in names)
        advice = "No mechanism tried meets the goal; the closest is" if self.recommended is None else "Recommended:"
        return (
            f"{advice} {best.name}: the best attacker still finds {percent(found)} of users within 100 m and names "
            f"{percent(named)} of the sparsest tenth, and the {self.k} users listed are on average {listed_m:,.0f} m "
            f"away instead of {nearest_m:,.0f} m."
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to bear in mind about the recommendation."""
        is_weak = self.recommended is not None and not self.rows[0].contender.between_all_places
        may_be_chance = self.goal.met(self.rows[0]) and not self.goal.met(self.rows[0], surely=True)
        return (_WITHIN,) * is_weak + (_CHANCE,) * may_be_chance

    def verdict(self, row: Row) -> str:
        """Say whether a row meets the goal, and whether that may be chance."""
        met = "met" if self.goal.met(row, surely=True) else "met (may be chance)"
        return met if self.goal.met(row) else "not met"

    @property
    def table(self) -> pd.DataFrame:
        """The rows to read: what the best attacker gets, what lists cost, and whether the goal is met."""
        labels = {
            "found": "found within 100 m", "named_sparsest": "named, sparsest tenth",
            "listed_m": f"the {self.k} listed are at (m)",
        }  # fmt: skip
        rows = [
            {"setting": row.name, **{label: row.estimates[name] for name, label in labels.items()},
             "guarantee": row.contender.promise.partition(",")[0], "goal": self.verdict(row)}
            for row in self.rows
        ]  # fmt: skip
        import pandas as pd  # noqa: PLC0415 - an extra

        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return f"Plan({self.sentence})"

    def _repr_html_(self) -> str:
        """The plan, for a notebook."""
        facts = [("Goal", str(self.goal)), ("Command", self.command)]
        notes = [self.sentence, *self.notes, NOT_COVERED]
        return html_card("Plan", facts, notes=notes, more=[self.table.to_html(index=False)])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON."""
        best, met = self.rows[0].to_dict() | {"command": self.command}, self.recommended is not None
        return {
            "sentence": self.sentence, "cautions": self.cautions, "met": met, "recommended": best if met else None,
            "nearest": None if met else best,
            "goal": {"most": dict(self.goal.most), "words": str(self.goal)}, "k": self.k,
            "rows": [row.to_dict() | {"met": self.goal.met(row)} for row in self.rows],
            "sweep": [row.to_dict() for row in self.sweep],
            "guarantee": self.guarantee.to_dict(), "coverage": NOT_COVERED, "users": len(self.dataset.places),
            "left_out": self.left_out, "notes": self.notes, "warnings": self.warnings,
            "seed": self.seed, "seconds": round(self.seconds, 3),
        }  # fmt: skip


def plan(
    users: str | Path | FloatArray,
    *,
    found: float | None = None,
    named_sparsest: float | None = None,
    users_in_total: int | None = None,
    region: Region | str | None = None,
    read: ReadOptions | None = None,
    k: int = 10,
    mechanisms: Sequence[str | type[Mechanism]] = (),
    seed: int | None = None,
    progress: ProgressBar | None = None,
) -> Plan:
    """Recommend a mechanism and its setting for some users.

    A goal is the largest share of users that the best attacker may find within 100 m (``found``), or name in the
    sparsest tenth (``named_sparsest``), or both; the cheapest setting that meets it is recommended. Without a goal, a
    few settings are measured, and a tenth of the sparsest tenth may be named. A seed makes the plan repeatable. It is
    computed from true locations, and no guarantee covers it.

    Parameters
    ----------
    users : path or array of shape (n, 2)
        Where users are, one at each location. Of users all over the world, the densest area is measured.
    users_in_total : int, optional
        The users are a sample of so many: measure a city as dense as that.
    region : Region or str, optional
        Without it only noise in meters is tried; the other mechanisms are defined on a public region.
    k : int
        How many users a list has.
    mechanisms : sequence
        Further mechanisms to try, as ``file.py:Class`` or classes.

    Examples
    --------
    >>> from nearveil.io.synthetic import synthetic_city
    >>> from nearveil.region import named_region
    >>> points = synthetic_city(100, named_region("san-francisco"), rng=1)
    >>> made = plan(points, seed=1)
    >>> made.rows[0].name, made.warnings[0][:44]
    ('planar Laplace, noise of 1,500 m', 'these numbers hold for the 100 users given; ')
    """
    started = time.perf_counter()
    if seed is not None and seed < 0:
        raise UsageError("a seed is a whole number, 0 or more, such as seed=1")
    if not 1 <= k <= MOST_K:
        raise UsageError(f"k must be a whole number from 1 to {MOST_K}, such as k=10")
    given = {"found": found, "named_sparsest": named_sparsest}
    asked = {name: share for name, share in given.items() if share is not None}
    aim, chosen, base = Goal(asked or USUAL_GOAL), read or ReadOptions(), 1 if seed is None else seed
    tried, notes = _contenders(region, mechanisms)
    dataset, warnings = _users(users, region, chosen, users_in_total, base)
    able, left_out = _able(tried, k, len(dataset.places))
    work = partial(_tried, dataset=dataset, goal=aim, k=k, searches=bool(asked), seed=base)
    with (progress or no_bar)("planning", len(able)) as advance:
        tries = list(in_parallel(work, able, cores=os.cpu_count() or 1, progress=advance))
    done = [one for one in tries if not isinstance(one, str)]
    left_out += tuple(one for one in tries if isinstance(one, str))
    if not done:
        raise UsageError(f"no mechanism can be tried: {'; '.join(left_out)}")
    rows = _ranked([row for finals, _ in done for row in finals], aim)
    best, value = rows[0].contender, rows[0].value
    guarantee = best.fitted(value, dataset, None).guarantee
    return Plan(
        goal=aim, k=k, rows=rows, sweep=tuple(row for _, measured in done for row in measured), dataset=dataset,
        command=protect_command(users, region, chosen, best.protect_arguments(value)),
        guarantee=guarantee.with_note(_ONE_FIT) if best.mechanism.is_to_be_fitted else guarantee,
        left_out=left_out, notes=notes, warnings=warnings, seed=base, seconds=time.perf_counter() - started,
    )  # fmt: skip


# Users, and the file they are from.


def _users(
    users: str | Path | FloatArray, region: Region | str | None, read: ReadOptions, total: int | None, seed: int
) -> tuple[Dataset, tuple[str, ...]]:
    """Return users, one at each location, and warnings."""
    source = open_source(users, read) if isinstance(users, str | Path) else None
    box = WHOLE_EARTH if region is None else as_region(region)
    rows = box.check(users if source is None else read_points(source))
    places, warnings = np.unique(rows, axis=0), []
    if len(places) < len(rows):
        warnings.append(
            f"{len(rows) - len(places):,} rows repeat a location and were left out: one user at each counts"
        )
    if source is not None:
        for name in id_columns(source.columns):
            ids = {str(one) for batch in source.batches([name]) for one in batch.table.column(0).to_pylist()}
            if len(ids) < len(rows):
                warnings.append(
                    f"column {name!r} looks like a user's id and repeats: the plan counts every location as a user, "
                    "but several rows of one user protect that user less than it says"
                )
    count = len(places)
    if total is not None and total < count:
        raise UsageError(f"there are {count:,} users already; users_in_total= is the number that they are a sample of")
    if region is None:
        area = densest_area(places)
        places, box = places[area.rows], area.region
        warnings += [area.note] if area.note else []
    if total is None:
        warnings.append(
            f"these numbers hold for the {len(places):,} users given; in a city with more users each is harder to "
            "find: if they are a sample, give users_in_total="
        )
    else:
        # The part of the sample that is measured stands for as large a part of all users.
        grown = round(total * len(places) / count)
        if grown > MOST_GROWN:
            warnings.append(f"measured as a city of {MOST_GROWN:,} users; in one of {grown:,} each is harder to find")
        if len(places) > 1:
            rng = np.random.default_rng([seed, grown])
            places = np.unique(grown_city(places, min(grown, MOST_GROWN), box, rng), axis=0)
    name = Path(users).name if isinstance(users, str | Path) else "the users given"
    return Dataset("standard input" if name == "-" else name, box, places), tuple(warnings)


def protect_command(
    users: str | Path | FloatArray, region: Region | str | None, read: ReadOptions, arguments: Sequence[str]
) -> str:
    """Return the ``nearveil protect`` with these arguments, without a seed."""
    path = Path(users) if isinstance(users, str | Path) else Path("INPUT")
    extension = extension_of(path) or ".csv"
    output = f"published{extension}" if path.name == f"protected{extension}" else f"protected{extension}"
    box = f"{region.south},{region.west},{region.north},{region.east}" if isinstance(region, Region) else region
    where = [] if box is None else ["--region", box]
    return shlex.join(["nearveil", "protect", str(path), output, *where, *_options_of(read), *arguments])


def _options_of(read: ReadOptions) -> list[str]:
    """Return the command's options that say how a file is read."""
    given = {field.name: getattr(read, field.name) for field in fields(ReadOptions)}
    given = {
        **given,
        "columns": ",".join(read.columns),
        "delimiter": "tab" if read.delimiter == "\t" else read.delimiter,
    }
    return [word for name, value in given.items() if value for word in (f"--{name}", value)]


# What is tried.


def _contenders(
    region: Region | str | None, mechanisms: Sequence[str | type[Mechanism]]
) -> tuple[list[Contender], tuple[str, ...]]:
    """Return the mechanisms to try, and what to know of those that were asked for."""
    ours = [one for one in deployable() if region is not None or _is_noise(one)]
    asked = [contender(one) for one in mechanisms]
    notes = []
    for one in asked:
        if one.failure:
            notes.append(f"{one.label} is not recommended: it fails the conformance suite ({one.failure})")
        if not one.mechanism.has_density:
            notes.append(f"{one.label} has no density: the attacker goes by its draws, and the best one may do better")
    return list(dict.fromkeys([*ours, *asked])), tuple(notes)


def _able(tried: Sequence[Contender], k: int, users: int) -> tuple[list[Contender], tuple[str, ...]]:
    """Return the mechanisms that can be tried with so many users, and a sentence on each that cannot."""
    # Users are not in their own lists.
    least = max(LEAST_USERS, k + 1)
    if users < least:
        raise DataError(f"there are {users:,} users to plan for, and at least {least} different locations are needed")
    able = [one for one in tried if one.suits(one.values[0], users)]
    return able, tuple(f"{one.label}: {users:,} users are too few" for one in tried if one not in able)


def _is_noise(made: Contender) -> bool:
    """Whether its guarantee is by distance alone: learning from users would cost them something at any distance."""
    return made.swept == "noise_m" and made.between_all_places and not made.fit_loss


# The search.


def _tried(made: Contender, **options: Any) -> tuple[list[Row], list[Row]] | str:
    """Return what `_rows_of` does, or why these users cannot have the mechanism."""
    try:
        return _rows_of(made, **options)
    except UsageError as error:
        return f"{made.label}: {error}"


def _rows_of(
    made: Contender, *, dataset: Dataset, goal: Goal, k: int, searches: bool, seed: int
) -> tuple[list[Row], list[Row]]:
    """Return the rows of a mechanism for the table, and what was measured on the way."""
    least, most = _BOUNDS.get(str(made.swept), (1.0, 1.0))
    most = min(most, len(dataset.places) / 4) if made.swept == "hide_among" else most
    # Places are logarithms of values, in the order in which the goal is met ever better.
    sign = -1.0 if made.swept == "epsilon" else 1.0

    def value_at(place: float) -> float:
        # Three digits, such as a user would write.
        value = min(max(float(f"{math.exp(sign * place):.3g}"), least), most)
        return float(int(value)) if made.swept == "hide_among" else value

    def measured(value: float, runs: Sequence[int], sizes: Sizes) -> Row:
        found = [measure(made, value, dataset, seed=seed, run=run, k=k, sizes=sizes) for run in runs]
        return Row(made, value, together(found))

    final = partial(measured, runs=range(1, RUNS + 1), sizes=FINAL)
    values = [value for value in made.values[::2] if least <= value <= most]
    if not searches:
        return [final(value) for value in values], []
    sweep: dict[float, Row] = {}

    def gap(place: float) -> float:
        value = value_at(place)
        if value not in sweep:
            sweep[value] = measured(value, [0], SEARCH)
        return goal.gap(sweep[value]) + _MARGIN

    place = _root(
        gap, sorted(sign * math.log(value) for value in values), sorted(sign * math.log(end) for end in (least, most))
    )
    row = final(value_at(place))
    for _ in range(_STEPS):
        place += _STEP
        if goal.met(row) or value_at(place) == row.value:
            break
        row = final(value_at(place))
    return [row], sorted(sweep.values(), key=lambda one: one.value)


def _root(gap: Callable[[float], float], grid: Sequence[float], ends: Sequence[float]) -> float:
    """Return where the gap closes, beyond the grid only where it closes there; else the end nearest to that."""
    before = ends[:1] if gap(grid[0]) < 0 else []
    beyond = ends[1:] if gap(grid[-1]) > 0 else []
    points = [*before, *grid, *beyond]
    for low, high in pairwise(points):
        if gap(low) >= 0 >= gap(high):
            return float(brentq(gap, low, high, xtol=_CLOSE, maxiter=12, disp=False))
    return points[0] if gap(points[0]) < 0 else points[-1]


def _ranked(rows: Sequence[Row], goal: Goal) -> tuple[Row, ...]:
    """Return the recommended row first: sound, meeting the goal, with a guarantee between all locations, and cheap.

    Of two that cost about the same, one that does not learn from users is better.
    """

    def merits(row: Row) -> tuple[bool, bool, bool, int, float, float]:
        met, price = goal.met(row), row.estimates["listed_m"].value
        missing = 0 if met else round(goal.gap(row) / _CLOSE)
        step = round(math.log(max(price, _LEAST_SHARE)) / _STEP)
        strong = met and row.contender.between_all_places
        return row.contender.sound, met, strong, -missing, -step - row.contender.fit_loss, -price

    best = max(rows, key=merits)
    return (best, *(row for row in rows if row is not best))
