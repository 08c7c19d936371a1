"""``nearveil fit``: find private intervals, or make cells, and write them to a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._old_options import (
    BudgetOption,
    CardName,
    CardOption,
    CentresOption,
    DeltaOption,
    FitMethodName,
    FitMethodOption,
    ForceOption,
    GammaOption,
    JsonOption,
    LedgerOption,
    OwnRegionOption,
    PerRowOption,
    PersonOption,
    PopulationOption,
    RoundsOption,
    ScalingOption,
    SeedOption,
    chosen_region,
    open_ledger,
    takes_reading,
)
from nearveil.cli._output import note, progress_bar, say, say_json, waiting, warn
from nearveil.cli._protection import (
    DensityColumnOption,
    DensityOption,
    HideAmongOption,
    LargestCellOption,
    LeastCellOption,
    ProtectionOptions,
    PublishedOption,
    PublishedStoreOption,
    PublishedWithinOption,
    given_cells,
)
from nearveil.errors import UsageError, require_package
from nearveil.io.atomic import check_output, replacing
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.cells import SOURCE_NAMES, Cells, check_cells_file
from nearveil.mechanisms.fitting import FitMethod
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.mechanisms.intervals import METHOD_NAMES, Intervals
from nearveil.mechanisms.step_channel import calibrated
from nearveil.privacy.guarantee import Guarantee
from nearveil.release.card import GIVEN_CELLS
from nearveil.release.fitting import FittedCells, fit_cells, fit_intervals


@takes_reading
def fit(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[INPUT] OUTPUT",
            help="CSV, TSV, GeoJSON or Parquet file of true locations, or - (left out with --density, --published or "
            "--published-store), and the file to write: intervals (.json), or cells (.geojson, .json or .parquet).",
        ),
    ],
    *,
    region: OwnRegionOption = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of the fit, charged to each person in the file.", show_default="1")
    ] = None,
    delta: DeltaOption = None,
    fit_method: FitMethodOption = None,
    centres: CentresOption = None,
    rounds: RoundsOption = None,
    gamma: GammaOption = None,
    population: PopulationOption = None,
    hide_among: HideAmongOption = None,
    density: DensityOption = None,
    density_column: DensityColumnOption = None,
    published: PublishedOption = None,
    published_within: PublishedWithinOption = None,
    published_store: PublishedStoreOption = None,
    least_cell: LeastCellOption = None,
    largest_cell: LargestCellOption = None,
    person: PersonOption = None,
    per_row: PerRowOption = False,
    ledger: LedgerOption = None,
    budget: BudgetOption = None,
    reading: ReadOptions,
    scaling: ScalingOption = None,
    seed: SeedOption = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Cells: PNG picture of them, and of where two people may be published.", metavar="FILE"),
    ] = None,
    card: CardOption = CardName.SHORT,
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Find the intervals of dprs or the cells of hide-among, and write them to a file.

    Both are found with differential privacy, at the cost of --epsilon. Any option of hide-among makes cells. --density,
    --published or --published-store names public data to make them from, at no cost and in place of INPUT, as in
    nearveil fit --hide-among 100 --density census.csv cells.geojson
    """
    protection = ProtectionOptions(
        hide_among=hide_among,
        density=density,
        density_column=density_column,
        published=published,
        published_within=published_within,
        published_store=published_store,
        least_cell=least_cell,
        largest_cell=largest_cell,
        population=population,
    )
    sources = {"--density": density, "--published": published, "--published-store": published_store}
    from_data = next((option for option, value in sources.items() if value is not None), None)
    source, output = _input_and_output(files, sources, from_data)
    if protection.makes_cells:
        check_cells_file(output)
        _refuse_given(
            "cells", "it is for intervals; leave it out",
            delta=delta, fit_method=fit_method, centres=centres, rounds=rounds, gamma=gamma,
        )  # fmt: skip
    elif output.suffix != ".json":
        raise UsageError("an intervals file is JSON; give OUTPUT the extension .json")
    if picture is not None:
        _check_picture(picture, of_cells=protection.makes_cells, force=force)
    if from_data is not None:
        _refuse_given(
            from_data, "such cells cost nobody anything, and nothing is drawn; leave it out",
            epsilon=epsilon, ledger=ledger, budget=budget, person=person, per_row=per_row or None, seed=seed,
        )  # fmt: skip
    if published_store is not None:
        _refuse_given(
            "--published-store", "a store has no columns, and its places are in its region; leave it out",
            **{name.removeprefix("--"): True for name in reading.arguments()[:1]},
        )  # fmt: skip
    read = replace(reading, person=person, per_row=per_row)
    box, epsilon = chosen_region(region, scaling, None), 1.0 if epsilon is None else epsilon
    if protection.makes_cells:
        check_output(output, force=force)
        # Of cells that are to be fitted, this refuses options that do not go together.
        chosen, plan = region is not None or scaling is not None, protection.cell_plan
        cells = given_cells(protection, box, read, region_is_chosen=chosen)
        fitted = (
            FittedCells(calibrated(cells), cells.guarantee().with_note(GIVEN_CELLS), ())
            if cells is not None
            else fit_cells(
                source,
                region=box,
                hide_among=plan.hide_among,
                epsilon=epsilon,
                least_cell_m=plan.least_cell_m,
                largest_cell_m=plan.largest_cell_m,
                read=read,
                ledger=open_ledger(ledger, budget, read, seed),
                seed=seed,
                progress=progress_bar,
            )
        )
        for warning in fitted.warnings:
            warn(warning)
        fitted.cells.save(output, force=force)
        if picture is not None:
            with waiting("drawing the cells"):
                _draw(fitted.cells, plan.hide_among, picture, force=force)
            note(f"Picture written to {picture}.")
        _report_cells(fitted.cells, fitted.guarantee, output, card, as_json=json)
        return
    method = _fit_method(fit_method, delta, rounds)
    check_output(output, force=force)
    found = fit_intervals(
        source,
        region=box,
        epsilon=epsilon,
        delta=1e-5 if delta is None else delta,
        method=method,
        centres=centres,
        rounds=12 if rounds is None else rounds,
        gamma=0.5 if gamma is None else gamma,
        population=population,
        read=read,
        ledger=open_ledger(ledger, budget, read, seed),
        seed=seed,
        progress=progress_bar,
    )
    for warning in found.warnings:
        warn(warning)
    with replacing(output, force=force) as partial:
        partial.write_text(found.intervals.to_json(), encoding="utf-8")
    _report(found.intervals, found.guarantee, output, card, as_json=json)


