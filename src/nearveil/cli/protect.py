"""``nearveil protect``: true places in, published places out, and a truthful card."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from nearveil.cli.console import progress_bar, say, say_json, warn
from nearveil.cli.ledger_options import BudgetOption, Charge, LedgerOption
from nearveil.cli.mechanism_choice import Wish, build_mechanism
from nearveil.cli.options import (
    ClipOption,
    DropOption,
    ForceOption,
    JsonOption,
    LatitudeOption,
    LongitudeOption,
    PerRowOption,
    PersonOption,
    RegionOption,
    ScalingOption,
    SeedOption,
    chosen_region,
)
from nearveil.cli.people_checks import open_checked
from nearveil.cli.protection_options import takes_protection
from nearveil.errors import UsageError
from nearveil.evaluation.displacement import Displacement
from nearveil.io.files import check_people_output, people_writer
from nearveil.io.people_stream import PeopleStream
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.dprs import DPRS
from nearveil.privacy.guarantee import Guarantee, Notion
from nearveil.streaming.places_in_stream import PlacesInStream
from nearveil.streaming.publishing import Published, publish_stream

_FITTED_HERE = (
    "The intervals were fitted on the people of this file, so what holds for them is the statement that begins with "
    "'Together'. With intervals made from other data (--intervals) the first statement is theirs."
)
_ROWS_COMPOSE = (
    "People may have several rows, and a person's rows compose: each is a release of its own, and their losses add up. "
    "Rows at one place average out, so that place is protected less with every row."
)


@takes_protection
def protect(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="CSV, GeoJSON or Parquet file of true places.")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="File to write; its extension is its format.")],
    *,
    region: RegionOption = None,
    wish: Wish,
    person: PersonOption = None,
    per_row: PerRowOption = False,
    ledger: LedgerOption = None,
    budget: BudgetOption = None,
    latitude: LatitudeOption = None,
    longitude: LongitudeOption = None,
    drop: DropOption = None,
    clip: ClipOption = False,
    scaling: ScalingOption = None,
    seed: SeedOption = None,
    json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Publish other places for everybody in INPUT, and say truthfully what that protects."""
    started = time.perf_counter()
    chosen = build_mechanism(wish, chosen_region(region, scaling, wish.intervals), seed)
    charge = Charge(ledger, budget, person, per_row=per_row, seed=seed)
    if output.exists() and source.exists() and output.samefile(source):
        raise UsageError("OUTPUT is the INPUT, whose true places would be lost; write to another file")
    check_people_output(output, force=force)
    stream, watch = open_checked(
        source,
        latitude=latitude,
        longitude=longitude,
        drop=tuple(drop or ()),
        person=person,
        per_row=per_row,
        keep_ids=ledger is not None,
    )
    _fit(chosen, stream, clip=clip)
    with people_writer(output, force=force, metadata=_file_metadata(chosen, wish)) as writer:
        with progress_bar("moving people", stream.rows) as advance:
            published = publish_stream(stream, chosen, writer, watch, clip=clip, progress=advance)
        # Whole on disk, and charged, before it gets its name.
        writer.finish()
        charge.record(chosen, watch.people_by_id())
    for warning in watch.warnings:
        warn(warning)
    summary = _summary(chosen, wish, published, several_rows=watch.several_rows)
    seconds = time.perf_counter() - started
    if json:
        say_json(_document(summary, published.displacement, seconds))
    else:
        say(_text(summary, published.displacement, output, seconds))


def _fit(mechanism: Mechanism, stream: PeopleStream, *, clip: bool) -> None:
    """Find intervals, if the mechanism needs some that are not given."""
    if not (isinstance(mechanism, DPRS) and mechanism.intervals is None):
        return
    with progress_bar("reading people", stream.rows) as advance:
        answers = PlacesInStream(stream, mechanism.resolved_region, clip=clip, progress=advance)
    with progress_bar("finding intervals", mechanism.fit_plan.steps) as advance:
        mechanism.fit(answers, progress=advance)


