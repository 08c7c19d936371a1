"""``nearveil fit``: find the intervals of dprs or the cells of hide-among, and write them to a file."""

from __future__ import annotations

from pathlib import Path

import click

from nearveil.cli._command import Length, command, option, under
from nearveil.cli._mechanism import HEADING, MechanismChoice, flag_of, hide_among_option, read_settings, set_option
from nearveil.cli._options import (
    FILE,
    PEOPLE_FILE,
    budget_option,
    check_output_is_none_of,
    chosen_region,
    force_option,
    json_option,
    ledger_option,
    open_ledger,
    reading_options,
    region_option,
    seed_option,
    skip_bad_option,
    user_option,
)
from nearveil.cli._output import COUNTS_ROWS, FULL_CARD, note_skipped, progress_bar, say, say_json
from nearveil.errors import UsageError
from nearveil.io.atomic import check_output
from nearveil.io.density import read_density
from nearveil.io.location import ReadOptions
from nearveil.io.readers import read_points
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.cells import check_cells_file
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_density, cells_from_published
from nearveil.mechanisms.step_channel import calibrated
from nearveil.release.fit import Fitted
from nearveil.release.fit import fit as fit_users


@command()
@click.argument("source", metavar="INPUT", type=FILE, help=PEOPLE_FILE)
@click.argument(
    "output", metavar="OUTPUT", type=FILE, help="File to write: intervals (.json), or cells (.geojson or .json)."
)
@option(
    "--mechanism",
    "name",
    type=click.Choice(["dprs", "hide-among"]),
    help="What the file is for: intervals of dprs, or cells of hide-among.",
    heading=HEADING,
)
@option(
    "--epsilon",
    "fit_epsilon",
    type=float,
    metavar="E",
    help="Epsilon of the fit, charged to each user.",
    show_default="1",
    heading=HEADING,
)
@hide_among_option
@set_option
@under(
    "Cells from data that is public already, at no cost",
    option("--public", is_flag=True, help="INPUT is public: points, or a grid with counts."),
    option("--counts", metavar="COLUMN", help="Column of the counts.", show_default="count, people or population"),
    option("--population", type=int, metavar="N", help="Scale the counts to this number of users."),
    option("--published", type=Length(), help="INPUT was published with planar Laplace noise of this length."),
)
@user_option
@ledger_option
@budget_option
@reading_options
@region_option
@skip_bad_option
@seed_option
@json_option
@force_option
def fit(
    source: Path,
    output: Path,
    *,
    name: str | None,
    fit_epsilon: float | None,
    hide_among: int | None,
    settings: tuple[str, ...],
    public: bool,
    counts: str | None,
    population: int | None,
    published: float | None,
    user: str | None,
    ledger: Path | None,
    budget: tuple[str, ...],
    reading: ReadOptions,
    region: str | None,
    skip_bad: bool,
    seed: int | None,
    json: bool,
    force: bool,
) -> None:
    """Find the intervals of dprs or the cells of hide-among, and write them to a file for other commands.

    Both are found with differential privacy, at the cost of --epsilon, as in nearveil fit users.csv cells.geojson
    --hide-among 100 --region berlin
    """
    is_free = public or published is not None
    if name is None and hide_among is None:
        raise UsageError("say what to fit: --mechanism dprs for intervals, or --hide-among 100 for cells")
    if (public and published) or (not public and (counts or population)):
        raise UsageError("--counts and --population are for --public, which cannot be used with --published")
    given = {"fit_epsilon": fit_epsilon, "hide_among": hide_among, **read_settings(settings)}
    parameters = {each: value for each, value in given.items() if value is not None}
    check_output_is_none_of(output, {"INPUT": source, "the --ledger": ledger, "the --region file": region})
    built = MechanismChoice(name=name, parameters=parameters).build(chosen_region(region), seed)
    if built.learns == "cells":
        check_cells_file(output)
    elif output.suffix != ".json":
        raise UsageError("a file of intervals is JSON; give OUTPUT the extension .json")
    check_output(output, force=force)
    if is_free:
        charges = {"fit_epsilon": fit_epsilon, "user": user, "ledger": ledger, "seed": seed}
        if useless := next((flag_of(each) for each, value in charges.items() if value is not None), None):
            raise UsageError(f"{useless} is not for public data, which costs nobody anything; leave it out")
        fitted = _of_public_data(source, built, reading, counts, population, published)
    else:
        charged = open_ledger(ledger, budget, user)
        fitted = fit_users(
            source, built, user=user, read=reading, ledger=charged, skip_bad=skip_bad, progress=progress_bar
        )
    note_skipped(fitted.skipped)
    fitted.save(output, force=force)
    cost = fitted.guarantee
    if json:
        facts = {"epsilon": cost.epsilon, "delta": cost.delta, "guarantee": cost.to_dict()}
        say_json({"summary": fitted.summary, **facts})
        return
    say(f"{fitted.summary.removesuffix('.')}, written to {output}.")
    if user is None and not is_free:
        say(COUNTS_ROWS)
    say(cost.card(full_is_at=FULL_CARD))


_OF_CELLS = ("hide_among", "least_cell_m", "largest_cell_m")


def _of_public_data(
    source: Path,
    built: Mechanism,
    reading: ReadOptions,
    counts: str | None,
    population: int | None,
    published_m: float | None,
) -> Fitted:
    """Make cells from public counts, or from published locations."""
    if built.learns != "cells":
        raise UsageError("--public and --published are for the cells of hide-among; add --hide-among 100")
    region, plan = built.resolved_region, CellPlan(**{name: getattr(built, name) for name in _OF_CELLS})
    if published_m is None:
        density = read_density(source, column=counts, region=region, read=reading)
        cells = cells_from_density(density, region, plan, population=population)
    else:
        cells = cells_from_published(read_points(source, reading), region, published_m, plan)
    cells.check_holds(plan.hide_among)
    made = calibrated(cells)
    return Fitted(mechanism=built.with_params(cells=made), learned=made, guarantee=cells.guarantee(), skipped={})
