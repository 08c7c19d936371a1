"""``nearveil attack --campaign``: map a whole crowd without an account of one's own, then find further people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nearveil.attacks.policies import AnswerPolicy
from nearveil.cli._mechanism import MechanismChoice
from nearveil.cli._output import progress_bar, say, say_json, warn
from nearveil.cli.populations import Population
from nearveil.evaluation.best_attacker import BestAttacker
from nearveil.evaluation.campaign import (
    CampaignOutcome,
    attack_campaign,
    campaign_cells,
    campaign_document,
    campaign_notes,
)
from nearveil.io.atomic import replacing
from nearveil.report.tables import best_attacker_text
from nearveil.report.text_table import text_table


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
