"""``nearveil plan``: recommend a mechanism and its parameters for given people and a goal."""

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
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV, GeoJSON or Parquet file of true locations.")],
    *,
    attacker_error: Annotated[
        str | None,
        typer.Option(
            help="Best recall with a mean error of the best attacker of at least this.",
            metavar="LENGTH",
            rich_help_panel="Goal (give one)",
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(
            help="Largest error of the best attacker with a recall@k of at least this.",
            metavar="SHARE",
            rich_help_panel="Goal (give one)",
        ),
    ] = None,
    hide_within: Annotated[
        str | None,
        typer.Option(
            help="Best recall with the metric guarantee at this length for the people of INPUT.",
            metavar="LENGTH",
            rich_help_panel="Goal (give one)",
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Number of people in a list, 1 to 100.", metavar="K")] = 10,
    between_all_places: Annotated[
        bool,
        typer.Option("--between-all-places", help="Only mechanisms whose guarantee holds between any two locations."),
    ] = False,
    private_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Plan on made-up people from a noisy histogram of INPUT; each person is charged this epsilon once.",
            metavar="E",
        ),
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Also try this mechanism: a name, or your own as FILE.py:CLASS; may be repeated.",
            metavar="MECHANISM",
        ),
    ] = None,
    region: OwnRegionOption = None,
    latitude: LatitudeOption = None,
    longitude: LongitudeOption = None,
    clip: ClipOption = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure less: faster, with wider confidence intervals.")
    ] = False,
    cores: Annotated[int | None, typer.Option(help="Number of processes.", show_default="all cores", min=1)] = None,
    seed: SeedOption = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the measurements as a PNG.", metavar="FILE.png")] = None,
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Recommend a mechanism and its parameters for the people of INPUT and a goal.

    Planar Laplace and the sound releases of DPRS are measured on these people: the recall of the lists, and the mean
    error of the best attacker, who knows the mechanism and every address, but not who lives there. The output is
    computed from true locations and no guarantee covers it, unless --private-epsilon is given. Even then an error
    message about INPUT can name its rows.
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
    # Last, so that the plan is printed even if the picture cannot be written.
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
