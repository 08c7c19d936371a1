"""``nearveil attack --campaign``: map a whole crowd without an account of one's own, then find further people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.attacks.base import Outcome
from nearveil.attacks.campaign import SHARE
from nearveil.attacks.policies import AnswerPolicy
from nearveil.cli._mechanism import MechanismChoice
from nearveil.cli._output import progress_bar, say, say_json, warn
from nearveil.cli.populations import Population
from nearveil.evaluation.campaign import CampaignOutcome, attack_campaign
from nearveil.evaluation.tradeoff import BestAttacker
from nearveil.io.atomic import replacing
from nearveil.report.tables import best_attacker_text
from nearveil.report.text_table import text_table
from nearveil.types import FloatArray


def run_campaigns(
    populations: Sequence[Population],
    *,
    mechanism: MechanismChoice,
    ks: Sequence[int],
    tau_m: float,
    policy: AnswerPolicy,
    seed: int,
    cores: int | None,
    trace: Path | None,
    json: bool,
    force: bool,
) -> None:
    """Map each population with each length of lists, and print the results."""
    found: list[CampaignOutcome] = []
    for people in populations:
        data = people.dataset
        protection = mechanism.build(data.region) if mechanism.is_given else None
        found += [
            attack_campaign(
                data.places,
                region=data.region,
                name=data.name,
                k=k,
                mechanism=protection,
                tau_m=tau_m,
                policy=policy,
                seed=seed,
                cores=cores,
                progress=progress_bar,
            )
            for k in ks
        ]
    if json:
        say_json([campaign_document(one) for one in found])
    else:
        _say_table(found)
    # Last, so that the results are printed even if a picture cannot be written.
    if trace is not None:
        _draw(found[0], trace, force=force)
        # Not on standard output, which may be JSON.
        warn(f"true locations can be seen in {trace}; do not publish")


def _draw(outcome: CampaignOutcome, path: Path, *, force: bool) -> None:
    # Heavy, and only needed where a picture is drawn.
    from nearveil.report.campaign_figure import draw_campaign  # noqa: PLC0415

    with replacing(path, force=force, private=True) as partial:
        draw_campaign(outcome, partial)


def _say_table(found: Sequence[CampaignOutcome]) -> None:
    rows = [campaign_cells(one) for one in found]
    say(text_table(list(rows[0]), [list(row.values()) for row in rows]))
    say("\n" + campaign_notes(found[0]))
    for one in found:
        say_best_attacker(one.best, one.name, one.tau_m)


def say_best_attacker(best: BestAttacker | None, people: str, tau_m: float) -> None:
    """Print what the Bayes attacker finds, where people are protected."""
    if best is not None:
        say(
            f"\nBayes attacker on {people}: best guess from one published location (knows the mechanism and all "
            f"addresses; {best.targets:,} targets):\n{best_attacker_text(best, tau_m)}"
        )


def campaign_cells(outcome: CampaignOutcome) -> dict[str, str]:
    """One row of the table, by its headers."""
    people, further, anybody = outcome.people, outcome.further, len(outcome.rows) > 0
    per_person, coverage = outcome.questions_per_located, outcome.coverage
    row = {
        "dataset": outcome.name,
        "people": f"{people:,}",
        "k": str(outcome.k),
        "seen": f"{len(outcome.rows) / people:.1%}",
        f"located within {outcome.tau_m:g} m": f"{outcome.located / people:.1%}",
        "questions": f"{outcome.result.questions:,}",
        "per located person": "–" if per_person is None else f"{per_person:.2f}",
        "median error (m)": f"{np.median(outcome.errors_m):.1f}" if anybody else "–",
        "in their radius": "–" if coverage is None else f"{coverage:.1%}",
        "for a further person": "–" if further is None else f"{further.questions.value:.1f}",
        "found": "–" if further is None else f"{further.found.value:.1%}",
    }
    if outcome.is_protected:
        row[f"truly within {outcome.tau_m:g} m"] = f"{outcome.truly_located / people:.1%}"
    return row


def campaign_notes(outcome: CampaignOutcome) -> str:
    """Return what the columns mean, and how it ended where that is not as it should be."""
    place = "where the service publishes them" if outcome.is_protected else "where they are"
    said = (
        f"The attacker has no account, asks from places of its choice, and sees ids only. located, median error: to\n"
        f"{place}; in their radius: share of those seen whom the radius holds that the attacker gives them\n"
        f"(it aims at {SHARE:.0%}); for a further person: questions to find one who joins later, with the map; found:\n"
        f"share of these within {outcome.tau_m:g} m."
    )
    if outcome.further is not None and outcome.further.never_listed:
        said += f"\n{outcome.further.never_listed} further people are listed nowhere, and were not searched for."
    if outcome.result.outcome is not Outcome.FOUND:
        said += f"\nThe campaign ended early: {outcome.result.outcome}."
    return said


def campaign_document(outcome: CampaignOutcome) -> dict[str, Any]:
    """Return the same for machines."""
    result, further, best = outcome.result, outcome.further, outcome.best

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(float(value), 4)

    def median(values: FloatArray) -> float | None:
        return rounded(np.median(values)) if len(values) else None

    return {
        "attack": "campaign", "dataset": outcome.name, "k": outcome.k, "tau_m": outcome.tau_m,
        "outcome": str(result.outcome), "protected": outcome.is_protected, "people": outcome.people,
        "seen": len(outcome.rows), "located": outcome.located, "truly_located": outcome.truly_located,
        "questions": result.questions, "questions_per_located": rounded(outcome.questions_per_located),
        "median_error_m": median(outcome.errors_m), "median_true_error_m": median(outcome.true_errors_m),
        "median_radius_m": median(result.radii_m), "radius_aims_at": SHARE, "radius_holds": rounded(outcome.coverage),
        "disorder": rounded(result.disorder), "seconds": rounded(result.seconds),
        "further_people": None if further is None else {
            "people": further.people, "never_listed": further.never_listed,
            "questions": rounded(further.questions.value), "found": rounded(further.found.value),
            "interval_95": {
                "questions": rounded(further.questions.half_width),
                "found": [rounded(further.found.low), rounded(further.found.high)],
            },
        },
        "bayes_dist_m": None if best is None else rounded(best.dist_m.value),
        "bayes_acc": None if best is None else rounded(best.found.value),
    }  # fmt: skip
