"""``nearveil attack --campaign``: map a whole crowd without an account of one's own, then find further people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from nearveil.attacks.policies import AnswerPolicy
from nearveil.cli._output import progress_bar, say, say_json, warn
from nearveil.cli._protection import ProtectionOptions, build_mechanism
from nearveil.cli.populations import Population
from nearveil.errors import UsageError
from nearveil.evaluation.campaign import (
    CampaignOutcome,
    attack_campaign,
    campaign_cells,
    campaign_document,
    campaign_notes,
)
from nearveil.io.atomic import replacing
from nearveil.report.tables import best_attacker_text, text_table

_PANEL = "A whole crowd"

CampaignOption = Annotated[
    bool,
    typer.Option(
        "--campaign",
        help="Map everybody, without an account, by asking from many places; then find further people.",
        rich_help_panel=_PANEL,
    ),
]
MostQuestionsOption = Annotated[
    int | None,
    typer.Option(
        help="Number of questions of a campaign at most.",
        show_default="two for each person",
        metavar="N",
        rich_help_panel=_PANEL,
    ),
]

_ALLOWED = {
    "campaign", "most_questions", "dataset", "source", "region", "data_dir", "k", "tau", "latitude", "longitude",
    "location", "columns", "crs", "delimiter", "encoding", "skip_bad", "clip", "scaling",
    "seed", "cores", "trace", "json", "force", "policy",
    *(field.name for field in fields(ProtectionOptions)),
}  # fmt: skip


def refuse_without_effect(context: typer.Context, *, campaign: bool) -> None:
    """Refuse options that a campaign has no use for, and those of a campaign without one."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and campaign and name not in _ALLOWED:
            raise UsageError(f"{parameter.opts[0]} has no effect on --campaign, which maps everybody; leave it out")
        if given and not campaign and name == "most_questions":
            raise UsageError("--most-questions needs --campaign")


def run_campaigns(
    populations: Sequence[Population],
    *,
    protection: ProtectionOptions,
    ks: Sequence[int],
    tau_m: float,
    policy: AnswerPolicy,
    most_questions: int | None,
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
        mechanism = build_mechanism(protection, data.region) if protection.is_given else None
        found += [
            attack_campaign(
                data.places,
                region=data.region,
                name=data.name,
                k=k,
                mechanism=mechanism,
                tau_m=tau_m,
                policy=policy,
                most_questions=most_questions,
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

    with replacing(path, force=force) as partial:
        draw_campaign(outcome, partial)


def _say_table(found: Sequence[CampaignOutcome]) -> None:
    rows = [campaign_cells(one) for one in found]
    say(text_table(list(rows[0]), [list(row.values()) for row in rows]))
    say("\n" + campaign_notes(found[0]))
    for one in found:
        if one.best is not None:
            say(
                f"\nBayes attacker on {one.name}: best guess from one published location (knows the mechanism and all "
                f"addresses; {one.best.targets:,} targets):\n{best_attacker_text(one.best, one.tau_m)}"
            )
