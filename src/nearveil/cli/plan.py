"""``nearveil plan``: which mechanism, with which parameters, for these people and this wish."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli.console import progress_bar, say, say_json, warn
from nearveil.cli.options import (
    ClipOption,
    ForceOption,
    JsonOption,
    LatitudeOption,
    LongitudeOption,
    OwnRegionOption,
    SeedOption,
    chosen_region,
    metres,
)
from nearveil.cli.plan_command import FileOptions
from nearveil.cli.plan_people import PlanningPeople, private_people, true_people
from nearveil.cli.plan_words import PlanReport
from nearveil.errors import UsageError
from nearveil.evaluation.planning.goal import PlanWish
from nearveil.evaluation.planning.plan import FULL, QUICK, Plan, families_for, make_plan, plan_chart, steps_of_plan
from nearveil.io.atomic import check_output, replacing
from nearveil.report.charts import draw_chart

_SEED = 1


def plan(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV, GeoJSON or Parquet file of true places.")],
    *,
    attacker_error: Annotated[
        str | None,
        typer.Option(
            help="The best attacker is wrong by at least this on average; then the most recall.",
            metavar="LENGTH",
            rich_help_panel="Wish, one of",
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(
            help="Recall@k of at least this; then the largest error of the attacker.",
            metavar="SHARE",
            rich_help_panel="Wish, one of",
        ),
    ] = None,
    hide_within: Annotated[
        str | None,
        typer.Option(
            help="The metric promise at this length for the people of the file; then the most recall.",
            metavar="LENGTH",
            rich_help_panel="Wish, one of",
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
    """Recommend a mechanism and its parameters for the people of INPUT and one wish.

    Planar Laplace and the sound releases of DPRS are measured on these people: what users keep, and how wrong the best
    attacker is who knows the mechanism and every address, but not who lives there. What is printed is computed from
    true places and is not covered by any guarantee, unless --private-epsilon is given; a file that is refused is
    refused in words about its rows even then.
    """
    started = time.perf_counter()
    wish = _wish(attacker_error, recall, hide_within, k)
    _check_picture(picture, force=force)
    area = chosen_region(region, None, None)
    if seed is not None and seed < 0:
        raise UsageError("--seed is a whole number, 0 or more")
    where = {"latitude": latitude, "longitude": longitude, "clip": clip}
    if private_epsilon is None:
        people = true_people(source, area, **where)  # type: ignore[arg-type]
    else:
        people = private_people(source, area, private_epsilon, seed, **where)  # type: ignore[arg-type]
        # How long the file takes to read is a fact about it, and not covered by what was spent.
        started = time.perf_counter()
    for warning in people.warnings:
        warn(warning)
    made = _plan(people, wish, between_all_places, quick=quick, cores=cores, seed=seed)
    options = FileOptions(source=source, region=region, latitude=latitude, longitude=longitude, clip=clip)
    report = PlanReport(made, people, options, seeded=private_epsilon is not None and seed is not None)
    if json:
        say_json(report.document(time.perf_counter() - started))
    else:
        say(report.text(time.perf_counter() - started))
    # Last, so that a picture that cannot be written does not lose the figures.
    if picture is not None:
        with replacing(picture, force=force) as partial:
            draw_chart(plan_chart(made, people.words), partial)


def _wish(attacker_error: str | None, recall: float | None, hide_within: str | None, k: int) -> PlanWish:
    given = [value for value in (attacker_error, recall, hide_within) if value is not None]
    if len(given) != 1:
        raise UsageError("give one wish: --attacker-error 300m, --recall 0.5 or --hide-within 500m")
    if attacker_error is not None:
        return PlanWish("attacker-error", metres(attacker_error, "--attacker-error"), k)
    if recall is not None:
        return PlanWish("recall", recall, k)
    return PlanWish("hide-within", metres(hide_within or "", "--hide-within"), k)


def _check_picture(picture: Path | None, *, force: bool) -> None:
    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
        check_output(picture, force=force)


def _plan(
    people: PlanningPeople,
    wish: PlanWish,
    between_all_places: bool,
    *,
    quick: bool,
    cores: int | None,
    seed: int | None,
) -> Plan:
    families = families_for(wish, between_all_places=between_all_places)
    effort = QUICK if quick else FULL
    with progress_bar("planning", steps_of_plan(families, effort)) as advance:
        return make_plan(
            people.dataset,
            wish,
            families=families,
            effort=effort,
            seed=_SEED if seed is None else seed,
            cores=cores or os.cpu_count() or 1,
            progress=advance,
        )
