"""From users and a goal to a mechanism with its setting: measured on these users, not promised.

Each mechanism is measured on a grid of its one parameter, a root finder closes in on where the goal is just met, and
what it finds is measured again with fresh noise, users and queries.
"""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from nearveil.errors import DataError, UsageError
from nearveil.evaluation.contenders import ALL, Contender, contender, deployable
from nearveil.evaluation.longitudinal import MONTHS, MonthsFigure, measure_months
from nearveil.evaluation.parallel import in_parallel
from nearveil.evaluation.stats import Estimate
from nearveil.evaluation.tradeoff import Sizes, measure, together
from nearveil.html_card import html_card
from nearveil.io.datasets import Dataset
from nearveil.io.location import ReadOptions, id_columns
from nearveil.io.readers import extension_of, open_source, read_points
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells, load_cells
from nearveil.mechanisms.fit_cells import check_hide_among
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.planar_laplace import check_noise_m
from nearveil.nearby.publishing.protection import Protection
from nearveil.privacy.guarantee import Guarantee
from nearveil.region import WHOLE_EARTH, Region, as_region, region_around
from nearveil.types import FloatArray, ProgressBar, no_bar

if TYPE_CHECKING:
    import pandas as pd

NOT_COVERED = "This plan was computed from true locations, and no guarantee covers it: keep it to yourself."

_WITHIN = (
    "Its guarantee holds within an interval only, and the interval of each user is disclosed; no mechanism whose "
    "guarantee holds between all locations meets the goal."
)
_CHANCE = "That it meets the goal may be chance: ask for more than you need."
_ONE_FIT = "'nearveil protect' fits anew: the cells or intervals of this plan are those of one fit"

LEAST_USERS, MOST_K, MOST_MONTHS = 50, 100, 60
# Settings are tried between these, and hiding among at most a quarter of all users.
_BOUNDS = {"noise_m": (10.0, 50_000.0), "hide_among": (2.0, 100_000.0), "epsilon": (0.1, 50.0)}
# The search aims a little beyond the goal, and what misses it with fresh noise goes farther: as shares.
_MARGIN, _STEP, _STEPS, _CLOSE = 0.03, 0.1, 3, 0.02
_LEAST_SHARE = 1e-4

# For each kind: what is measured, whether it is to be at least the value, and the goal in words.
_KINDS: dict[str, tuple[str, bool, str]] = {
    "attacker-error": ("error_m", True, "the best attacker is wrong by at least {:,.7g} m on average"),
    "recall": ("recall", True, "recall of at least {:g}"),
    "named": ("named", False, "the best attacker names at most {:.3g} of users"),
    "named-sparsest": ("named_sparsest", False, "the best attacker names at most {:.3g} of the sparsest tenth"),
    "noise": ("", True, "noise of {:,.7g} m"),
    "hide-among": ("", True, "users hidden among {:,.0f}"),
}


