"""What a year gives away: everything published of a user over 1 to 12 months, and what the budget of places does.

Users of a synthetic city, or one's own, report every hour to the publisher of a running service, and an attacker
combines all that is published of them (`nearveil.evaluation.longitudinal`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from nearveil.evaluation.longitudinal import MONTHS, addresses, density, pairs, score_months
from nearveil.evaluation.movement import BAD_GPS, GOOD_GPS, MONTH, commute, stay_put
from nearveil.evaluation.studies.services import own_city, populations
from nearveil.evaluation.study import Part, Scope, generator, means
from nearveil.io.datasets import Dataset
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.nearby.publishing.protection import Protection

AT_HOME, COMMUTES = "stays at home", "commutes"
DRAWN_AGAIN, USUAL, FEW_PLACES, AMONG = "500 m, drawn again", "500 m", "500 m, 5 places", "among 100"
SERVICES: dict[str, dict[str, Any]] = {
    # To compare with: all noise is drawn again in each window, and a location counts at once. Ours does not.
    DRAWN_AGAIN: {"dwell_epochs": 1},
    USUAL: {},
    FEW_PLACES: {"new_places": 5},
    AMONG: {},
}
_CURVES = (
    (DRAWN_AGAIN, AT_HOME, "bad"), (USUAL, AT_HOME, "good"), (USUAL, AT_HOME, "bad"), (AMONG, AT_HOME, "bad"),
    (USUAL, COMMUTES, "bad"), (FEW_PLACES, COMMUTES, "bad"),
)  # fmt: skip
_QUOTED = {
    "kept": (USUAL, AT_HOME, "bad", "addresses"), "again": (DRAWN_AGAIN, AT_HOME, "bad", "addresses"),
    "commuters": (USUAL, COMMUTES, "bad", "home and work"), "few": (FEW_PLACES, COMMUTES, "bad", "home and work"),
}  # fmt: skip
_QUICK_UNTIL, _STREAM = 3, 7
BY = ["dataset", "service", "users", "gps", "attacker"]
"""What makes a curve."""


def _grid(scope: Scope) -> list[dict[str, Any]]:
    # Users who commute take longer.
    cases = {AT_HOME: 2 * scope.instances, COMMUTES: scope.instances}
    until = _QUICK_UNTIL if scope.quick else MONTHS[-1]
    return [
        {"dataset": name, "service": service, "users": users, "gps": gps, "cases": cases[users], "until": until}
        | {"seed": scope.seed, "run": run}
        for name in own_city(scope)
        for service, users, gps in _CURVES
        for run in range(scope.runs)
    ]


def measure(
    dataset: Dataset, *, service: str, users: str, gps: str, cases: int, until: int, seed: int, run: int
) -> list[dict[str, Any]]:
    """Let users report, publish, and attack; a row for each attacker and number of months."""
    rng, homes_m = generator(seed, run, _STREAM), dataset.region.to_metres(dataset.places)
    rows = np.sort(rng.choice(len(homes_m), size=min(cases, len(homes_m) // 2), replace=False))
    works_m, bad_share = homes_m[rng.permutation(len(homes_m))], BAD_GPS if gps == "bad" else GOOD_GPS
    among, others = None, np.delete(dataset.places, rows, axis=0)
    if service == AMONG:
        # The cells are from other users, as from a census.
        among = HideAmong(100, cells=cells_from_points(others, dataset.region, CellPlan(hide_among=100)))
    protection = Protection(region=dataset.region, among=among, **SERVICES[service])
    known = [density(dataset.region.to_metres(others), dataset.region), addresses(homes_m)]
    if users == COMMUTES:
        journeys = commute(homes_m[rows], works_m[rows], homes_m, until * MONTH, rng)
        known.append(pairs(homes_m, works_m))
    else:
        journeys = stay_put(homes_m[rows], until * MONTH)
    months, forgets = [number for number in MONTHS if number <= until], service == DRAWN_AGAIN
    scores = score_months(protection, journeys, rows, known, months, gps=bad_share, rng=rng, forgets=forgets)
    return [
        {"attacker": knowledge.name, "months": number, "cases": len(rows)}
        | {name: float(values[at].mean()) for name, values in own.items()}
        for knowledge, own in zip(known, scores, strict=True)
        for at, number in enumerate(months)
    ]


def found_by_months(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the share found with its interval, and of how many users, for each curve and number of months."""
    found = means(runs, [*BY, "months", "cases"], ["found"], shares=["found"], cases="cases")
    return found.assign(people=found.cases * runs.run.nunique())


def _tables(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    found = found_by_months(runs).set_index([*BY, "months"]).found.unstack("months", sort=False)
    found.columns = pd.Index([f"{number} month{'s' if number > 1 else ''}" for number in found.columns])
    ends = runs[(runs.attacker == "addresses") & runs.months.isin([runs.months.min(), runs.months.max()])]
    averages = means(ends, [*BY[:-1], "months"], ["points", "right", "error_m"])
    averages.loc[averages.users == AT_HOME, "right"] = None
    names = {
        "dataset": "data set", "users": "each user", "gps": "GPS", "attacker": "attacker knows",
        "points": "points a month", "right": "time at the right place", "error_m": "error (m)",
    }  # fmt: skip
    return {"year": found.reset_index().rename(columns=names), "year-points": averages.rename(columns=names)}


def _facts(runs: pd.DataFrame) -> dict[str, Any]:
    """Return what is found after the first and after all months, of four curves."""
    found = found_by_months(runs[runs.dataset == runs.dataset.iloc[0]]).set_index(BY[1:]).sort_index()
    facts: dict[str, Any] = {"months": int(runs.months.max())}
    for name, curve in _QUOTED.items():
        own = found.loc[curve].sort_values("months")
        facts[f"{name}_first"], *_, facts[f"{name}_last"] = own.found
        facts[f"{name}_users"] = int(own.people.iloc[0])
    return facts


PART = Part("year", "What a year gives away", _grid, measure, _tables, _facts, populations)
