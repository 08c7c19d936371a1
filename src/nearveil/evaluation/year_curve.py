"""What a year gives away, as measured and shipped: for the card of a service, the console and whoever asks.

``nearveil reproduce year --out FOLDER`` measures, and ``python -m nearveil.evaluation.year_curve FOLDER`` writes what
it measured to the file that is shipped. Nothing is said of settings and months that were not measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearveil.nearby.publishing.protection import Protection, Schedule
from nearveil.privacy.ledger.budget import duration_text

if TYPE_CHECKING:
    from nearveil.evaluation.experiments import year
    from nearveil.evaluation.experiments.scope import Results, Scope
    from nearveil.evaluation.stats import Mean, Share

COMMAND = "nearveil reproduce year"
_FILE = "year.json"
_DECIMALS = 4


def year_curves() -> dict[str, Any]:
    """Return everything that is shipped: the population, the protocol, and a list of curves."""
    document: dict[str, Any] = json.loads(_text())
    return document


@lru_cache(maxsize=1)
def _text() -> str:
    return resources.files("nearveil.evaluation").joinpath(_FILE).read_text(encoding="utf-8")


def curves_for(protection: Protection) -> list[dict[str, Any]]:
    """Return the curves of a protection with exactly these settings; none where it was not measured."""
    return _with_settings(_settings(protection))


def _with_settings(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [curve for curve in year_curves()["curves"] if curve["settings"] == settings]


def year_note(protection: Protection) -> str:
    """Return what months give away, in a few sentences for a card; that it was not measured, where it was not."""
    own = {(curve["person"], curve["attacker"]): curve for curve in curves_for(protection) if curve["gps"] == "bad"}
    if not own:
        return (
            f"What months of published locations give away was not measured for these settings; '{COMMAND}' and "
            "'nearveil plan' measure it for others."
        )
    known, unknown = own["stays at home", "addresses"], own["stays at home", "density"]
    both = own.get(("commutes", "home and work"))
    commuters = (
        ""
        if both is None
        else f" Of {both['people']:,} commuters, whoever knows where everybody lives and works finds the home of "
        f"{_percent(both['found'][0])} after one month and of {_percent(both['found'][-1])} after {both['months'][-1]}."
    )
    return (
        f"What months give away, measured on {known['people']:,} made-up people who stay at home, with phones of which "
        "every twentieth fix is 150 m off. An attacker who combines all that is published of a person finds within "
        f"100 m, after {_listed([str(number) for number in known['months']])} months: {_percents(known)} if every "
        f"address is known, {_percents(unknown)} if none is (95 % intervals in brackets).{commuters} Other people and "
        f"longer were not measured. Measured by '{COMMAND}'."
    )


def _percents(curve: Mapping[str, Any]) -> str:
    return _listed([_percent(share) for share in curve["found"]])


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _percent(share: Mapping[str, float]) -> str:
    return f"{100 * share['value']:.0f} % ({100 * share['low']:.0f} to {100 * share['high']:.0f})"


def year_chart(protection: Protection) -> dict[str, Any]:
    """Return what a page draws: curves of these settings, or of the nearest that were measured, under their own name.

    Of the curves, those with bad GPS.
    """
    document, own = year_curves(), _settings(protection)
    measured = bool(_with_settings(own))
    shown = own if measured else _nearest(own)
    return {
        "measured": measured,
        "settings": None if shown is None else _settings_text(shown),
        "population": document["population"],
        "protocol": document["protocol"],
        "command": document["command"],
        "curves": [
            {name: curve[name] for name in ("person", "attacker", "people", "months", "found")}
            for curve in ([] if shown is None else _with_settings(shown))
            if curve["gps"] == "bad"
        ],
    }


def _nearest(settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The measured settings of the same kind with the nearest distance, or number of people; None without any."""
    key = "noise_m" if settings["hide_among"] is None else "hide_among"
    measured: list[dict[str, Any]] = [curve["settings"] for curve in year_curves()["curves"]]
    alike = [one for one in measured if one[key] is not None and not one["forgets"]]
    return min(alike, key=lambda one: abs(math.log(one[key] / settings[key])), default=None)


