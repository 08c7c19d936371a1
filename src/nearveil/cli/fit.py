"""``nearveil fit``: find private intervals, or make cells, and write them to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nearveil.cli._command import Length, command, option
from nearveil.cli._mechanism import hide_among_option, nearest, read_settings, set_option, setting_value
from nearveil.cli._options import (
    FILE,
    budget_option,
    chosen_region,
    force_option,
    is_same_file,
    json_option,
    ledger_option,
    locations_in_region,
    open_ledger,
    own_region_option,
    per_row_option,
    person_option,
    release_reading_options,
    seed_option,
)
from nearveil.cli._output import FULL_CARD, note, progress_bar, say, say_json, waiting, warn
from nearveil.errors import UsageError, require_package
from nearveil.io.atomic import check_output, replacing
from nearveil.io.density import read_density
from nearveil.io.files import read_people
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.cells import SOURCE_NAMES, Cells, check_cells_file
from nearveil.mechanisms.fit_cells import (
    LARGEST_CELL_M,
    LEAST_CELL_M,
    CellPlan,
    cells_from_density,
    cells_from_published,
)
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import METHOD_NAMES, Intervals
from nearveil.mechanisms.step_channel import calibrated
from nearveil.privacy.guarantee import Guarantee
from nearveil.region import Region
from nearveil.release.card import AS_STATED
from nearveil.release.fitting import FittedCells, fit_cells, fit_intervals

_CELLS = "Cells of hide-among"
_OF_INTERVALS = {"centres", "gamma", "fit_method", "rounds", "delta", "population"}
_OF_PIC = ("rounds", "delta")


@command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=FILE,
    metavar="[INPUT] OUTPUT",
    help="CSV, TSV, GeoJSON or Parquet file of true locations, or - (left out with --density or --published), and the "
    "file to write: intervals (.json), or cells (.geojson or .json).",
)
@own_region_option
@option(
    "--epsilon",
    type=float,
    metavar="E",
    help="Epsilon of the fit, charged to each person in the file.",
    show_default="1",
)
@set_option
@hide_among_option
@option(
    "--density",
    type=FILE,
    metavar="FILE",
    help="Make the cells from public data at no cost: points, or a grid with counts.",
    heading=_CELLS,
)
@option(
    "--density-column",
    metavar="COLUMN",
    help="Column of the counts in the --density file.",
    show_default="count, people or population",
    heading=_CELLS,
)
@option(
    "--published",
    type=FILE,
    metavar="FILE",
    help="Make the cells from locations published before with planar Laplace noise, at no further cost.",
    heading=_CELLS,
)
@option(
    "--published-within",
    type=Length(),
    help="Mean distance that the noise of the --published file added, such as 500m.",
    heading=_CELLS,
)
@option(
    "--least-cell",
    type=Length(),
    help="Side of the smallest cells.",
    show_default=f"{LEAST_CELL_M:g}m",
    heading=_CELLS,
)
@option(
    "--largest-cell",
    type=Length(),
    help="Side of the largest cells.",
    show_default=f"{LARGEST_CELL_M / 1000:g}km",
    heading=_CELLS,
)
@option(
    "--picture",
    type=FILE,
    metavar="FILE",
    help="PNG picture of the cells, and of where two people may be published.",
    heading=_CELLS,
)
@release_reading_options
@person_option
@per_row_option
@ledger_option
@budget_option
@seed_option
@json_option
@force_option
def fit(
    files: tuple[Path, ...],
    *,
    region: str | None,
    epsilon: float | None,
    settings: tuple[str, ...],
    hide_among: int | None,
    density: Path | None,
    density_column: str | None,
    published: Path | None,
    published_within: float | None,
    least_cell: float | None,
    largest_cell: float | None,
    picture: Path | None,
    reading: ReadOptions,
    person: str | None,
    per_row: bool,
    ledger: Path | None,
    budget: tuple[str, ...],
    seed: int | None,
    json: bool,
    force: bool,
) -> None:
    """Find the intervals of dprs or the cells of hide-among, and write them to a file.

    Both are found with differential privacy, at the cost of --epsilon. --set takes centres, gamma, fit_method
    (private-grid or pic), rounds and delta (of pic), and population, a public number of people. Any option of
    hide-among makes cells. --density or --published names public data to make them from, at no cost and in place of
    INPUT, as in nearveil fit --hide-among 100 --density census.csv cells.geojson
    """
    of_cells = (hide_among, density, density_column, published, published_within, least_cell, largest_cell)
    makes_cells = any(each is not None for each in of_cells)
    free = next((name for name, file in (("--density", density), ("--published", published)) if file), None)
    source, output = _input_and_output(files, free, density or published)
    params = _read_parameters(settings, {"population"} if makes_cells else _OF_INTERVALS)
    if picture is not None:
        _check_picture(picture, of_cells=makes_cells, force=force)
    if free is not None:
        _refuse_given(
            free, "such cells cost nobody anything, and nothing is drawn; leave it out",
            epsilon=epsilon, ledger=ledger, budget=budget, person=person, per_row=per_row, seed=seed,
        )  # fmt: skip
    read, box = replace(reading, person=person, per_row=per_row), chosen_region(region)
    charged = open_ledger(ledger, budget, read, seed)
    epsilon = 1.0 if epsilon is None else epsilon
    if not makes_cells:
        if output.suffix != ".json":
            raise UsageError("an intervals file is JSON; give OUTPUT the extension .json")
        useless = [name for name in _OF_PIC if name in params and params.get("fit_method") != "pic"]
        if useless:
            raise UsageError(f"--set {useless[0]} is of private k-means; leave it out, or add --set fit_method=pic")
        check_output(output, force=force)
        found = fit_intervals(
            source,
            region=box,
            epsilon=epsilon,
            method=params.pop("fit_method", "private-grid"),
            read=read,
            ledger=charged,
            seed=seed,
            progress=progress_bar,
            **params,
        )
        for warning in found.warnings:
            warn(warning)
        with replacing(output, force=force) as partial:
            partial.write_text(found.intervals.to_json(), encoding="utf-8")
        _report(found.intervals, found.guarantee, output, as_json=json)
        return
    check_cells_file(output)
    check_output(output, force=force)
    plan = CellPlan(
        hide_among=CellPlan().hide_among if hide_among is None else hide_among,
        least_cell_m=LEAST_CELL_M if least_cell is None else least_cell,
        largest_cell_m=LARGEST_CELL_M if largest_cell is None else largest_cell,
    )
    cells = _free_cells(density, density_column, published, published_within, plan, box, read, params)
    if cells is not None:
        cells.check_holds(plan.hide_among)
        fitted = FittedCells(calibrated(cells), cells.guarantee().with_note(AS_STATED.format("cells")), ())
    else:
        fitted = fit_cells(
            source,
            region=box,
            hide_among=plan.hide_among,
            epsilon=epsilon,
            least_cell_m=plan.least_cell_m,
            largest_cell_m=plan.largest_cell_m,
            read=read,
            ledger=charged,
            seed=seed,
            progress=progress_bar,
        )
    for warning in fitted.warnings:
        warn(warning)
    fitted.cells.save(output, force=force)
    if picture is not None:
        with waiting("drawing the cells"):
            _draw(fitted.cells, plan.hide_among, picture, force=force)
        note(f"Picture written to {picture}.")
    _report_cells(fitted.cells, fitted.guarantee, output, as_json=json)


def _input_and_output(files: tuple[Path, ...], free: str | None, data: Path | None) -> tuple[Path, Path]:
    if len(files) != (2 if free is None else 1):
        if free is not None:
            raise UsageError(f"{free} takes the place of INPUT; name OUTPUT alone")
        raise UsageError("name INPUT, the file of true locations, and OUTPUT, the file to write")
    if is_same_file(files[-1], data):
        raise UsageError(f"OUTPUT is the same file as {free}; name another file")
    return files[0], files[-1]


def _read_parameters(texts: tuple[str, ...], known: set[str]) -> dict[str, Any]:
    settings = read_settings(texts)
    for name in settings:
        if name not in known:
            takes = ", ".join(sorted(known))
            raise UsageError(
                f"fit has no parameter {name} for these options{nearest(name, known)}; --set takes {takes}"
            )
    return {name: setting_value(name, text) for name, text in settings.items()}


def _free_cells(
    density: Path | None,
    column: str | None,
    published: Path | None,
    within_m: float | None,
    plan: CellPlan,
    region: Region,
    read: ReadOptions,
    params: dict[str, Any],
) -> Cells | None:
    """Make cells from public or published data; None where they are to be fitted."""
    if density is not None and published is not None:
        raise UsageError("--density and --published both say where the cells are from; give one of them")
    if density is None and (column is not None or params):
        raise UsageError(f"{'--set population' if params else '--density-column'} is for --density; add this")
    if (published is None) != (within_m is None):
        raise UsageError(
            "--published and --published-within go together: the locations, and the mean distance that their noise "
            "added, such as 500m"
        )
    if density is not None:
        return cells_from_density(
            read_density(density, column=column, region=region, read=read), region, plan, **params
        )
    if published is not None and within_m is not None:
        people = read_people(published, read, carry=False, region=region)
        return cells_from_published(locations_in_region(people, region, clip=read.clip), region, within_m, plan)
    return None


def _check_picture(path: Path, *, of_cells: bool, force: bool) -> None:
    if not of_cells:
        raise UsageError("--picture draws cells; leave it out, or make cells with --hide-among")
    if path.suffix.lower() != ".png":
        raise UsageError("--picture draws a PNG picture; name a file that ends in .png")
    require_package("matplotlib", "the picture of cells")
    check_output(path, force=force)


def _draw(cells: Cells, hide_among: int, path: Path, *, force: bool) -> None:
    from nearveil.report.maps import draw_cells  # noqa: PLC0415 - an extra, and slow to load

    with replacing(path, force=force) as partial:
        draw_cells(HideAmong(hide_among, cells=cells), partial)


def _refuse_given(what: str, hint: str, **options: object) -> None:
    for name, value in options.items():
        if value not in (None, (), False):
            raise UsageError(f"--{name.replace('_', '-')} cannot be used with {what}: {hint}")


def _report_cells(cells: Cells, guarantee: Guarantee, output: Path, *, as_json: bool) -> None:
    sides_m = sorted(cells.sides_m.tolist())
    if as_json:
        say_json(
            {
                "cells": len(cells),
                "source": cells.source,
                "hide_among": cells.hide_among,
                "people": float(f"{cells.people.sum():.6g}"),
                "epsilon": guarantee.epsilon,
                "delta": guarantee.delta,
                "seeded": cells.seeded,
                "side_m": {"least": sides_m[0], "p50": sides_m[len(sides_m) // 2], "most": sides_m[-1]},
                "guarantee": guarantee.to_dict(),
            }
        )
        return
    say(
        f"{len(cells):,} cells to hide among {cells.hide_among:,} people, from {SOURCE_NAMES[cells.source]}, written "
        f"to {output}; {sides_m[0]:,.0f} m to {sides_m[-1]:,.0f} m wide."
    )
    say(guarantee.card(full_is_at=FULL_CARD))


def _report(intervals: Intervals, guarantee: Guarantee, output: Path, *, as_json: bool) -> None:
    radii_m = sorted(intervals.radii_m.tolist())
    if as_json:
        say_json(
            {
                "intervals": len(intervals),
                "method": intervals.method,
                "epsilon": guarantee.epsilon,
                "delta": guarantee.delta,
                "seeded": intervals.seeded,
                "radius_m": {"least": radii_m[0], "p50": radii_m[len(radii_m) // 2], "most": radii_m[-1]},
                "guarantee": guarantee.to_dict(),
            }
        )
        return
    say(
        f"{len(intervals):,} intervals, found by {METHOD_NAMES[intervals.method]}, written to {output}; "
        f"radii from {radii_m[0]:,.0f} m to {radii_m[-1]:,.0f} m."
    )
    say(guarantee.card(full_is_at=FULL_CARD))
