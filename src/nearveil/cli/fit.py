"""``nearveil fit``: build private intervals and write them to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._options import (
    BudgetOption,
    CentresOption,
    Charge,
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
)
from nearveil.cli._output import progress_bar, say, say_json, warn
from nearveil.cli.populations import open_checked
from nearveil.errors import UsageError
from nearveil.io.atomic import check_output, replacing
from nearveil.mechanisms.fitting import FitPlan, build_intervals
from nearveil.mechanisms.intervals import METHOD_NAMES, Intervals
from nearveil.randomness import FIT_STREAM, seeded_randomness
from nearveil.release.fitting import PlacesInStream


def fit(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV, GeoJSON or Parquet file of true places.")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Intervals file to write, .json.")],
    *,
    region: OwnRegionOption = None,
    epsilon: Annotated[float, typer.Option(help="What the fit costs each person in the file.")] = 1.0,
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
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Build private intervals from everybody in INPUT; the file written holds nothing private."""
    if output.suffix != ".json":
        raise UsageError("an intervals file is JSON; give OUTPUT the extension .json")
    chosen = chosen_region(region, scaling, None)
    plan = FitPlan(
        method=(fit_method or FitMethodName.PRIVATE_GRID).value,
        centres=centres,
        rounds=12 if rounds is None else rounds,
        gamma=0.5 if gamma is None else gamma,
        population=population,
    )
    if plan.method == "private-grid" and (delta is not None or rounds is not None):
        raise UsageError("--delta and --rounds go with --fit-method pic; the private grid needs neither")
    delta = 1e-5 if delta is None else delta
    noise_budget = plan.budget(epsilon, delta)
    charge = Charge(ledger, budget, person, per_row=per_row, seed=seed)
    check_output(output, force=force)
    stream, watch = open_checked(
        source,
        latitude=latitude,
        longitude=longitude,
        drop=(),
        person=person,
        per_row=per_row,
        keep_ids=ledger is not None,
        carry=False,
    )
    with progress_bar("reading people", stream.rows) as advance:
        answers = PlacesInStream(stream, chosen, watch, clip=clip, progress=advance)
    watch.finish(stream)
    for warning in watch.warnings:
        warn(warning)
    randomness = None if seed is None else seeded_randomness(seed, FIT_STREAM)
    with progress_bar("finding intervals", plan.steps) as advance:
        found = build_intervals(answers, chosen, plan, noise_budget, rng=randomness, progress=advance)
    if watch.several_rows:
        found = replace(found, unit="row")
    charge.record_fit(found, delta, watch.people_by_id())
    with replacing(output, force=force) as partial:
        partial.write_text(found.to_json(), encoding="utf-8")
    _report(found, delta, output, json)


def _report(intervals: Intervals, delta: float, output: Path, as_json: bool) -> None:
    guarantee = intervals.guarantee(delta)
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
    say(str(guarantee))
    say(
        f"{len(intervals):,} intervals written to {output} by {METHOD_NAMES[intervals.method]}; "
        f"radii from {radii_m[0]:,.0f} m to {radii_m[-1]:,.0f} m."
    )
