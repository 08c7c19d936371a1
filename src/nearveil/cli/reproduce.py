"""``nearveil reproduce``: the paper's tables and figures again, its numbers beside ours, and what it lacks."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._options import ClipOption, LatitudeOption, LongitudeOption, OwnRegionOption
from nearveil.cli._output import say, warn, work_bar
from nearveil.errors import UsageError
from nearveil.evaluation.experiments.registry import EXPERIMENTS
from nearveil.evaluation.results import ExperimentResult
from nearveil.io.datasets import DatasetName
from nearveil.io.people import ReadOptions
from nearveil.region import DEFAULT_REGION
from nearveil.report.files import table_cells
from nearveil.report.reproduce import ALL
from nearveil.report.reproduce import reproduce as run
from nearveil.report.tables import text_table

PartName = StrEnum("PartName", [(name.upper(), name) for name in (ALL, *EXPERIMENTS)])  # type: ignore[misc]

_EVERYTHING = PartName(ALL)


def reproduce(
    part: Annotated[PartName, typer.Argument(help="What to reproduce.")] = _EVERYTHING,
    *,
    dataset: Annotated[
        list[DatasetName] | None,
        typer.Option(help="May be repeated.", show_default="all that are at hand, or none with --input"),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="Your own people, beside the data sets that are named or alone: CSV, GeoJSON or Parquet.",
            metavar="FILE",
        ),
    ] = None,
    region: OwnRegionOption = None,
    latitude: LatitudeOption = None,
    longitude: LongitudeOption = None,
    clip: ClipOption = False,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help="Your own on the frontier, too, as FILE.py:CLASS; may be repeated.", metavar="MECHANISM"),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="Your own in Table 1, too, as FILE.py:CLASS; may be repeated.", metavar="ATTACK"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the check-ins of brightkite and gowalla.",
            show_default="NEARVEIL_DATA_DIR, then the cache folder",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for everything that is written; made if need be.")] = Path("report"),
    runs: Annotated[int | None, typer.Option(help="Runs with seeds of their own.", show_default="5", min=1)] = None,
    instances: Annotated[
        int | None, typer.Option(help="People attacked in each run.", show_default="50", min=1)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="2 small runs and coarse sweeps: minutes, not an hour.")
    ] = False,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same numbers, but for times.", metavar="N", min=0)
    ] = 1,
    cores: Annotated[int | None, typer.Option(help="Processes to use.", show_default="all cores", min=1)] = None,
) -> None:
    """Reproduce one table or figure, or all of them in one HTML report.

    Every table is written as CSV and Markdown and every picture as PNG. Finished work is kept in the folder: the same
    command goes on where an earlier one was stopped.
    """
    of_input = {"--region": region, "--latitude": latitude, "--longitude": longitude, "--clip": clip or None}
    useless = [name for name, value in of_input.items() if value is not None and source is None]
    if useless:
        raise UsageError(f"{useless[0]} goes with --input FILE; leave it out")
    done = run(
        str(part),
        datasets=[one.value for one in dataset or ()],
        people=source,
        region=DEFAULT_REGION if region is None else region,
        read=ReadOptions(latitude=latitude, longitude=longitude, clip=clip),
        data_dir=data_dir,
        mechanisms=mechanism or (),
        attacks=attack or (),
        out=out,
        runs=runs,
        instances=instances,
        quick=quick,
        seed=seed,
        cores=cores,
        progress=work_bar,
        warn=warn,
    )
    if source is not None:
        warn(f"what is in {out} was computed from true places, and maps show them: keep it to yourself")
    if part == ALL:
        for finding in done.findings:
            say(f"{finding.headline}\n  {finding.text}\n")
        say(f"Written: {done.files[0]}, and every table as CSV and Markdown and every picture as PNG beside it")
        return
    _say_outcome(done.outcomes[0], done.files)


def _say_outcome(outcome: ExperimentResult, paths: tuple[Path, ...]) -> None:
    for table in outcome.tables:
        say(f"{text_table(*table_cells(table))}\n\n{table.protocol}\n")
    say("\n".join(f"- {remark}" for remark in outcome.remarks))
    say(f"\nWritten: {', '.join(str(path) for path in paths)}")
