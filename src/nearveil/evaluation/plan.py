"""From users and a goal to a mechanism with its setting: measured on these users, not promised.

Each mechanism is measured on a grid of its one parameter, a root finder closes in on where the goal is just met, and
what it finds is measured again with fresh noise, users and queries.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq

from nearveil.errors import DataError, UsageError
from nearveil.evaluation.contenders import Contender, among_cells, contender, deployable
from nearveil.evaluation.longitudinal import MONTHS, MonthsFigure, measure_months
from nearveil.evaluation.parallel import in_parallel
from nearveil.evaluation.plan_users import PlanUsers, UserSource
from nearveil.evaluation.stats import Estimate, Mean
from nearveil.evaluation.tradeoff import Sizes, measure, together
from nearveil.html_card import html_card, html_table
from nearveil.io.datasets import Dataset
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import Cells, load_cells
from nearveil.mechanisms.fit_cells import CellPlan, check_hide_among
from nearveil.mechanisms.planar_laplace import check_noise_m
from nearveil.mechanisms.registry import entry_of_class
from nearveil.nearby.publishing.protection import Protection
from nearveil.privacy.guarantee import Guarantee
from nearveil.region import Region, as_region
from nearveil.types import FloatArray, Progress, ProgressBar, no_bar

NOT_COVERED = (
    "This plan was made on true locations, and no guarantee covers it. Keep it to yourself. With --private-epsilon 1 a "
    "plan is made on a noisy histogram instead, and its cost is stated."
)
COVERED = (
    "This plan was made on synthetic users drawn from one noisy histogram, and looked at nothing else. It costs the "
    "users of the file no more than its own guarantee says, on top of what protecting them costs. Synthetic users are "
    "less clustered than real ones, so lists are likely worse for the true ones than it says here."
)
SEEDED = "A seed was given, so this plan protects nobody: anyone who knows the seed can undo the noise."

_ONE_FIT = "'nearveil protect' fits anew: the cells or intervals of this plan are those of one fit"

LEAST_USERS, MOST_K, MOST_MONTHS = 50, 100, 60
# Settings are tried between these, and hiding among at most a quarter of all users.
_BOUNDS = {"noise_m": (10.0, 50_000.0), "hide_among": (2.0, 100_000.0), "epsilon": (0.1, 50.0)}
_MOST_AMONG = 0.25
# The search aims a little beyond the goal, and what misses it with fresh noise goes farther: as shares.
_MARGIN, _STEP, _STEPS, _CLOSE = 0.03, 0.1, 3, 0.02
_LEAST_SHARE, _MANY = 1e-4, 3_000
# Besides hiding among users, services have this one.
_OF_A_SERVICE = "planar-laplace"

Kind = Literal["attacker-error", "recall", "named", "named-sparsest", "noise", "hide-among"]

# For each kind: what is measured, whether it is to be at least the value, and the goal in words.
_KINDS: dict[Kind, tuple[str, bool, str]] = {
    "attacker-error": ("error_m", True, "the best attacker is wrong by at least {:,.4g} m on average"),
    "recall": ("recall", True, "recall of at least {:g}"),
    "named": ("named", False, "the best attacker names at most {:.3g} of users"),
    "named-sparsest": ("named_sparsest", False, "the best attacker names at most {:.3g} of the sparsest tenth"),
    "noise": ("", True, "noise of {:,.4g} m, with its metric guarantee"),
    "hide-among": ("", True, "users hidden among {:,.0f}"),
}


@dataclass(frozen=True, slots=True)
class Goal:
    """What a plan is for: a bound on what is measured, or the setting itself; then the least cost in meters.

    Attributes
    ----------
    kind : str
        ``attacker-error``: the best attacker's mean error in meters is at least ``value``. ``named``,
        ``named-sparsest``: it names at most this share of users, or of the tenth who live where users are sparsest.
        ``recall``: recall@k is at least this share, and then as few users as possible are found within 100 m.
        ``noise``, ``hide-among``: noise of this many meters, users hidden among so many.
    k : int
        How many users a list has.

    Examples
    --------
    >>> print(Goal("named", 0.05))
    the best attacker names at most 0.05 of users; then the least cost
    """

    kind: Kind
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
        return f"{_KINDS[self.kind][2].format(self.value)}; then {then}"

    @property
    def is_setting(self) -> bool:
        """Whether it is the parameter itself, so that nothing is searched for."""
        return not _KINDS[self.kind][0]

    def met(self, row: Row, *, surely: bool = False) -> bool:
        """Whether a row meets it by its estimate, or even at the worse end of the 95 % interval."""
        measured, at_least, _ = _KINDS[self.kind]
        if not measured:
            return True
        found = row.estimates[measured]
        worse = found.low if at_least else found.high
        value = worse if surely and worse is not None else found.value
        return value >= self.value if at_least else value <= self.value

    def excess(self, row: Row) -> float:
        """Return how much stronger a row is than the goal asks for, as a share of it."""
        value = row.estimates[_KINDS[self.kind][0]].value
        if self.kind == "recall":
            return 1 - value / self.value
        ratio = math.log(max(value, _LEAST_SHARE) / self.value)
        return ratio if self.kind == "attacker-error" else -ratio

    def price(self, row: Row) -> float:
        """Return what is to be as small as possible once the goal is met."""
        return row.estimates["found" if self.kind == "recall" else "listed_m"].value


DEFAULT_SHARE = 0.1
"""A plan without a goal recommends the cheapest setting that names at most this share of the sparsest tenth."""


@dataclass(frozen=True, slots=True)
class Row:
    """A mechanism at one setting, measured: estimates by their names in `nearveil.evaluation.tradeoff`."""

    contender: Contender = field(repr=False)
    value: float
    estimates: dict[str, Estimate]
    loss: str

    @property
    def name(self) -> str:
        """Mechanism and setting."""
        made, setting = self.contender, self.contender.parameter(self.value)
        if made.swept == "hide_among":
            return f"hidden {setting} ({made.label.removeprefix('among, ')})"
        return f"{made.label}, {setting}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        made = self.contender
        settings = {name: self.value if name == made.swept else None for name in _BOUNDS}
        measured = {name: _plain(estimate) for name, estimate in self.estimates.items()}
        about = {"mechanism": made.label, "sound": made.sound, "promise": made.promise, "loss": self.loss}
        return {**about, "fit_loss": made.fit_loss, **settings, **measured}


def _plain(estimate: Estimate | None) -> dict[str, float | None] | None:
    if estimate is None:
        return None
    ends = {"half_width": estimate.half_width} if isinstance(estimate, Mean) else {}
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, **ends}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Plan:
    """The result of planning: rows by mechanism, the recommended one first, and what was measured on the way.

    ``left_out`` says which mechanisms were not tried, and why; ``months``, what a service with the first row gives away
    of users who stay at home.
    """

    goal: Goal
    rows: tuple[Row, ...]
    sweep: tuple[Row, ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    users: PlanUsers
    source: UserSource
    months: tuple[MonthsFigure, ...]
    guarantee: Guarantee
    seed: int
    seeded: bool
    seconds: float

    @property
    def recommended(self) -> Row | None:
        """The first row if it meets the goal, with a guarantee that holds."""
        return self.rows[0] if self.goal.met(self.rows[0]) and self.rows[0].contender.sound else None

    @property
    def command(self) -> str:
        """The ``nearveil protect`` of the first row."""
        best = self.rows[0]
        return self.source.protect_command(best.contender.protect_arguments(best.value))

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
    def coverage(self) -> str:
        """A sentence on whether a guarantee covers the plan itself."""
        return NOT_COVERED if self.users.guarantee is None else SEEDED if self.seeded else COVERED

    def verdict(self, row: Row) -> str:
        """Say whether a row is recommended, meets the goal, and whether that may be chance."""
        if not self.goal.met(row):
            return "not met"
        met = "met" if self.goal.met(row, surely=True) else "met (may be chance)"
        return f"recommended, {met}" if row is self.recommended else met

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return headers and rows as text."""
        shown = {
            "found within 100 m (%)": ("found", 100, 0), "named, sparsest tenth (%)": ("named_sparsest", 100, 0),
            f"the {self.goal.k} listed are at (m)": ("listed_m", 1, 0), f"recall@{self.goal.k}": ("recall", 1, 2),
            "attacker wrong by (m)": ("error_m", 1, 0),
        }  # fmt: skip
        cells = [
            [row.name, *(_text(row.estimates[name], *form) for name, *form in shown.values()),
             row.contender.promise.partition(",")[0], self.verdict(row)]
            for row in self.rows
        ]  # fmt: skip
        return ["setting", *shown, "guarantee", "goal"], cells

    def __repr__(self) -> str:
        return f"Plan({self.sentence})"

    def _repr_html_(self) -> str:
        """The plan, for a notebook."""
        facts = [("Goal", str(self.goal)), ("Command", self.command), ("Measured on", self.users.description)]
        notes = [self.sentence, *self.notes, self.coverage]
        return html_card("Plan", facts, notes=notes, more=[html_table(*self.table())])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON."""
        best, planning = self.rows[0].to_dict() | {"command": self.command}, self.users.guarantee
        met = self.recommended is not None
        return {
            "sentence": self.sentence, "met": met, "recommended": best if met else None,
            "nearest": None if met else best,
            "goal": {"kind": self.goal.kind, "value": self.goal.value, "k": self.goal.k, "words": str(self.goal)},
            "rows": [row.to_dict() | {"met": self.goal.met(row)} for row in self.rows],
            "sweep": [row.to_dict() for row in self.sweep],
            "service_after_months": [
                {"months": one.months, "people": one.people, "found_within_100_m": _plain(one.found),
                 "named": _plain(one.named), "error_m": _plain(one.error_m), "points_a_month": one.points.value}
                for one in self.months
            ],
            "guarantee": self.guarantee.to_dict(), "planning_guarantee": planning.to_dict() if planning else None,
            "covered_by_a_guarantee": planning is not None and not self.seeded, "words": self.coverage,
            "measured_on": self.users.description, "people": len(self.users.dataset.places), "seed": self.seed,
            "left_out": self.left_out, "notes": self.notes, "seeded": self.seeded, "seconds": round(self.seconds, 3),
        }  # fmt: skip


def _text(estimate: Estimate, factor: int, digits: int) -> str:
    if isinstance(estimate, Mean):
        return f"{estimate.value:,.{digits}f} ± {estimate.half_width or 0:,.{digits}f}"
    low, value, high = (factor * end for end in (estimate.low, estimate.value, estimate.high))
    return f"{value:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured, on the way and at the end; and after how many months, of how many users."""

    search: Sizes
    final: Sizes
    runs: int
    months: tuple[int, ...]
    followed: int


