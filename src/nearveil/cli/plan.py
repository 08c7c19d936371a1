"""``nearveil plan``: recommend a mechanism and its parameters for given people and a goal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from nearveil.cli._command import Length, command, option
from nearveil.cli._options import (
    FILE,
    PEOPLE_FILE,
    chosen_region,
    cores_option,
    force_option,
    json_option,
    own_region_option,
    reading_options,
    seed_option,
)
from nearveil.cli._output import note, progress_bar, say, say_json, warn
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.defences import FreeCells
from nearveil.evaluation.planning.goal import Goal
from nearveil.evaluation.planning.plan import plan as make_plan
from nearveil.evaluation.planning.plan import plan_chart
from nearveil.io.atomic import check_output, replacing
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.cells import Cells, load_cells
from nearveil.mechanisms.fit_cells import CellPlan
from nearveil.region import Region
from nearveil.report.plan import plan_text

_GOAL = "Goal (give one)"


@command()
@click.argument("source", metavar="INPUT", type=FILE, help=PEOPLE_FILE)
@option(
    "--attacker-error",
    type=Length(),
    help="Best recall with a mean error of the best attacker of at least this.",
    heading=_GOAL,
)
@option(
    "--recall",
    type=float,
    metavar="SHARE",
    help="Largest error of the best attacker with a recall@k of at least this.",
    heading=_GOAL,
)
@option(
    "--noise",
    type=Length(),
    help="Best recall with the metric guarantee at this length for the users of INPUT.",
    heading=_GOAL,
)
@option(
    "--hide-among",
    type=int,
    metavar="N",
    help="Best recall with users hidden among N on average; half of them have fewer than about N/2 others nearer.",
    heading=_GOAL,
)
@option(
    "--named",
    type=float,
    metavar="SHARE",
    help="Best recall where the best attacker's first guess of an address is right for at most this share.",
    heading=_GOAL,
)
@option(
    "--named-sparsest",
    type=float,
    metavar="SHARE",
    help="The same for the tenth of people who live where people are sparsest.",
    heading=_GOAL,
)
@option("--k", type=int, default=10, metavar="K", help="Number of people in a list, 1 to 100.")
@option(
    "--between-all-places",
    is_flag=True,
    help="Only mechanisms whose guarantee holds between any two locations.",
)
@option(
    "--private-epsilon",
    type=float,
    metavar="E",
    help="Plan on synthetic users from a noisy histogram of INPUT; each user is charged this epsilon once.",
)
@option(
    "--with",
    "extra",
    multiple=True,
    metavar="MECHANISM",
    help="Also try this mechanism: a name, or your own as FILE.py:CLASS; may be repeated.",
)
@option("--cells", type=FILE, metavar="FILE", help="Also try hide-among with the cells of this file.")
@own_region_option
@reading_options
@option(
    "--months",
    metavar="1,12,…",
    help="Measure what a service with the recommended protection gives away after these months, or 'none'.",
    show_default="1,3,6,12,24; with --quick 1,12",
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
    recall: float | None,
    noise: float | None,
    hide_among: int | None,
    named: float | None,
    named_sparsest: float | None,
    k: int,
    between_all_places: bool,
    private_epsilon: float | None,
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
    """Recommend a mechanism and its parameters for the users of INPUT and a goal.

    Planar Laplace, hiding among people and the sound releases of DPRS are measured on these people: the recall of the
    lists, the mean error of the best attacker, who knows the mechanism and every address, but not who lives there, and
    the share of people whom it names. The output is computed from true locations and no guarantee covers it, unless
    --private-epsilon is given. Even then an error message about INPUT can name its rows.
    """
    goals: dict[Callable[..., Goal], float | None] = {
        Goal.attacker_error: attacker_error,
        Goal.recall: recall,
        Goal.noise: noise,
        Goal.hide_among: hide_among,
        Goal.named: named,
        Goal.named_sparsest: named_sparsest,
    }
    chosen = [make(value, k=k) for make, value in goals.items() if value is not None]
    if len(chosen) != 1:
        raise UsageError(
            "give one goal: --attacker-error 300m, --recall 0.5, --named 0.05, --named-sparsest 0.1, --noise "
            "500m or --hide-among 100"
        )
    public_region = chosen_region(region)
    _check_picture(picture, force=force)
    made = make_plan(
        source,
        chosen[0],
        region=region or public_region,
        read=reading,
        mechanisms=extra,
        between_all_places=between_all_places,
        free_cells=[] if cells is None else [_free_cells(cells, public_region)],
        private_epsilon=private_epsilon,
        months=_months(months),
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
        note(f"Picture written to {picture}.")


def _months(text: str | None) -> list[int] | None:
    if text is None or text.strip().lower() == "none":
        return None if text is None else []
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise UsageError("--months takes whole numbers such as 1,6,12, or none") from None


def _free_cells(path: Path, region: Region) -> FreeCells:
    made = load_cells(path)
    if not made.region.same_edges(region):
        raise UsageError(f"the cells are of the region {made.region}, not of {region}; give --region theirs")
    return FreeCells("the --cells file", partial(_as_they_are, made), ("--cells", str(path)))


def _as_they_are(cells: Cells, _plan: CellPlan) -> Cells:
    return cells


def _check_picture(picture: Path | None, *, force: bool) -> None:
    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
        require_package("matplotlib", "the picture of a plan")
        check_output(picture, force=force)
