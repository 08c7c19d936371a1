"""``nearveil fit``: find private intervals and write them to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._options import (
    BudgetOption,
    CardName,
    CardOption,
    CentresOption,
    ClipOption,
    DeltaOption,
    FitMethodName,
    FitMethodOption,
    ForceOption,
    GammaOption,
    JsonOption,
    LatitudeOption,
    LedgerOption,
    LongitudeOption,
    OwnRegionOption,
    PerRowOption,
    PersonOption,
    PopulationOption,
    RoundsOption,
    ScalingOption,
    SeedOption,
    chosen_region,
    open_ledger,
)
from nearveil.cli._output import progress_bar, say, say_json, warn
from nearveil.errors import UsageError
from nearveil.io.atomic import check_output, replacing
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.fitting import FitMethod
from nearveil.mechanisms.intervals import METHOD_NAMES, Intervals
from nearveil.privacy.guarantee import Guarantee
from nearveil.release.fitting import fit_intervals


def fit(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV, GeoJSON or Parquet file of true locations.")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Intervals file to write (.json).")],
    *,
    region: OwnRegionOption = None,
    epsilon: Annotated[float, typer.Option(help="Epsilon of the fit, charged to each person in the file.")] = 1.0,
    delta: DeltaOption = None,
    fit_method: FitMethodOption = None,
    centres: CentresOption = None,
    rounds: RoundsOption = None,
    gamma: GammaOption = None,
    population: PopulationOption = None,
    person: PersonOption = None,
    per_row: PerRowOption = False,
    ledger: LedgerOption = None,
    budget: BudgetOption = None,
    latitude: LatitudeOption = None,
    longitude: LongitudeOption = None,
    clip: ClipOption = False,
    scaling: ScalingOption = None,
    seed: SeedOption = None,
    card: CardOption = CardName.SHORT,
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Find the intervals of dprs with differential privacy, and write them to a file."""
    if output.suffix != ".json":
        raise UsageError("an intervals file is JSON; give OUTPUT the extension .json")
    method: FitMethod = "pic" if fit_method is FitMethodName.PIC else "private-grid"
    if method == "private-grid" and (delta is not None or rounds is not None):
        raise UsageError("--delta and --rounds are options of --fit-method pic; leave them out, or choose it")
    read = ReadOptions(latitude=latitude, longitude=longitude, person=person, per_row=per_row, clip=clip)
    check_output(output, force=force)
    fitted = fit_intervals(
        source,
        region=chosen_region(region, scaling, None),
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
    for warning in fitted.warnings:
        warn(warning)
    with replacing(output, force=force) as partial:
        partial.write_text(fitted.intervals.to_json(), encoding="utf-8")
    _report(fitted.intervals, fitted.guarantee, output, card, as_json=json)


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
