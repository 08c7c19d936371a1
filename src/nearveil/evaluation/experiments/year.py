"""What a year gives away: everything published of a person over 1 to 24 months, and what the budget of places does.

People are made up, or one's own. They report to the publisher of a running service, and an attacker combines all that
is published of them (`nearveil.evaluation.longitudinal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nearveil.evaluation.experiments.scope import Results, Scope
from nearveil.evaluation.longitudinal import (
    MONTHS,
    Knowledge,
    LongitudinalAttacker,
    addresses,
    density,
    pairs,
    score_months,
)
from nearveil.evaluation.movement import BAD_GPS, GOOD_GPS, MONTH, Commuter, Journeys, commute, stay_put
from nearveil.evaluation.published_history import first_moment, publish_journeys
from nearveil.evaluation.results import Chart, Column, ExperimentResult, Panel, Series, Table, Value, exact
from nearveil.evaluation.runner import Cell, Result
from nearveil.evaluation.stats import Mean, Share, mean_over_runs, share_over_runs
from nearveil.io.datasets import Dataset, DatasetName
from nearveil.io.synthetic import PEOPLE, SEED, synthetic_city
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.keys import SecretKeys
from nearveil.nearby.publishing.protection import Protection
from nearveil.region import named_region
from nearveil.types import FloatArray, IntArray

NAME = "year"
TITLE = "What months give away"

CITY = "demo city"
BUDGETS = (3, 5, 10, 20)
USUAL_BUDGET = 20

_QUICK_MONTHS = (1, 6, 12)
_BUDGET_MONTHS = (1, 12)
_QUICK_BUDGETS = (3, 20)
_COMMUTERS_OVER_OTHERS = 2
_PEOPLE_OVER_INSTANCES = 4
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class YearCell(Cell):
    """Some people for some months, and all attackers on them.

    Attributes
    ----------
    noise_m, hide_among
        One of the two.
    forgets : bool
        Whether all noise is drawn anew in every window, which a service does not do; to compare with.
    dwell_epochs : int
        In how many epochs a place must be reported before it counts.
    new_places : int
        Budget of new places in a window of 30 days.
    commutes, bad_gps : bool
        Whether people commute or stay at home, and whether some fixes are 150 m off.
    people : int
        How many are attacked.
    """

    noise_m: float | None = 500.0
    hide_among: int | None = None
    forgets: bool = False
    dwell_epochs: int = 2
    new_places: int = USUAL_BUDGET
    commutes: bool = False
    bad_gps: bool = True
    people: int = 100
    months: tuple[int, ...] = MONTHS

    @property
    def seconds(self) -> float:
        """What is published anew takes time: commuters' places, bad fixes, and more where places count at once."""
        each = (6.0 if self.commutes else 1.0) * (3.0 if self.hide_among else 1.0) * (3.0 if self.bad_gps else 1.0)
        return 3.0 + 0.0006 * each * (2.0 if self.dwell_epochs == 1 else 1.0) * self.people * max(self.months)

    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Let them report, publish, and attack."""
        homes_m = dataset.region.to_metres(dataset.places)
        rng = self.rng(7)
        targets = np.sort(rng.choice(len(homes_m), size=min(self.people, len(homes_m) // 2), replace=False))
        works_m = homes_m[rng.permutation(len(homes_m))]
        protection = self._protection(dataset, targets)
        journeys = self._journeys(homes_m, works_m, targets, protection, rng)
        gps = BAD_GPS if self.bad_gps else GOOD_GPS
        keys = SecretKeys(noise=rng.bytes(_KEY_BYTES), tokens=rng.bytes(_KEY_BYTES))
        published = publish_journeys(protection, journeys, gps=gps, keys=keys, forgets=self.forgets, rng=rng)
        found: dict[str, Any] = {"people": len(targets)}
        for knowledge in self._knowledge(dataset, homes_m, works_m, targets):
            attacker = LongitudinalAttacker(
                protection, knowledge, gps, journeys.time_by_kind() if self.commutes else None
            )
            rows = targets if knowledge.has_addresses else None
            scores = score_months(published, attacker, journeys.homes_m, months=self.months, rows=rows)
            for name in ("found", "named", "error_m", "points"):
                found[f"{knowledge.name} {name}"] = getattr(scores, name).mean(axis=1).tolist()
        found["right"] = [float(published.right[:months].mean()) for months in self.months]
        found["unpublished"] = [float(published.unpublished[:months].mean()) for months in self.months]
        return found

    @property
    def attackers(self) -> tuple[str, ...]:
        """Who attacks, by what they know."""
        return ("density", "addresses", *(("home and work",) if self.commutes else ()))

    def _knowledge(
        self, dataset: Dataset, homes_m: FloatArray, works_m: FloatArray, targets: IntArray
    ) -> list[Knowledge]:
        others = np.delete(homes_m, targets, axis=0)
        known = [density(others, dataset.region), addresses(homes_m)]
        return [*known, pairs(homes_m, works_m)] if self.commutes else known

    def _journeys(
        self,
        homes_m: FloatArray,
        works_m: FloatArray,
        targets: IntArray,
        protection: Protection,
        rng: np.random.Generator,
    ) -> Journeys:
        starts_s, lasts = first_moment(protection), max(self.months) * MONTH
        if not self.commutes:
            return stay_put(homes_m[targets], starts_s=starts_s, lasts=lasts)
        own = homes_m[targets], works_m[targets]
        return commute(*own, homes_m, Commuter(), starts_s=starts_s, lasts=lasts, rng=rng)

    def _protection(self, dataset: Dataset, targets: IntArray) -> Protection:
        among = None
        if self.hide_among is not None:
            # The cells are from other people, as from a census.
            plan = CellPlan(hide_among=self.hide_among)
            others = np.delete(dataset.places, targets, axis=0)
            among = HideAmong(self.hide_among, cells=cells_from_points(others, dataset.region, plan))
        return Protection(
            region=dataset.region,
            noise_m=self.noise_m,
            among=among,
            new_places=self.new_places,
            dwell_epochs=self.dwell_epochs,
        )


def generated_populations() -> dict[str, Dataset]:
    """Return the city that commands show things on."""
    region = named_region("san-francisco")
    return {CITY: Dataset(CITY, region, synthetic_city(PEOPLE, region, rng=SEED), "generated")}


def cells(scope: Scope) -> list[Cell]:
    """Everything that is measured: curves, and budgets."""
    wanted = [one for dataset in _populations(scope) for one in [*_curves(scope, dataset), *_budgets(scope, dataset)]]
    return [cell for one in dict.fromkeys(wanted) for cell in _runs(scope, one)]


def outcome(scope: Scope, results: Results) -> ExperimentResult:
    """Say what is found by months, with noise that is kept and noise that is drawn anew."""
    rows = curves(scope, results)
    protocol = (
        "People report every hour to the publisher of a service, windows of 30 days, a budget of "
        f"{USUAL_BUDGET} new places. GPS: 10 m; or bad, with 5 % of fixes 150 m off, a fifth of the spells 2 to 4 "
        f"fixes long. Commuters have work, 3 other regular places, and {Commuter().rare_per_month:g} places a month "
        "that they visit once. The attacker knows the noise, the grid, how phones err and how people spend their "
        "weeks, and either how densely others live, or every address, or every address with who lives there works "
        f"where. A month has 30 days. {scope.description}; shares have binomial 95 % intervals."
    )
    tables = (
        _wide_table(
            rows, "found", f"{NAME}", "Share of people whose home is guessed within 100 m, by months.", protocol
        ),
        _wide_table(
            [row for row in rows if row.attacker != "density"],
            "named",
            f"{NAME}-named",
            "Share of people whose home's address is the first guess, by months.",
            protocol,
        ),
        _wide_table(rows, "error_m", f"{NAME}-error", "Mean error of the best guess in metres, by months.", protocol),
        _budget_table(scope, results, protocol),
    )
    question = (
        "One noisy location hides somebody. What does everything that is published of them in a month, a year or two "
        "give away?"
    )
    return ExperimentResult(NAME, TITLE, question, tables, (_chart(rows),), _remarks(rows))


# -- what is measured ------------------------------------------------------------------------------------------


def _populations(scope: Scope) -> list[str]:
    """One's own people where there are any; the paper's have no homes."""
    papers = {name.value for name in DatasetName}
    return [name for name in scope.datasets if name not in papers] or [CITY]


def _curves(scope: Scope, dataset: str) -> list[YearCell]:
    """One cell of each curve, that of run 0."""
    months = _QUICK_MONTHS if scope.quick else MONTHS
    people = _PEOPLE_OVER_INSTANCES * scope.instances
    base = YearCell(dataset=dataset, seed=scope.seed, run=0, people=people, months=months)
    # To compare with: noise is drawn anew, and whatever is reported counts at once.
    anew = replace(base, forgets=True, dwell_epochs=1)
    if scope.quick:
        return [anew, base, _commuting(base)]
    return [
        *(replace(own, bad_gps=bad) for own in (anew, base, _commuting(base)) for bad in (False, True)),
        *(replace(base, noise_m=length_m) for length_m in (200.0, 1000.0)),
        *(replace(base, noise_m=None, hide_among=100, bad_gps=bad) for bad in (False, True)),
    ]


def _budgets(scope: Scope, dataset: str) -> list[YearCell]:
    """One cell of each budget; that of the usual one is among the curves."""
    usual = _commuting(next(one for one in _curves(scope, dataset) if not one.forgets))
    usual = replace(usual, bad_gps=True)
    others = replace(usual, months=(1,) if scope.quick else _BUDGET_MONTHS)
    budgets = _QUICK_BUDGETS if scope.quick else BUDGETS
    return [usual if places == USUAL_BUDGET else replace(others, new_places=places) for places in budgets]


def _commuting(cell: YearCell) -> YearCell:
    # They take longer, so that there are fewer.
    return replace(cell, commutes=True, people=max(1, cell.people // _COMMUTERS_OVER_OTHERS))


def _runs(scope: Scope, cell: YearCell) -> list[YearCell]:
    return [replace(cell, run=run) for run in scope.each_run()]


# -- what came out ---------------------------------------------------------------------------------------------


def curves(scope: Scope, results: Results) -> list[Curve]:
    """Return every curve, for each protection, kind of people and attacker."""
    return [
        Curve.of(one, attacker, [results[cell] for cell in _runs(scope, one)])
        for dataset in _populations(scope)
        for one in _curves(scope, dataset)
        for attacker in one.attackers
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """What one attacker finds of one kind of people, by months.

    Attributes
    ----------
    cell : YearCell
        What was measured, in its run 0.
    people : int
        How many were attacked in all runs.
    found, named : tuple of Share
        By months; nobody is named without addresses.
    error_m, points : tuple of Mean
        Mean error in metres, and different points published of a person in a month.
    """

    cell: YearCell
    attacker: str
    people: int
    found: tuple[Share, ...]
    named: tuple[Share, ...]
    error_m: tuple[Mean, ...]
    points: tuple[Mean, ...]

    @classmethod
    def of(cls, cell: YearCell, attacker: str, runs: Sequence[Result]) -> Curve:
        """Put the runs of a cell together."""
        people = int(runs[0]["people"])

        def share(name: str) -> tuple[Share, ...]:
            by_month = np.array([run[f"{attacker} {name}"] for run in runs]).T
            return tuple(share_over_runs((people * one).tolist(), people) for one in by_month)

        def mean(name: str) -> tuple[Mean, ...]:
            return tuple(mean_over_runs(one) for one in np.array([run[f"{attacker} {name}"] for run in runs]).T)

        return cls(cell, attacker, people * len(runs), share("found"), share("named"), mean("error_m"), mean("points"))

    @property
    def protection(self) -> str:
        """For tables."""
        cell = self.cell
        return f"among {cell.hide_among} people" if cell.hide_among else f"{cell.noise_m:g} m"

    @property
    def noise(self) -> str:
        """For tables."""
        return noise_text(self.cell)

    @property
    def movement(self) -> str:
        """For tables."""
        return "commutes" if self.cell.commutes else "stays at home"

    @property
    def gps(self) -> str:
        """For tables."""
        return "bad" if self.cell.bad_gps else "good"

    @property
    def label(self) -> str:
        """For the chart."""
        return f"{self.noise}, GPS {self.gps}"


def noise_text(cell: YearCell) -> str:
    """Say how long noise lasts, and when a place counts."""
    lasts = "drawn anew every 30 days" if cell.forgets else "permanent"
    return f"{lasts}, a place counts {'at once' if cell.dwell_epochs == 1 else f'after {cell.dwell_epochs} epochs'}"


_KNOWS = {"density": "density", "addresses": "addresses", "home and work": "addresses of home and work"}


def _wide_table(rows: Sequence[Curve], figure: str, name: str, caption: str, protocol: str) -> Table:
    form = ",.0f" if figure == "error_m" else ".3f"
    months = rows[0].cell.months
    columns = (
        Column("dataset"), Column("protection"), Column("noise"), Column("person"), Column("GPS"),
        Column("attacker knows"), Column("people", form=",d"), Column("points a month", form=".1f"),
        *(Column(f"{number} months", "after", form) for number in months),
    )  # fmt: skip
    lines: list[tuple[Value, ...]] = [
        (
            row.cell.dataset, row.protection, row.noise, row.movement, row.gps, _KNOWS[row.attacker], row.people,
            row.points[-1], *getattr(row, figure),
        )
        for row in rows
    ]  # fmt: skip
    return Table(name, caption, columns, tuple(lines), protocol)


def _budget_table(scope: Scope, results: Results, protocol: str) -> Table:
    lines: list[tuple[Value, ...]] = []
    for dataset in _populations(scope):
        own = _budgets(scope, dataset)
        months = min(max(cell.months) for cell in own)
        for cell in own:
            runs, row = [results[one] for one in _runs(scope, cell)], cell.months.index(months)
            right, unpublished = (mean_over_runs([run[name][row] for run in runs]) for name in ("right", "unpublished"))
            by_attacker = [Curve.of(cell, attacker, runs) for attacker in ("addresses", "home and work")]
            points, found = by_attacker[0].points[row], [curve.found[row] for curve in by_attacker]
            noise = noise_text(cell)
            lines.append((dataset, noise, cell.new_places, months, right, unpublished, points, *found))
    columns = (
        Column("dataset"), Column("noise"), Column("new places in 30 days", form="d"), Column("months", form="d"),
        Column("time at the right place"), Column("places not published"), Column("points a month", form=".1f"),
        Column("addresses known", "found within 100 m"), Column("home and work known", "found within 100 m"),
    )  # fmt: skip
    return Table(
        f"{NAME}-budgets",
        "What the budget of new places does to commuters with noise of 500 m and bad GPS.",
        columns,
        tuple(lines),
        f"{protocol} Right: the point that is shown is of the place where the person is; what is reported in an hour "
        "is shown from the next one on. Not published: places visited in a month of which no point was shown in it.",
    )


def _chart(rows: Sequence[Curve]) -> Chart:
    shown = [row for row in rows if row.attacker != "density"]
    panels = []
    kinds = dict.fromkeys((row.protection, row.movement, row.attacker) for row in shown)
    for protection, movement, attacker in kinds:
        own = [row for row in shown if (row.protection, row.movement, row.attacker) == (protection, movement, attacker)]
        series = tuple(Series(row.label, tuple(map(exact, row.cell.months)), row.found) for row in own)
        title = f"{protection}, {movement}, {_KNOWS[attacker]} known"
        panels.append(Panel(title, "months", "found within 100 m", series, log_x=True))
    description = (
        "Share of people found within 100 m against months, with noise that is permanent and noise that is drawn anew "
        "every 30 days, for people who stay at home and commuters."
    )
    return Chart(NAME, TITLE, tuple(panels), 2, description)


def _remarks(rows: Sequence[Curve]) -> tuple[str, ...]:
    found = []
    for row in rows:
        if row.attacker == "density":
            continue
        first, last = row.found[0], row.found[-1]
        grows = "more" if last.low > first.high else "not shown to be more"
        found.append(
            f"{row.protection}, noise {row.noise}, {row.movement}, GPS {row.gps}, {_KNOWS[row.attacker]} known: "
            f"{first.value:.0%} after {row.cell.months[0]} month and {last.value:.0%} after {row.cell.months[-1]}, "
            f"{grows}."
        )
    return (*found, "Months beyond those measured are not extrapolated.")
