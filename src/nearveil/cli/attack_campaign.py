"""``nearveil attack --campaign``: map all users without an account of one's own, then find further users."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.attacks.base import Outcome
from nearveil.cli._output import progress_bar, say, say_json, warn
from nearveil.errors import UsageError
from nearveil.evaluation.campaign import CampaignOutcome, attack_campaign
from nearveil.evaluation.population import protection_sentences
from nearveil.evaluation.simulation import Simulation
from nearveil.evaluation.stats import percent
from nearveil.io.atomic import replacing
from nearveil.report.text_table import text_table


def run_campaign(service: Simulation, *, tau_m: float, picture: tuple[Path, ...], json: bool, force: bool) -> None:
    """Map the users of a service, and print the result."""
    if any(path.suffix.lower() != ".png" for path in picture):
        raise UsageError("a campaign is drawn as a PNG; name a --picture that ends in .png")
    outcome = attack_campaign(service, tau_m=tau_m, progress=progress_bar)
    if json:
        say_json(campaign_document(outcome))
    else:
        area = [service.area.note] if service.area.note else []
        say("\n".join([*campaign_sentences(outcome), *area]) + f"\n\n{text_table(*campaign_table(outcome))}")
    # Last, so that the results are printed even if a picture cannot be written.
    for path in picture:
        # Heavy, and only needed where a picture is drawn.
        from nearveil.report.campaign_figure import draw_campaign  # noqa: PLC0415

        with replacing(path, force=force, private=True) as partial:
            draw_campaign(outcome, partial)
        # Not on standard output, which may be JSON.
        warn(f"true locations can be seen in {path}; do not publish")


def campaign_sentences(outcome: CampaignOutcome) -> list[str]:
    """Say what the map tells, and how the campaign ended where that is not as it should be."""
    within, each = f"within {outcome.tau_m:g} m", outcome.queries_per_located
    located = f"{percent(outcome.located / outcome.people)} of {outcome.people:,} users located {within}"
    if outcome.is_protected:
        truly = percent(outcome.truly_located / outcome.people)
        located += f" of where they are published, and {truly} {within} of where they are"
    said = [located + ("." if each is None else f", {each:.2f} queries each.")]
    if outcome.protection is not None:
        said += protection_sentences(outcome.protection, tau_m=outcome.tau_m, k=outcome.k)
    if outcome.result.outcome is not Outcome.FOUND:
        said.append(f"The campaign ended early: {outcome.result.outcome}.")
    return said


def campaign_table(outcome: CampaignOutcome) -> tuple[list[str], list[list[str]]]:
    """Headers and the only row: the map, and then users who join later and are found with it."""
    further, coverage = outcome.further, outcome.coverage
    row = {
        "lists of": str(outcome.k),
        "users seen": percent(len(outcome.rows) / outcome.people),
        "queries": f"{outcome.queries:,}",
        "median error (m)": f"{np.median(outcome.errors_m):.1f}" if len(outcome.rows) else "–",
        "radii that hold": "–" if coverage is None else percent(coverage),
        "queries for a further user": "–" if further is None else f"{further.queries.value:.1f}",
        "further users found": "–" if further is None else percent(further.found.value),
    }
    return list(row), [list(row.values())]


def campaign_document(outcome: CampaignOutcome) -> dict[str, Any]:
    """Return the numbers for machines."""
    seen, measured = len(outcome.rows) > 0, outcome.protection
    return {
        "sentence": campaign_sentences(outcome)[0], "attack": "campaign", "name": outcome.name, "k": outcome.k,
        "tau_m": outcome.tau_m, "outcome": str(outcome.result.outcome), "protected": outcome.is_protected,
        "users": outcome.people, "seen": len(outcome.rows), "located": outcome.located,
        "truly_located": outcome.truly_located, "queries": outcome.queries,
        "queries_per_located": outcome.queries_per_located, "radius_holds": outcome.coverage,
        "median_error_m": float(np.median(outcome.errors_m)) if seen else None,
        "median_true_error_m": float(np.median(outcome.true_errors_m)) if seen else None,
        "further_users": None if outcome.further is None else asdict(outcome.further),
        "protection": None if measured is None else {name: asdict(one) for name, one in measured.items()},
    }  # fmt: skip
