"""``nearveil protect``: true places in, published places out, and a truthful card."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._options import (
    BudgetOption,
    Charge,
    ClipOption,
    DropOption,
    EngineName,
    EngineOption,
    ForceOption,
    InputFormatOption,
    JsonOption,
    KeepOrderOption,
    KeyOption,
    LatitudeOption,
    LedgerOption,
    LongitudeOption,
    OutputFormatOption,
    PartitionByOption,
    PerRowOption,
    PersonOption,
    RegionOption,
    ScalingOption,
    SeedOption,
    SparkConfOption,
    SparkWish,
    TrueFiguresOption,
    Wish,
    build_mechanism,
    chosen_region,
    takes_protection,
)
from nearveil.cli._output import say, say_json, warn, write_private_json
from nearveil.cli.release_order import Released, ReleaseOrder
from nearveil.cli.release_summary import as_document, as_text, figures_from_true_places, file_metadata, summary_of
from nearveil.errors import UsageError
from nearveil.io.atomic import check_output
from nearveil.mechanisms.base import Mechanism


@takes_protection
def protect(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="CSV, GeoJSON or Parquet file of true places.")],
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="File to write; its extension is its format.")],
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
    keep_order: KeepOrderOption = False,
    true_figures: TrueFiguresOption = None,
    scaling: ScalingOption = None,
    seed: SeedOption = None,
    json: JsonOption = False,
    force: ForceOption = False,
    engine: EngineOption = EngineName.LOCAL,
    key: KeyOption = None,
    input_format: InputFormatOption = None,
    output_format: OutputFormatOption = None,
    partition_by: PartitionByOption = None,
    spark_conf: SparkConfOption = None,
) -> None:
    """Publish other places for everybody in INPUT, and say truthfully what that protects."""
    started = time.perf_counter()
    of_spark = SparkWish(
        key=key,
        input_format=input_format,
        output_format=output_format,
        partition_by=partition_by,
        spark_conf=spark_conf,
    )
    of_spark.check(engine, seed, keep_order=keep_order)
    read_too = {
        "the --ledger": ledger,
        "the --intervals file": wish.intervals_file,
        "the --region file": region,
    }
    _check_apart("OUTPUT", output, read_too)
    if true_figures is not None:
        _check_apart("--true-figures", true_figures, {"the INPUT": source, "the OUTPUT": output, **read_too})
        check_output(true_figures, force=force)
    mechanism = build_mechanism(wish, chosen_region(region, scaling, wish.intervals), seed)
    charge = Charge(ledger, budget, person, per_row=per_row, seed=seed)
    order = ReleaseOrder(
        source=source,
        output=output,
        latitude=latitude,
        longitude=longitude,
        drop=tuple(drop or ()),
        person=person,
        per_row=per_row,
        clip=clip,
        keep_order=keep_order,
        force=force,
    )
    released = _release(order, mechanism, charge, wish, of_spark, engine)
    for warning in released.warnings:
        warn(warning)
    summary, seconds = summary_of(released, wish), time.perf_counter() - started
    if true_figures is not None:
        write_private_json(true_figures, figures_from_true_places(released, seconds), force=force)
    if json:
        say_json(as_document(summary))
    else:
        say(as_text(summary, released.displacement, output, seconds))


def _check_apart(what: str, path: str | Path, others: Mapping[str, str | Path | None]) -> None:
    """Refuse an output that is a file with another task, which ``--force`` would write over."""
    for name, other in others.items():
        if other is not None and Path(path).resolve() == Path(other).resolve():
            raise UsageError(f"{what} is {name}; name another file")


def _release(
    order: ReleaseOrder, mechanism: Mechanism, charge: Charge, wish: Wish, of_spark: SparkWish, engine: EngineName
) -> Released:
    # What the other engine needs is not loaded.
    if engine is EngineName.SPARK:
        from nearveil.cli.spark_release import release_with_spark  # noqa: PLC0415

        return release_with_spark(order, mechanism, charge, of_spark)
    from nearveil.cli.local_release import release_locally  # noqa: PLC0415

    return release_locally(order, mechanism, charge, file_metadata(mechanism, wish))