FULL = Effort(Sizes(1_000, 60, 1_000), Sizes(2_000, 200, 2_000), 3, MONTHS, 200)
QUICK = Effort(Sizes(500, 40, 1_000), Sizes(1_000, 80, 1_000), 2, (1, 12), 30)


def plan(
    people: str | Path | FloatArray,
    goal: Goal | None = None,
    *,
    region: Region | str | None = None,
    read: ReadOptions | None = None,
    k: int = 10,
    mechanisms: Sequence[str | type[Mechanism]] = (),
    cells: Cells | str | Path | None = None,
    private_epsilon: float | None = None,
    months: Sequence[int] | None = None,
    quick: bool = False,
    cores: int | None = None,
    seed: int | None = None,
    progress: ProgressBar | None = None,
) -> Plan:
    """Recommend a mechanism and its setting for some users and a goal.

    Without a goal, a few settings are measured, and the cheapest is recommended that names at most a tenth of the
    sparsest tenth of users. Without a region, only noise in meters is tried.

    Parameters
    ----------
    mechanisms, cells
        Further mechanisms, as ``file.py:Class`` or classes; cells to hide among users with, which cost them nothing.
    private_epsilon : float, optional
        Plan on synthetic users from one noisy histogram, which costs every user this once; otherwise no guarantee
        covers the plan.
    months : sequence of int, optional
        After how many months to measure what a service with the recommended setting gives away; an empty one for none.
    seed : int, optional
        Makes the plan repeatable. With ``private_epsilon`` it protects nobody.

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
    path = Path(people) if isinstance(people, str | Path) else None
    source = UserSource(path=path, region=region, read=read or ReadOptions())
    aim = Goal("named-sparsest", DEFAULT_SHARE, k) if goal is None else goal
    tried, notes = _contenders(region, mechanisms, cells)
    given: Any = None if path else people
    if private_epsilon is None:
        users = source.users(given)
    else:
        users = source.synthetic_users(given, private_epsilon, seed)
        # How long the file takes to read is a fact about it, and not covered by what was spent.
        started = time.perf_counter()
    able, left_out = _able(tried, aim, len(users.dataset.places))
    base = 1 if seed is None else seed
    work = partial(_rows_of, dataset=users.dataset, goal=aim, searches=goal is not None, effort=effort, seed=base)
    with (progress or no_bar)("planning", len(able) + 1) as advance:
        found = list(in_parallel(work, able, cores=cores or os.cpu_count() or 1, progress=advance))
        rows = _ranked([row for finals, _ in found for row in finals], aim)
        sought = effort.months if months is None else tuple(sorted(set(months)))
        given_away = _months_of(users.dataset, rows[0], sought, effort.followed, base, advance)
    # As it will run: without a seed.
    guarantee = rows[0].contender.fitted(rows[0].value, users.dataset, None).guarantee
    guarantee = guarantee.with_note(_ONE_FIT) if rows[0].contender.mechanism.is_to_be_fitted else guarantee
    return Plan(
        goal=aim, rows=rows, sweep=tuple(row for _, sweep in found for row in sweep), left_out=left_out, notes=notes,
        users=users, source=source, months=given_away, guarantee=guarantee, seed=base,
        seeded=private_epsilon is not None and seed is not None, seconds=time.perf_counter() - started,
    )  # fmt: skip


# What is tried.


def _contenders(
    region: Region | str | None, mechanisms: Sequence[str | type[Mechanism]], cells: Cells | str | Path | None
) -> tuple[list[Contender], tuple[str, ...]]:
    """Return the mechanisms to try, and what to know of those that were asked for."""
    ours = [one for one in deployable() if region is not None or _is_noise(one)]
    if cells is not None:
        made = cells if isinstance(cells, Cells) else load_cells(Path(cells))
        if region is None or not made.region.same_edges(as_region(region)):
            raise UsageError(f"the cells are of the region {made.region}; give the same as region=REGION")
        file = "CELLS" if isinstance(cells, Cells) else str(cells)
        ours.append(among_cells("cells given", partial(_as_they_are, made), ("--cells", file)))
    asked = [contender(one) for one in dict.fromkeys(mechanisms)]
    labels = [one.label for one in (*ours, *asked) if one not in ours or one not in asked]
    notes = []
    for one in asked:
        if labels.count(one.label) > 1:
            raise UsageError(f"two mechanisms are called {one.label!r}; give the class another name")
        if one.failure:
            notes.append(f"{one.label} is not recommended: it fails the conformance suite ({one.failure})")
        if not entry_of_class(type(one.mechanism)).has_density:
            notes.append(f"{one.label} has no density: the attacker goes by its draws, and the best one may do better")
    return list(dict.fromkeys([*ours, *asked])), tuple(notes)


def _as_they_are(cells: Cells, _plan: CellPlan, _dataset: Dataset) -> Cells:
    return cells


def _able(tried: Sequence[Contender], goal: Goal, users: int) -> tuple[list[Contender], tuple[str, ...]]:
    """Return the mechanisms that can have what is asked for, and a sentence on each that cannot."""
    # Users are not in their own lists.
    least = max(LEAST_USERS, goal.k + 1)
    if users < least:
        raise DataError(f"there are {users:,} users to plan for, and at least {least} different locations are needed")
    if goal.kind == "hide-among" and goal.value > users:
        raise UsageError(f"there are {users:,} users, and nobody can be hidden among {goal.value:,.0f} of them")
    why = {one.label: _why_not(one, goal, users) for one in tried}
    reasons = tuple(f"{label}: {text}" for label, text in why.items() if text)
    if len(reasons) == len(tried):
        raise UsageError(f"no mechanism can be tried: {'; '.join(reasons)}")
    return [one for one in tried if not why[one.label]], reasons


def _why_not(made: Contender, goal: Goal, users: int) -> str:
    if (goal.kind == "noise" and not _is_noise(made)) or (goal.kind == "hide-among" and made.swept != "hide_among"):
        return "its guarantee for the users of the file is another one"
    return "" if made.suits(made.values[0], users) else f"{users:,} users are too few"


def _is_noise(made: Contender) -> bool:
    """Whether its guarantee is by distance alone: learning from users would cost them something at any distance."""
    return made.swept == "noise_m" and made.between_all_places and not made.fit_loss


# The search.


def _rows_of(
    made: Contender, *, dataset: Dataset, goal: Goal, searches: bool, effort: Effort, seed: int
) -> tuple[list[Row], list[Row]]:
    """Return the rows of a mechanism for the table, and what was measured on the way."""
    least, most = _BOUNDS.get(str(made.swept), (1.0, 1.0))
    most = min(most, _MOST_AMONG * len(dataset.places)) if made.swept == "hide_among" else most
    # A strength grows with what is hidden.
    sign = -1.0 if made.swept == "epsilon" else 1.0

    def value_at(strength: float) -> float:
        # Three digits, such as a user would write.
        value = min(max(float(f"{math.exp(sign * strength):.3g}"), least), most)
        return float(int(value)) if made.swept == "hide_among" else value

    def measured(value: float, runs: Sequence[int], sizes: Sizes) -> Row:
        found = [measure(made, value, dataset, seed=seed, run=run, k=goal.k, sizes=sizes) for run in runs]
        return Row(made, value, together(found), str(found[0]["loss"]))

    # Few users are named: the more are tried, the better is seen how few.
    named = goal.kind.startswith("named")
    search, last = replace(effort.search, named=_MANY if named else 0), effort.final
    last = replace(last, named=_MANY) if named else last
    final = partial(measured, runs=range(1, effort.runs + 1), sizes=last)
    if goal.is_setting:
        return [final(goal.value)], []
    values = [value for value in made.values[::2] if least <= value <= most]
    if not searches:
        return [final(value) for value in values], []
    sweep: dict[float, Row] = {}
    # Recall is kept below a strength, and everything else is met above one.
    side = -1.0 if goal.kind == "recall" else 1.0

    def excess(strength: float) -> float:
        value = value_at(strength)
        if value not in sweep:
            sweep[value] = measured(value, [0], search)
        return goal.excess(sweep[value]) - side * _MARGIN

    grid = sorted(sign * math.log(value) for value in values)
    strength = _root(excess, grid, sorted((sign * math.log(least), sign * math.log(most))))
    row = final(value_at(strength))
    for _ in range(_STEPS):
        strength += side * _STEP
        if goal.met(row) or value_at(strength) == row.value:
            break
        row = final(value_at(strength))
    return [row], sorted(sweep.values(), key=lambda one: one.value)


def _root(excess: Callable[[float], float], grid: Sequence[float], ends: Sequence[float]) -> float:
    """Return the strength without excess, beyond the grid only where it lies there; else the end nearest to it."""
    before = ends[:1] if excess(grid[0]) > 0 else []
    beyond = ends[1:] if excess(grid[-1]) < 0 else []
    points = [*before, *grid, *beyond]
    for weak, strong in pairwise(points):
        if excess(weak) <= 0 <= excess(strong):
            return float(brentq(excess, weak, strong, xtol=_CLOSE, maxiter=12, disp=False))
    return points[0] if excess(points[0]) > 0 else points[-1]


def _ranked(rows: Sequence[Row], goal: Goal) -> tuple[Row, ...]:
    """Return the recommended row first: sound, meeting the goal, with a guarantee between all locations, and cheap.

    Of two that cost about the same, one that does not learn from users is better.
    """

    def merits(row: Row) -> tuple[bool, bool, bool, int, float, float]:
        met, price = goal.met(row), goal.price(row)
        missing = 0 if met else round(abs(goal.excess(row)) / _CLOSE)
        step = round(math.log(max(price, _LEAST_SHARE)) / _STEP)
        strong = met and row.contender.between_all_places
        return row.contender.sound, met, strong, -missing, -step - row.contender.fit_loss, -price

    best = max(rows, key=merits)
    return (best, *(row for row in rows if row is not best))


def _months_of(
    dataset: Dataset, best: Row, months: Sequence[int], users: int, seed: int, progress: Progress
) -> tuple[MonthsFigure, ...]:
    """Return what users give away who stay at home and report to a service every hour; nothing where none has it."""
    progress(1)
    made, hides_among = best.contender, best.contender.swept == "hide_among"
    if not months or not (hides_among or made.name == _OF_A_SERVICE):
        return ()
    fitted: Any = made.fitted(best.value, dataset, seed)
    among = fitted.with_params(**fitted.learned_params) if hides_among else None
    protection = Protection(region=dataset.region, noise_m=None if hides_among else best.value, among=among)
    rng = np.random.default_rng([seed, len(months)])
    targets = rng.choice(len(dataset.places), size=min(users, len(dataset.places)), replace=False)
    return tuple(measure_months(protection, dataset.places, targets=targets, months=months, rng=rng))
