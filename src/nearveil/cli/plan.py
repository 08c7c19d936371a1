"""``nearveil plan``: recommend a mechanism and its parameters for given users and a goal."""

from __future__ import annotations

from pathlib import Path

import click

from nearveil.cli._command import command, option
from nearveil.cli._options import (
    FILE,
    PEOPLE_FILE,
    force_option,
    json_option,
    reading_options,
    region_option,
    seed_option,
)
from nearveil.cli._output import note, progress_bar, say, say_json, warn
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.plan import plan as make_plan
from nearveil.io.atomic import check_output, replacing
from nearveil.io.location import ReadOptions


@command()
@click.argument("source", metavar="INPUT", type=FILE, help=PEOPLE_FILE)
@option("--found", type=float, metavar="SHARE", help="Goal: the best attacker finds at most this share within 100 m.")
@option(
    "--named-sparsest",
    type=float,
    metavar="SHARE",
    help="Goal: it names at most this share of the tenth who live where users are sparsest.",
    show_default="0.1, if there is no other goal",
)
@option("--users-in-total", type=int, metavar="N", help="INPUT is a sample of so many users: measure for all of them.")
@option("--k", type=int, default=10, metavar="K", help="Number of users in a list, 1 to 100.")
@option(
    "--with",
    "extra",
    multiple=True,
    metavar="MECHANISM",
    help="Also try this mechanism: a name, or your own as FILE.py:CLASS; may be repeated.",
)
@region_option
@reading_options
@seed_option
@option("--picture", type=FILE, metavar="FILE.png", help="Draw the measurements as a PNG.")
@json_option
@force_option
def plan(
    source: Path,
    *,
    found: float | None,
    named_sparsest: float | None,
    users_in_total: int | None,
    k: int,
    extra: tuple[str, ...],
    region: str | None,
    reading: ReadOptions,
    seed: int | None,
    picture: Path | None,
    json: bool,
    force: bool,
) -> None:
    """Recommend a mechanism and its setting for the users of INPUT.

    Noise, hiding among users and the sound releases of DPRS are measured on these users: how many the best attacker
    still finds within 100 m and names, and how far away the users listed are. The cheapest setting that meets the goals
    is recommended; without a goal, of a few settings. Without --region, only noise is tried. The output is computed
    from true locations, and no guarantee covers it.
    """
    require_package("pandas", "a plan")
    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
        require_package("matplotlib", "the picture of a plan")
        check_output(picture, force=force)
    made = make_plan(
        source,
        found=found,
        named_sparsest=named_sparsest,
        users_in_total=users_in_total,
        region=region,
        read=reading,
        k=k,
        mechanisms=extra,
        seed=seed,
        progress=progress_bar,
    )
    for warning in made.warnings:
        warn(warning)
    # Heavy, and only needed once everything is measured.
    from nearveil.report.plan import draw_plan, plan_text  # noqa: PLC0415

    if json:
        say_json(made.to_dict())
    else:
        say(plan_text(made))
    # Last, so that the plan is printed even if the picture cannot be written.
    if picture is not None:
        with replacing(picture, force=force, private=True) as partial:
            draw_plan(made, partial)
        note(f"Picture written to {picture}.")