def _input_and_output(
    files: list[Path], sources: Mapping[str, Path | str | None], from_data: str | None
) -> tuple[Path, Path]:
    if len(files) != (2 if from_data is None else 1):
        if from_data is not None:
            raise UsageError(f"{from_data} takes the place of INPUT; name OUTPUT alone")
        raise UsageError("name INPUT, the file of true locations, and OUTPUT, the file to write")
    output = files[-1]
    for option, value in sources.items():
        if value is not None and output.exists() and Path(value).exists() and output.samefile(value):
            raise UsageError(f"OUTPUT is the same file as {option}; name another file")
    return files[0], output


def _fit_method(name: FitMethodName | None, delta: float | None, rounds: int | None) -> FitMethod:
    if name is FitMethodName.PIC:
        return "pic"
    if delta is not None or rounds is not None:
        raise UsageError("--delta and --rounds are options of --fit-method pic; leave them out, or choose it")
    return "private-grid"


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
        if value is not None and value != []:
            raise UsageError(f"--{name.replace('_', '-')} cannot be used with {what}: {hint}")


def _report_cells(cells: Cells, guarantee: Guarantee, output: Path, card: CardName, *, as_json: bool) -> None:
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
    say(guarantee.card(full=card is CardName.FULL))


def _report(intervals: Intervals, guarantee: Guarantee, output: Path, card: CardName, *, as_json: bool) -> None:
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
    say(guarantee.card(full=card is CardName.FULL))