def _settings_text(settings: Mapping[str, Any]) -> str:
    """Say settings in words: "noise of 500 m, 20 new places in 30 days, …"."""
    among = settings["hide_among"]
    hides = f"noise of {settings['noise_m']:g} m" if among is None else f"hide among {among:,} people"
    return (
        f"{hides}, {settings['new_places']:,} new places in {settings['window_d']:g} days, a place counts "
        f"after {settings['dwell_epochs']} epochs of {duration_text(timedelta(seconds=settings['epoch_s']))}"
    )


def _settings(protection: Protection) -> dict[str, Any]:
    """What a curve depends on."""
    schedule = protection.schedule
    return {
        "noise_m": protection.noise_m,
        "hide_among": None if protection.among is None else protection.among.hide_among,
        # No service does; curves to compare with are of one that does.
        "forgets": False,
        "dwell_epochs": protection.dwell_epochs,
        "new_places": protection.new_places,
        "epoch_s": schedule.epoch_s,
        "window_d": schedule.window / timedelta(days=1),
    }


# -- written from what was measured ----------------------------------------------------------------------------


def curves_document(scope: Scope, results: Results) -> dict[str, Any]:
    """Return what is shipped, from the results of `nearveil.evaluation.experiments.year`."""
    from nearveil.evaluation.experiments import year  # noqa: PLC0415 - slow to load, and a service only reads curves

    outcome = year.outcome(scope, results)
    return {
        "population": "25,000 made-up people in the San Francisco region",
        "protocol": outcome.tables[0].protocol,
        "command": COMMAND,
        "curves": [_curve(curve) for curve in year.curves(scope, results)],
    }


def _curve(curve: year.Curve) -> dict[str, Any]:
    return {
        "settings": _measured_settings(curve.cell),
        "person": curve.movement,
        "gps": curve.gps,
        "attacker": curve.attacker,
        "people": curve.people,
        "months": list(curve.cell.months),
        "found": [_share(share) for share in curve.found],
        "named": None if curve.attacker == "density" else [_share(share) for share in curve.named],
        "error_m": [_mean(mean) for mean in curve.error_m],
        "points": [_mean(mean) for mean in curve.points],
    }


def _measured_settings(cell: year.YearCell) -> dict[str, Any]:
    usual = Schedule()
    return {
        "noise_m": cell.noise_m,
        "hide_among": cell.hide_among,
        "forgets": cell.forgets,
        "dwell_epochs": cell.dwell_epochs,
        "new_places": cell.new_places,
        "epoch_s": usual.epoch_s,
        "window_d": usual.window / timedelta(days=1),
    }


def _share(share: Share) -> dict[str, float]:
    return {name: round(getattr(share, name), _DECIMALS) for name in ("value", "low", "high")}


def _mean(mean: Mean) -> float:
    return round(mean.value, 1)


def _main(arguments: Sequence[str] | None = None) -> None:
    from nearveil.evaluation.experiments import year  # noqa: PLC0415
    from nearveil.evaluation.experiments.scope import Scope  # noqa: PLC0415
    from nearveil.evaluation.runner import open_journal, run_cells  # noqa: PLC0415

    parser = argparse.ArgumentParser(description="Ship what 'nearveil reproduce year --out FOLDER' measured.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--instances", type=int, default=50)
    given = parser.parse_args(arguments)
    scope = Scope(datasets={}, runs=given.runs, instances=given.instances)
    with open_journal(given.folder / "cells.jsonl") as journal:
        results = run_cells(year.cells(scope), year.generated_populations(), journal, cores=os.cpu_count() or 1)
    # One line for each number would be ten times as long.
    text = json.dumps(curves_document(scope, results), separators=(",", ":")).replace('{"settings"', '\n{"settings"')
    Path(__file__).with_name(_FILE).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    _main()
