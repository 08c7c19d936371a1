"""What a year gives away, as measured and shipped: for the card of a service and the console.

``nearveil reproduce year --out FOLDER`` measures, and ``python -m nearveil.evaluation.year_curve FOLDER/year.csv``
writes what is shipped. Nothing is said of settings and months that were not measured.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearveil.nearby.publishing.protection import Protection
from nearveil.privacy.ledger.budget import duration_text
from nearveil.region import named_region

if TYPE_CHECKING:
    from pandas import DataFrame

COMMAND = "nearveil reproduce year"
_FILE = "year.json"
_POPULATION = "25,000 synthetic users in the San Francisco region"
_PROTOCOL = (
    "Users report every hour to the publisher of a service. Fixes are 10 m off, and every twentieth is 150 m off, a "
    "fifth of the spells 2 to 4 fixes long. Users who commute have work, 3 other regular places, and 4 places a month "
    "that they visit once. The attacker knows the noise, the grid, how phones err and how users spend their weeks, and "
    "either how densely others live, or every address, or every address with the place where the user who lives there "
    "works. A month has 30 days. Intervals are 95 % intervals over users."
)


@lru_cache(maxsize=1)
def _text() -> str:
    return resources.files("nearveil.evaluation").joinpath(_FILE).read_text(encoding="utf-8")


def year_chart(protection: Protection) -> dict[str, Any]:
    """Return what is shipped: settings, population, protocol, and curves, none where these settings differ."""
    document: dict[str, Any] = json.loads(_text())
    return document | {"curves": document["curves"] if _settings(protection) == document["settings"] else []}


def year_note(protection: Protection) -> str:
    """Return what months give away, in a few sentences for a card; that it was not measured, where it was not."""
    own = {(curve["person"], curve["attacker"]): curve for curve in year_chart(protection)["curves"]}
    if not own:
        return (
            f"What months of published locations give away was not measured for these settings; '{COMMAND}' and "
            "'nearveil plan' measure it for others."
        )
    known, unknown = own["stays at home", "addresses"], own["stays at home", "density"]
    both = own.get(("commutes", "home and work"))
    commuters = "" if both is None else (
        f" Of {both['people']:,} users who commute, an attacker who knows where all users live and work finds the home "
        f"of {_percent(both['found'][0])} after one month and of {_percent(both['found'][-1])} after "
        f"{both['months'][-1]}."
    )  # fmt: skip
    return (
        f"What months give away, measured on {known['people']:,} synthetic users who stay at home, with phones of "
        "which every twentieth fix is 150 m off. An attacker who combines all that is published of a user finds within "
        f"100 m, after {_listed([str(number) for number in known['months']])} months: "
        f"{_listed([_percent(share) for share in known['found']])} if every address is known, "
        f"{_listed([_percent(share) for share in unknown['found']])} if none is (95 % intervals in brackets)."
        f"{commuters} Other users and longer were not measured. Measured by '{COMMAND}'."
    )


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _percent(share: dict[str, float]) -> str:
    return f"{100 * share['value']:.0f} % ({100 * share['low']:.0f} to {100 * share['high']:.0f})"


def _settings(protection: Protection) -> str:
    """Say in words what curves depend on."""
    schedule, noise_m = protection.schedule, protection.noise_m
    hides = f"noise of {noise_m:g} m" if protection.among is None else f"among {protection.among.hide_among} users"
    return (
        f"{hides}, {protection.new_places} new places in {duration_text(schedule.window)}, a place counts after "
        f"{protection.dwell_epochs} epochs of {duration_text(schedule.epoch)}"
    )


def shipped(runs: DataFrame) -> dict[str, Any]:
    """Return what is shipped, from all runs of the part ``year``: a service with the defaults, and bad fixes."""
    from nearveil.evaluation.studies import year  # noqa: PLC0415 - loads pandas, and a service only reads curves

    runs = runs[(runs.service == year.USUAL) & (runs.gps == "bad")]
    curves = [
        {
            "person": {year.AT_HOME: "stays at home", year.COMMUTES: "commutes"}[users],
            "attacker": attacker,
            "people": int(runs.cases.iloc[0] * runs.run.nunique()),
            "months": group.months.tolist(),
            "found": [
                {name: round(getattr(share, name), 4) for name in ("value", "low", "high")} for share in group.found
            ],
        }
        for (users, attacker), group in year.found_by_months(runs).groupby(["users", "attacker"], sort=False)
    ]
    settings = _settings(Protection(region=named_region("san-francisco")))
    return {
        "settings": settings,
        "population": _POPULATION,
        "protocol": _PROTOCOL,
        "command": COMMAND,
        "curves": curves,
    }


if __name__ == "__main__":
    import pandas as pd

    text = json.dumps(shipped(pd.read_csv(sys.argv[1])), separators=(",", ":")).replace('{"person"', '\n{"person"')
    Path(__file__).with_name(_FILE).write_text(f"{text}\n", encoding="utf-8")
