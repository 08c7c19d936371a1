"""``nearveil reproduce``: the paper's tables and figures with its numbers beside ours, and further experiments."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._old_options import OwnRegionOption, takes_reading
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
from nearveil.report.tables import TEXT_WIDTH, text_table

ExperimentName = StrEnum("ExperimentName", [(name.upper(), name) for name in (ALL, *EXPERIMENTS)])  # type: ignore[misc]

_ALL = ExperimentName(ALL)


@takes_reading
def reproduce(
    experiment: Annotated[ExperimentName, typer.Argument(help="Table, figure or experiment to reproduce.")] = _ALL,
    *,
    dataset: Annotated[
        list[DatasetName] | None,
        typer.Option(
            help="Population used in the paper; may be repeated.", show_default="all available; none with --input"
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="Your own people, in addition to any --dataset: a CSV, TSV, GeoJSON or Parquet file.",
            metavar="FILE",
        ),
    ] = None,
    region: OwnRegionOption = None,
    reading: ReadOptions,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="Your own mechanism, added to the frontier, as FILE.py:CLASS; may be repeated.", metavar="MECHANISM"
        ),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="Your own attack, added to Table 1, as FILE.py:CLASS; may be repeated.", metavar="ATTACK"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the check-ins of brightkite and gowalla.",
            show_default="NEARVEIL_DATA_DIR, then the cache folder",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results; created if missing.")] = Path("report"),
    runs: Annotated[
        int | None, typer.Option(help="Number of runs, each with its own seed.", show_default="5", min=1)
    ] = None,
    instances: Annotated[
        int | None, typer.Option(help="Number of people attacked in each run.", show_default="50", min=1)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two small runs and coarse sweeps: minutes instead of an hour.")
    ] = False,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same numbers, except times.", metavar="N", min=0)
    ] = 1,
    cores: Annotated[int | None, typer.Option(help="Number of processes.", show_default="all cores", min=1)] = None,
) -> None:
    """Reproduce one table or figure of the paper, or all of them in one HTML report.

    Every table is written as CSV and Markdown and every picture as PNG. Finished work is kept in the folder, so the
    same command resumes an interrupted one.
    """
    useless = [*(["--region"] if region is not None else []), *reading.arguments()[:1]]
    if useless and source is None:
        raise UsageError(f"{useless[0]} is for --input FILE; leave it out")
    done = run(
        str(experiment),
        datasets=[one.value for one in dataset or ()],
        people=source,
        region=DEFAULT_REGION if region is None else region,
        read=reading,
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
        warn(f"the files in {out} are computed from true locations, and maps show them; do not publish")
    if experiment == ALL:
        for finding in done.findings:
            say(f"{finding.headline}\n  {finding.text}\n")
        say(f"Written: {done.files[0]}; beside it are all tables as CSV and Markdown and all pictures as PNG")
        return
    _say_outcome(done.outcomes[0], done.files)


def _say_outcome(outcome: ExperimentResult, paths: tuple[Path, ...]) -> None:
    """Print what came out, then tables, then under which protocol, each once."""
    bullets = (
        textwrap.fill(remark, TEXT_WIDTH, initial_indent="- ", subsequent_indent="  ") for remark in outcome.remarks
    )
    say(f"{outcome.title}\n\n" + "\n".join(bullets))
    for table in outcome.tables:
        if table.in_files_alone:
            continue
        cells = table_cells(table, in_terminal=True)
        say(f"\n{textwrap.fill(table.caption, TEXT_WIDTH)}\n\n{text_table(*cells, width=TEXT_WIDTH)}")
    for protocol in dict.fromkeys(table.protocol for table in outcome.tables):
        say(f"\n{textwrap.fill(protocol, TEXT_WIDTH)}")
    say(f"\nWritten to {paths[0].parent}: {', '.join(path.name for path in paths)}")