def _summary(mechanism: Mechanism, wish: Wish, published: Published, *, several_rows: bool) -> dict[str, Any]:
    guarantee, clipped = mechanism.guarantee, published.clipped
    if several_rows:
        guarantee = guarantee.counted_per_row().with_note(_ROWS_COMPOSE)
    fitted_here = isinstance(mechanism, DPRS) and mechanism.intervals is None
    if fitted_here:
        guarantee = guarantee.with_note(_FITTED_HERE)
    if clipped:
        guarantee = guarantee.with_note(
            f"{clipped:,} rows were outside the region and moved to its edge first; only the place on the edge is "
            "protected, and that they were outside may show."
        )
    dprs = mechanism if isinstance(mechanism, DPRS) else None
    metric = guarantee.notion is Notion.METRIC
    return {
        "rows": published.rows,
        "mechanism": wish.chosen.value,
        "release": dprs.release if dprs else None,
        "epsilon": _epsilon(mechanism),
        # The paper's epsilon is no guarantee, a seed undoes the noise, and who was fitted on loses more.
        "epsilon_holds": not (
            (dprs and dprs.release == "paper") or mechanism.seed is not None or several_rows or fitted_here
        ),
        "holds_for_these_people": _what_holds(guarantee, mechanism, fitted_here=fitted_here),
        "epsilon_per_km": 1000 * guarantee.epsilon if metric else None,
        "delta": dprs.delta if dprs and dprs.release == "paper" else guarantee.delta,
        "region": str(mechanism.resolved_region),
        "clipped": clipped,
        "fitted_on_these_people": fitted_here,
        "seeded": _is_seeded(mechanism),
        "guarantee": guarantee,
    }


def _what_holds(guarantee: Guarantee, mechanism: Mechanism, *, fitted_here: bool) -> dict[str, Any] | None:
    """The statement that is true of the people in this very file, in numbers; none where a seed was used."""
    if mechanism.seed is not None:
        return None
    statement = guarantee.also[1] if fitted_here else guarantee
    fields = ("notion", "epsilon", "offset", "unit", "delta")
    return {name: value for name, value in statement.to_dict().items() if name in fields}


def _epsilon(mechanism: Mechanism) -> float | None:
    """The epsilon asked for; none where the loss is per distance."""
    if isinstance(mechanism, DPRS):
        return None if mechanism.release == "metric" else mechanism.chosen_epsilon
    return getattr(mechanism, "epsilon", None)


def _is_seeded(mechanism: Mechanism) -> bool:
    intervals_are = isinstance(mechanism, DPRS) and mechanism.current_intervals.seeded
    return mechanism.seed is not None or intervals_are


def _file_metadata(mechanism: Mechanism, wish: Wish) -> dict[str, Any]:
    """What a published file says of itself; the guarantee goes to whoever ran the command."""
    release = mechanism.release if isinstance(mechanism, DPRS) else None
    return {"mechanism": wish.chosen.value, "release": release, "seeded": _is_seeded(mechanism)}


def _document(summary: dict[str, Any], displacement: Displacement, seconds: float) -> dict[str, Any]:
    guarantee: Guarantee = summary["guarantee"]
    return {
        **summary,
        "seconds": round(seconds, 3),
        "displacement_m": {name.removesuffix("_m"): round(value, 2) for name, value in asdict(displacement).items()},
        "guarantee": guarantee.to_dict(),
    }


def _text(summary: dict[str, Any], displacement: Displacement, output: Path, seconds: float) -> str:
    how = summary["mechanism"] + (f", release {summary['release']}" if summary["release"] else "")
    return "\n".join(
        [
            str(summary["guarantee"]),
            f"{summary['rows']:,} rows written to {output} in {seconds:.1f} s ({how}).",
            f"Moved by {displacement.mean_m:,.0f} m on average; half of them by less than {displacement.p50_m:,.0f} m, "
            f"95 % by less than {displacement.p95_m:,.0f} m (from true places: for your eyes).",
        ]
    )