@dataclass(frozen=True, slots=True)
class Goal:
    """What a plan is for: a bound on what is measured, or the setting itself; then the least cost in meters.

    ``attacker-error``: the best attacker's mean error in meters is at least ``value``. ``named``, ``named-sparsest``:
    it names at most this share of users, or of the tenth who live where users are sparsest. ``recall``: recall@k is at
    least this share, and then as few users as possible are found within 100 m. ``noise``, ``hide-among``: noise of this
    many meters, users hidden among so many. Lists have ``k`` users.

    Examples
    --------
    >>> print(Goal("named", 0.05))
    the best attacker names at most 0.05 of users; then the least cost
    """

    kind: str
    value: float
    k: int = 10

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise UsageError(f"there is no goal {self.kind!r}; choose one of {', '.join(_KINDS)}")
        if not 1 <= self.k <= MOST_K:
            raise UsageError(f"k must be a whole number from 1 to {MOST_K}, such as k=10")
        if self.kind == "attacker-error" and not 1 <= self.value < math.inf:
            raise UsageError("the attacker's error must be at least 1 m, such as attacker_error=300m")
        if self.kind in ("recall", "named", "named-sparsest") and not 0 < self.value < 1:
            raise UsageError(f"a share is more than 0 and less than 1, such as {self.kind.replace('-', '_')}=0.1")
        if self.is_setting:
            check: Callable[[Any], object] = check_noise_m if self.kind == "noise" else check_hide_among
            check(self.value)

    def __str__(self) -> str:
        then = "the fewest users found within 100 m" if self.kind == "recall" else "the least cost"
        return _KINDS[self.kind][2].format(self.value) + ("" if self.is_setting else f"; then {then}")

    @property
    def is_setting(self) -> bool:
        """Whether it is the parameter itself, so that nothing is searched for."""
        return not _KINDS[self.kind][0]

    def gap(self, row: Row, *, surely: bool = False) -> float:
        """Return by how much a row misses the goal, as a share of it; less than 0 where it does more than is asked.

        ``surely`` goes by the worse end of the 95 % interval.
        """
        measured, at_least, _ = _KINDS[self.kind]
        if not measured:
            return -math.inf
        found = row.estimates[measured]
        worse = found.low if at_least else found.high
        value = worse if surely and worse is not None else found.value
        ratio = math.log(max(value, _LEAST_SHARE) / self.value)
        return -ratio if at_least else ratio

    def met(self, row: Row, *, surely: bool = False) -> bool:
        """Whether a row has no gap."""
        return self.gap(row, surely=surely) <= 0

    def price(self, row: Row) -> float:
        """Return what is to be as small as possible once the goal is met."""
        return row.estimates["found" if self.kind == "recall" else "listed_m"].value


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
        return f"hidden {setting}" + (", cells given" if made.arguments[0] == "--cells" else "")

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        made = self.contender
        settings = {name: self.value if name == made.swept else None for name in _BOUNDS}
        about = {"mechanism": made.label, "sound": made.sound, "promise": made.promise}
        return {**about, **settings, **{name: asdict(estimate) for name, estimate in self.estimates.items()}}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """The result of planning: rows by mechanism, the recommended one first, and what was measured on the way.

    ``command`` runs the first row; ``months`` are what a service with it gives away of users who stay at home;
    ``left_out`` says which mechanisms were not tried, and why.
    """

    goal: Goal
    rows: tuple[Row, ...]
    sweep: tuple[Row, ...]
    dataset: Dataset
    command: str
    guarantee: Guarantee
    months: tuple[MonthsFigure, ...]
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
        found, named, listed, nearest = (best.estimates[name].value for name in names)
        advice = "No mechanism tried meets the goal; the closest is" if self.recommended is None else "Recommended:"
        return (
            f"{advice} {best.name}: the best attacker still finds {found:.0%} of users within 100 m and names "
            f"{named:.0%} of the sparsest tenth, and the {self.goal.k} users listed are on average {listed:,.0f} m "
            f"away instead of {nearest:,.0f} m."
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
        """The rows to read: what attackers get, what lists cost, what the goal is about, and whether it is met."""
        labels = {
            "found": "found within 100 m", "named_sparsest": "named, sparsest tenth",
            "listed_m": f"the {self.goal.k} listed are at (m)", "recall": f"recall@{self.goal.k}", "named": "named",
            "error_m": "attacker wrong by (m)",
        }  # fmt: skip
        shown = dict.fromkeys(("found", "named_sparsest", "listed_m", _KINDS[self.goal.kind][0] or "recall"))
        rows = [
            {"setting": row.name, **{labels[name]: row.estimates[name] for name in shown},
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
            "goal": {"kind": self.goal.kind, "value": self.goal.value, "k": self.goal.k, "words": str(self.goal)},
            "rows": [row.to_dict() | {"met": self.goal.met(row)} for row in self.rows],
            "sweep": [row.to_dict() for row in self.sweep],
            "service_after_months": [
                one._asdict() | {name: asdict(getattr(one, name)) for name in ("found", "named", "error_m", "points")}
                for one in self.months
            ],
            "guarantee": self.guarantee.to_dict(), "coverage": NOT_COVERED, "people": len(self.dataset.places),
            "left_out": self.left_out, "notes": self.notes, "seed": self.seed, "seconds": round(self.seconds, 3),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured, on the way and at the end; and after how many months, of how many users."""

    search: Sizes
    final: Sizes
    runs: int
    months: tuple[int, ...]
    followed: int


FULL = Effort(Sizes(1_000, 60, 3_000), Sizes(2_000, 200, 3_000), 3, MONTHS, 200)
QUICK = Effort(Sizes(500, 40, 3_000), Sizes(1_000, 80, 3_000), 2, (1, 12), 30)


def plan(
    people: str | Path | FloatArray,
    goal: Goal | None = None,
    *,
    region: Region | str | None = None,
    read: ReadOptions | None = None,
    k: int = 10,
    mechanisms: Sequence[str | type[Mechanism]] = (),
    cells: Cells | str | Path | None = None,
    months: Sequence[int] | None = None,
    quick: bool = False,
    cores: int | None = None,
    seed: int | None = None,
    progress: ProgressBar | None = None,
) -> Plan:
    """Recommend a mechanism and its setting for some users and a goal.

    Without a goal, a few settings are measured, and the cheapest is recommended that names at most a tenth of the
    sparsest tenth of users. Without a region, only noise in meters is tried. A seed makes the plan repeatable. It is
    computed from true locations, and no guarantee covers it.

    Parameters
    ----------
    mechanisms, cells
        Further mechanisms, as ``file.py:Class`` or classes; cells to hide among users with, which cost them nothing.
    months : sequence of int, optional
        After how many months to measure what a service with the recommended setting gives away; an empty one for none.

    Examples
    --------
    >>> from nearveil.io.synthetic import synthetic_city
    >>> from nearveil.region import named_region
    >>> points = synthetic_city(100, named_region("san-francisco"), rng=1)
    >>> found = plan(points, Goal("noise", 500), region="san-francisco", quick=True, cores=1)
    >>> found.recommended.name
    'planar Laplace, noise of 500 m'
    """
    started, effort = time.perf_counter(), QUICK if quick else FULL
    if seed is not None and seed < 0:
        raise UsageError("a seed is a whole number, 0 or more, such as seed=1")
    if months is not None and not all(1 <= number <= MOST_MONTHS for number in months):
        raise UsageError(f"months are whole numbers from 1 to {MOST_MONTHS}, such as months=1,6,12")
    aim = Goal("named-sparsest", 0.1, k) if goal is None else goal
    if aim.kind == "hide-among" and region is None:
        raise UsageError("users are hidden among others of a public region; name it, such as region=berlin")
    tried, notes = _contenders(region, mechanisms, cells)
    chosen = read or ReadOptions()
    dataset, warnings = _users(people, region, chosen)
    able, left_out = _able(tried, aim, len(dataset.places))
    base = 1 if seed is None else seed
    work = partial(_tried, dataset=dataset, goal=aim, searches=goal is not None, effort=effort, seed=base)
    with (progress or no_bar)("planning", len(able) + 1) as advance:
        tries = list(in_parallel(work, able, cores=cores or os.cpu_count() or 1, progress=advance))
        found = [one for one in tries if not isinstance(one, str)]
        left_out += tuple(one for one in tries if isinstance(one, str))
        if not found:
            raise UsageError(f"no mechanism can be tried: {'; '.join(left_out)}")
        rows = _ranked([row for finals, _ in found for row in finals], aim)
        after = effort.months if months is None else sorted(set(months))
        given_away = _months_of(dataset, rows[0], after, effort.followed, base)
        advance(1)
    best, value = rows[0].contender, rows[0].value
    guarantee = best.fitted(value, dataset, None).guarantee
    return Plan(
        goal=aim, rows=rows, sweep=tuple(row for _, measured in found for row in measured), dataset=dataset,
        command=protect_command(people, region, chosen, best.protect_arguments(value)),
        guarantee=guarantee.with_note(_ONE_FIT) if best.mechanism.is_to_be_fitted else guarantee, months=given_away,
        left_out=left_out, notes=notes, warnings=warnings, seed=base, seconds=time.perf_counter() - started,
    )  # fmt: skip


# Users, and the file they are from.


def _users(
    people: str | Path | FloatArray, region: Region | str | None, read: ReadOptions
) -> tuple[Dataset, tuple[str, ...]]:
    """Return users, one at each location, and warnings."""
    box = WHOLE_EARTH if region is None else as_region(region)
    source = open_source(people, read) if isinstance(people, str | Path) else None
    rows = box.check(people if source is None else read_points(source))
    places = np.unique(rows, axis=0)
    try:
        # Noise is to stay within a box that is drawn around users.
        around = region_around(places, 0.25) if region is None else box
    except UsageError:
        raise UsageError("these users live too far apart for one plan; name a public region to plan for") from None
    name = Path(people).name if isinstance(people, str | Path) else "the users given"
    dataset = Dataset("standard input" if name == "-" else name, around, places)
    repeated, warnings = len(rows) - len(places), []
    if repeated:
        warnings.append(f"{repeated:,} rows repeat a location and were left out: a plan has one user at each location")
    if source is None:
        return dataset, tuple(warnings)
    for name in id_columns(source.columns):
        ids = {str(one) for batch in source.batches([name]) for one in batch.table.column(0).to_pylist()}
        if len(ids) < len(rows):
            warnings.append(
                f"column {name!r} looks like a user's id and repeats: the plan counts every location as a user of its "
                "own, but several rows of one user protect that user less than it says"
            )
    return dataset, tuple(warnings)


def protect_command(
    people: str | Path | FloatArray, region: Region | str | None, read: ReadOptions, arguments: Sequence[str]
) -> str:
    """Return the ``nearveil protect`` with these arguments, without a seed."""
    path = Path(people) if isinstance(people, str | Path) else Path("INPUT")
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
    region: Region | str | None, mechanisms: Sequence[str | type[Mechanism]], cells: Cells | str | Path | None
) -> tuple[list[Contender], tuple[str, ...]]:
    """Return the mechanisms to try, and what to know of those that were asked for."""
    ours = [one for one in deployable() if region is not None or _is_noise(one)]
    if cells is not None:
        made, file = (cells, "CELLS") if isinstance(cells, Cells) else (load_cells(Path(cells)), str(cells))
        if region is None or not made.region.same_edges(as_region(region)):
            raise UsageError(f"the cells are of the region {made.region}; give the same as region=REGION")
        given, label = HideAmong(cells=made), "among, cells given"
        ours.append(replace(ALL["among"], name=label, label=label, mechanism=given, arguments=("--cells", file)))
    asked = [contender(one) for one in mechanisms]
    notes = []
    for one in asked:
        if one.failure:
            notes.append(f"{one.label} is not recommended: it fails the conformance suite ({one.failure})")
        if not one.mechanism.has_density:
            notes.append(f"{one.label} has no density: the attacker goes by its draws, and the best one may do better")
    return list(dict.fromkeys([*ours, *asked])), tuple(notes)


def _able(tried: Sequence[Contender], goal: Goal, users: int) -> tuple[list[Contender], tuple[str, ...]]:
    """Return the mechanisms that can have what is asked for, and a sentence on each that cannot."""
    # Users are not in their own lists.
    least = max(LEAST_USERS, goal.k + 1)
    if users < least:
        raise DataError(f"there are {users:,} users to plan for, and at least {least} different locations are needed")
    if goal.kind == "hide-among" and goal.value > users:
        raise UsageError(f"there are {users:,} users, and nobody can be hidden among {goal.value:,.0f} of them")
    why = {}
    for one in tried:
        if (goal.kind == "noise" and not _is_noise(one)) or (goal.kind == "hide-among" and one.swept != "hide_among"):
            why[one] = f"{one.label}: it promises the users of the file something else"
        elif not one.suits(one.values[0], users):
            why[one] = f"{one.label}: {users:,} users are too few"
    if len(why) == len(tried):
        raise UsageError(f"no mechanism can be tried: {'; '.join(why.values())}")
    return [one for one in tried if one not in why], tuple(why.values())


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
    made: Contender, *, dataset: Dataset, goal: Goal, searches: bool, effort: Effort, seed: int
) -> tuple[list[Row], list[Row]]:
    """Return the rows of a mechanism for the table, and what was measured on the way."""
    least, most = _BOUNDS.get(str(made.swept), (1.0, 1.0))
    most = min(most, len(dataset.places) / 4) if made.swept == "hide_among" else most
    # Places are logarithms of values, in the order in which the goal is met ever better.
    sign = -1.0 if (made.swept == "epsilon") != (goal.kind == "recall") else 1.0

    def value_at(place: float) -> float:
        # Three digits, such as a user would write.
        value = min(max(float(f"{math.exp(sign * place):.3g}"), least), most)
        return float(int(value)) if made.swept == "hide_among" else value

    def measured(value: float, runs: Sequence[int], sizes: Sizes) -> Row:
        found = [measure(made, value, dataset, seed=seed, run=run, k=goal.k, sizes=sizes) for run in runs]
        return Row(made, value, together(found))

    final = partial(measured, runs=range(1, effort.runs + 1), sizes=effort.final)
    values = [value for value in made.values[::2] if least <= value <= most]
    if goal.is_setting or not searches:
        return [final(value) for value in ([goal.value] if goal.is_setting else values)], []
    sizes = effort.search if goal.kind.startswith("named") else replace(effort.search, named=0)
    sweep: dict[float, Row] = {}

    def gap(place: float) -> float:
        value = value_at(place)
        if value not in sweep:
            sweep[value] = measured(value, [0], sizes)
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
        met, price = goal.met(row), goal.price(row)
        missing = 0 if met else round(goal.gap(row) / _CLOSE)
        step = round(math.log(max(price, _LEAST_SHARE)) / _STEP)
        strong = met and row.contender.between_all_places
        return row.contender.sound, met, strong, -missing, -step - row.contender.fit_loss, -price

    best = max(rows, key=merits)
    return (best, *(row for row in rows if row is not best))


def _months_of(dataset: Dataset, best: Row, months: Sequence[int], users: int, seed: int) -> tuple[MonthsFigure, ...]:
    """Return what users who stay at home give away to a service; nothing where no service has the mechanism."""
    made, hides_among = best.contender, best.contender.swept == "hide_among"
    if not months or not (hides_among or made.name == "planar-laplace"):
        return ()
    fitted: Any = made.fitted(best.value, dataset, seed)
    among = fitted.with_params(**fitted.learned_params) if hides_among else None
    protection = Protection(region=dataset.region, noise_m=None if hides_among else best.value, among=among)
    rng = np.random.default_rng([seed, len(months)])
    targets = rng.permutation(len(dataset.places))[:users]
    return tuple(measure_months(protection, dataset.places, targets=targets, months=months, rng=rng))
