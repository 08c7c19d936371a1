"""``nearveil plan``: which mechanism, with which parameters, for these people and this goal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._options import (
    ClipOption,
    ForceOption,
    JsonOption,
    LatitudeOption,
    LongitudeOption,
    OwnRegionOption,
    SeedOption,
)
from nearveil.cli._output import progress_bar, say, say_json, warn
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.planning.goal import Goal
from nearveil.evaluation.planning.plan import plan as make_plan
from nearveil.evaluation.planning.plan import plan_chart
from nearveil.io.atomic import check_output, replacing
from nearveil.io.people import ReadOptions
from nearveil.region import DEFAULT_REGION, metres
from nearveil.report.plan import plan_text


def plan(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV, GeoJSON or Parquet file of true places.")],
    *,
    attacker_error: Annotated[
        str | None,
        typer.Option(
            help="The best attacker is wrong by at least this on average; then the most recall.",
            metavar="LENGTH",
            rich_help_panel="Goal, one of",
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(
            help="Recall@k of at least this; then the largest error of the attacker.",
            metavar="SHARE",
            rich_help_panel="Goal, one of",
        ),
    ] = None,
    hide_within: Annotated[
        str | None,
        typer.Option(
            help="The metric promise at this length for the people of the file; then the most recall.",
            metavar="LENGTH",
            rich_help_panel="Goal, one of",
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", help="People in a list, 1 to 100.", metavar="K")] = 10,
    between_all_places: Annotated[
        bool,
        typer.Option("--between-all-places", help="Only mechanisms whose guarantee holds between any two places."),
    ] = False,
    private_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Plan on made-up people from one noisy histogram, which costs everybody this once.",
            metavar="E",
        ),
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Try this one, too: a mechanism by name, or your own as FILE.py:CLASS; may be repeated.",
            metavar="MECHANISM",
        ),
    ] = None,
    region: OwnRegionOption = None,
    latitude: LatitudeOption = None,
    longitude: LongitudeOption = None,
    clip: ClipOption = False,
    quick: Annotated[bool, typer.Option("--quick", help="Measure less: faster, with wider intervals.")] = False,
    cores: Annotated[int | None, typer.Option(help="Processes to use.", show_default="all cores", min=1)] = None,
    seed: SeedOption = None,
    picture: Annotated[Path | None, typer.Option(help="Draw what was measured as PNG.", metavar="FILE.png")] = None,
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Recommend a mechanism and its parameters for the people of INPUT and one goal.

    Planar Laplace and the sound releases of DPRS are measured on these people: what users keep, and how wrong the best
    attacker is who knows the mechanism and every address, but not who lives there. What is printed is computed from
    true places and is not covered by any guarantee, unless --private-epsilon is given; a file that is refused is
    refused in words about its rows even then.
    """
    goal = _goal(attacker_error, recall, hide_within, k)
    _check_picture(picture, force=force)
    made = make_plan(
        source,
        goal,
        region=DEFAULT_REGION if region is None else region,
        read=ReadOptions(latitude=latitude, longitude=longitude, clip=clip),
        mechanisms=extra or (),
        between_all_places=between_all_places,
        private_epsilon=private_epsilon,
        quick=quick,
        cores=cores,
        seed=seed,
        progress=progress_bar,
    )
    for warning in made.people.warnings:
        warn(warning)
    if json:
        say_json(made.to_dict())
    else:
        say(plan_text(made))
    # Last, so that a picture that cannot be written does not lose the figures.
    if picture is not None:
        from nearveil.report.charts import draw_chart  # noqa: PLC0415

        with replacing(picture, force=force) as partial:
            draw_chart(plan_chart(made, made.people.description), partial)


def _goal(attacker_error: str | None, recall: float | None, hide_within: str | None, k: int) -> Goal:
    given = [value for value in (attacker_error, recall, hide_within) if value is not None]
    if len(given) != 1:
        raise UsageError("give one goal: --attacker-error 300m, --recall 0.5 or --hide-within 500m")
    if attacker_error is not None:
        return Goal.attacker_error(metres(attacker_error, "--attacker-error"), k=k)
    if recall is not None:
        return Goal.recall(recall, k=k)
    return Goal.hide_within(metres(hide_within or "", "--hide-within"), k=k)


def _check_picture(picture: Path | None, *, force: bool) -> None:
    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
        require_package("matplotlib", "the picture of a plan")
        check_output(picture, force=force)
