"""``nearveil plan``: recommend a mechanism and its parameters for given people and a goal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from nearveil.cli._command import Length, command, option
from nearveil.cli._options import (
    FILE,
    PEOPLE_FILE,
    cores_option,
    force_option,
    json_option,
    numbers,
    reading_options,
    region_option,
    seed_option,
)
from nearveil.cli._output import note, progress_bar, say, say_json, warn
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.plan import Goal
from nearveil.evaluation.plan import plan as make_plan
from nearveil.io.atomic import check_output, replacing
from nearveil.io.location import ReadOptions


def _goal(name: str, kind: Any, text: str) -> Callable[[Any], Any]:
    shown = {float: "SHARE", int: "N"}.get(kind)
    return option(name, type=kind, metavar=shown, help=text, heading="Goal (at most one)")


@command()
@click.argument("source", metavar="INPUT", type=FILE, help=PEOPLE_FILE)
@_goal("--attacker-error", Length(), "The best attacker is wrong by at least this on average.")
@_goal("--named", float, "The best attacker names at most this share of users.")
@_goal("--named-sparsest", float, "It names at most this share of the tenth who live where users are sparsest.")
@_goal("--recall", float, "Lists have at least this share of the k nearest users.")
@_goal("--noise", Length(), "Noise of this length, measured.")
@_goal("--hide-among", int, "Users hidden among this many on average, measured.")
@option("--k", type=int, default=10, metavar="K", help="Number of users in a list, 1 to 100.")
@option(
    "--with",
    "extra",
    multiple=True,
    metavar="MECHANISM",
    help="Also try this mechanism: a name, or your own as FILE.py:CLASS; may be repeated.",
)
@option("--cells", type=FILE, metavar="FILE", help="Also try hide-among with the cells of this file.")
@region_option
@reading_options
@option(
    "--months",
    metavar="1,12,…",
    help="Measure what a service with the recommended setting gives away after these months, or 'none'.",
    show_default="1,3,6,12; with --quick 1,12",
)
@option("--quick", is_flag=True, help="Measure less: faster, with wider confidence intervals.")
@cores_option
@seed_option
@option("--picture", type=FILE, metavar="FILE.png", help="Draw the measurements as a PNG.")
@json_option
@force_option
def plan(
    source: Path,
    *,
    attacker_error: float | None,
    named: float | None,
    named_sparsest: float | None,
    recall: float | None,
    noise: float | None,
    hide_among: int | None,
    k: int,
    extra: tuple[str, ...],
    cells: Path | None,
    region: str | None,
    reading: ReadOptions,
    months: str | None,
    quick: bool,
    cores: int | None,
    seed: int | None,
    picture: Path | None,
    json: bool,
    force: bool,
) -> None:
    """Recommend a mechanism and its setting for the users of INPUT.

    Noise, hiding among users and the sound releases of DPRS are measured on these users: how many the best attacker
    still finds within 100 m and names, and how far away the users listed are. Without a goal, a few settings are
    compared, and the cheapest is recommended that names at most a tenth of the sparsest tenth; with one, the cheapest
    that meets it. Without --region, only noise is tried. The output is computed from true locations, and no guarantee
    covers it.
    """
    goals = {
        "attacker-error": attacker_error, "named": named, "named-sparsest": named_sparsest, "recall": recall,
        "noise": noise, "hide-among": hide_among,
    }  # fmt: skip
    chosen = [Goal(kind, value, k) for kind, value in goals.items() if value is not None]
    if len(chosen) > 1:
        raise UsageError("give one goal, such as --attacker-error 300m or --named-sparsest 0.1")
    require_package("pandas", "a plan")
    _check_picture(picture, force=force)
    made = make_plan(
        source,
        chosen[0] if chosen else None,
        region=region,
        read=reading,
        k=k,
        mechanisms=extra,
        cells=cells,
        months=None if months is None else [] if months == "none" else numbers(months, "--months"),
        quick=quick,
        cores=cores,
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


def _check_picture(picture: Path | None, *, force: bool) -> None:
    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
        require_package("matplotlib", "the picture of a plan")
        check_output(picture, force=force)
