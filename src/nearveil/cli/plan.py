"""``nearveil plan``: recommend a mechanism and its parameters for given people and a goal."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._old_options import (
    PEOPLE_FILE,
    ForceOption,
    JsonOption,
    OwnRegionOption,
    SeedOption,
    takes_reading,
)
from nearveil.cli._output import note, progress_bar, say, say_json, warn
from nearveil.cli._protection import published_places, refuse_input_as_public
from nearveil.errors import UsageError, require_package
from nearveil.evaluation.defences import FreeCells
from nearveil.evaluation.planning.goal import Goal
from nearveil.evaluation.planning.plan import plan as make_plan
from nearveil.evaluation.planning.plan import plan_chart
from nearveil.io.atomic import check_output, replacing
from nearveil.io.density import read_density
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.cells import Cells, load_cells
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_density, cells_from_published
from nearveil.region import DEFAULT_REGION, Region, as_region, metres
from nearveil.report.plan import plan_text


@takes_reading
def plan(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help=PEOPLE_FILE)],
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
    noise: Annotated[
        str | None,
        typer.Option(
            help="Best recall with the metric guarantee at this length for the people of INPUT.",
            metavar="LENGTH",
            rich_help_panel="Goal (give one)",
        ),
    ] = None,
    hide_among: Annotated[
        int | None,
        typer.Option(
            help="Best recall with everybody hidden among this many people.",
            metavar="N",
            rich_help_panel="Goal (give one)",
        ),
    ] = None,
    named: Annotated[
        float | None,
        typer.Option(
            help="Best recall where the best attacker's first guess of an address is right for at most this share.",
            metavar="SHARE",
            rich_help_panel="Goal (give one)",
        ),
    ] = None,
    named_sparsest: Annotated[
        float | None,
        typer.Option(
            help="The same for the tenth of people who live where people are sparsest.",
            metavar="SHARE",
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
    cells: Annotated[
        Path | None,
        typer.Option(
            help="Also try hide-among with the cells of this file.", metavar="FILE", rich_help_panel="Cells made before"
        ),
    ] = None,
    density: Annotated[
        Path | None,
        typer.Option(
            help="Also try hide-among with cells from public data.", metavar="FILE", rich_help_panel="Cells made before"
        ),
    ] = None,
    published: Annotated[
        Path | None,
        typer.Option(
            help="Also try hide-among with cells from locations published before with planar Laplace noise. Needs "
            "--published-within.",
            metavar="FILE",
            rich_help_panel="Cells made before",
        ),
    ] = None,
    published_within: Annotated[
        str | None,
        typer.Option(
            help="Mean distance that the noise of the --published file added, such as 500m.",
            metavar="LENGTH",
            rich_help_panel="Cells made before",
        ),
    ] = None,
    region: OwnRegionOption = None,
    reading: ReadOptions,
    months: Annotated[
        str | None,
        typer.Option(
            help="Measure what a service with the recommended protection gives away after these months, or 'none'.",
            metavar="1,12,…",
            show_default="1,3,6,12,24; with --quick 1,12",
        ),
    ] = None,
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

    Planar Laplace, hiding among people and the sound releases of DPRS are measured on these people: the recall of the
    lists, the mean error of the best attacker, who knows the mechanism and every address, but not who lives there, and
    the share of people whom it names. The output is computed from true locations and no guarantee covers it, unless
    --private-epsilon is given. Even then an error message about INPUT can name its rows.
    """
    refuse_input_as_public(source, density=density, published=published)
    goal = _goal(attacker_error, recall, noise, hide_among, named, named_sparsest, k)
    public_region = as_region(DEFAULT_REGION if region is None else region)
    _check_picture(picture, force=force)
    made = make_plan(
        source,
        goal,
        region=DEFAULT_REGION if region is None else region,
        read=reading,
        mechanisms=extra or (),
        between_all_places=between_all_places,
        free_cells=_free_cells(public_region, cells, density, published, published_within),
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


def _goal(
    attacker_error: str | None,
    recall: float | None,
    noise: str | None,
    hide_among: int | None,
    named: float | None,
    named_sparsest: float | None,
    k: int,
) -> Goal:
    goals: list[Goal] = []
    if attacker_error is not None:
        goals.append(Goal.attacker_error(metres(attacker_error, "--attacker-error"), k=k))
    if recall is not None:
        goals.append(Goal.recall(recall, k=k))
    if noise is not None:
        goals.append(Goal.noise(metres(noise, "--noise"), k=k))
    if hide_among is not None:
        goals.append(Goal.hide_among(hide_among, k=k))
    if named is not None:
        goals.append(Goal.named(named, k=k))
    if named_sparsest is not None:
        goals.append(Goal.named_sparsest(named_sparsest, k=k))
    if len(goals) != 1:
        raise UsageError(
            "give one goal: --attacker-error 300m, --recall 0.5, --named 0.05, --named-sparsest 0.1, --noise "
            "500m or --hide-among 100"
        )
    return goals[0]


def _months(text: str | None) -> list[int] | None:
    if text is None or text.strip().lower() == "none":
        return None if text is None else []
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise UsageError("--months takes whole numbers such as 1,6,12, or none") from None


def _free_cells(
    region: Region, cells: Path | None, density: Path | None, published: Path | None, published_within: str | None
) -> list[FreeCells]:
    """Return the sources of cells that were given; each is read once."""
    if (published is None) != (published_within is None):
        raise UsageError("--published and --published-within go together: the places, and the noise that they had")
    found = []
    if cells is not None:
        made = load_cells(cells)
        if not made.region.same_edges(region):
            raise UsageError(f"the cells are of the region {made.region}, not of {region}; give --region theirs")
        found.append(FreeCells("the --cells file", partial(_as_they_are, made), ("--cells", str(cells))))
    if density is not None:
        make = partial(cells_from_density, read_density(density, region=region), region)
        found.append(FreeCells("public data", make, ("--density", str(density))))
    if published is not None and published_within is not None:
        places = published_places(published, region)
        make = partial(cells_from_published, places, region, metres(published_within, "--published-within"))
        arguments = ("--published", str(published), "--published-within", published_within)
        found.append(FreeCells("published places", make, arguments))
    return found


def _as_they_are(cells: Cells, _plan: CellPlan) -> Cells:
    return cells


def _check_picture(picture: Path | None, *, force: bool) -> None:
    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
        require_package("matplotlib", "the picture of a plan")
        check_output(picture, force=force)
