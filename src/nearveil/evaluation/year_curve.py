"""What a year gives away, as measured and shipped: for the card of a service and the console.

``nearveil reproduce year`` measures, and ``deploy/year_file.py`` writes what is shipped. Nothing is said of settings
and months that were not measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import Any

from nearveil.nearby.publishing.protection import Protection, duration_text

COMMAND = "nearveil reproduce year"


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    return dict(json.loads(resources.files("nearveil.evaluation").joinpath("year.json").read_bytes()))


def year_chart(protection: Protection) -> dict[str, Any]:
    """Return what is shipped: settings, population, protocol, and curves, none where these settings differ."""
    document = _document()
    return document | {"curves": document["curves"] if _settings(protection) == document["settings"] else []}


def year_note(protection: Protection) -> str:
    """Return what months give away, in a few sentences for a card; that it was not measured, where it was not."""
    own = {(curve["person"], curve["attacker"]): curve for curve in year_chart(protection)["curves"]}
    if not own:
        return (
            f"What months of published locations give away was not measured for these settings; '{COMMAND}' measures "
            "it for the defaults."
        )
    known, unknown = own["stays at home", "addresses"], own["stays at home", "density"]
    both = own["commutes", "home and work"]
    return (
        f"What months give away, measured on {known['people']:,} synthetic users who stay at home and "
        f"{both['people']:,} who commute, with phones of which every twentieth fix is 150 m off. An attacker who "
        "combines all that is published finds the home of a user who stays there within 100 m, after "
        f"{_listed(map(str, known['months']))} months, in {_listed(map(_percent, known['found']))} of cases if every "
        f"address is known, and in {_listed(map(_percent, unknown['found']))} if none is (95 % intervals in brackets). "
        "If it is known where all users live and work, it is that of a user who commutes in "
        f"{_percent(both['found'][0])} after one month and in {_percent(both['found'][-1])} after "
        f"{both['months'][-1]}. Other users and longer were not measured. Measured by '{COMMAND}'."
    )


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}"


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
