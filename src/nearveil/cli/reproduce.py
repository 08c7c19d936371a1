"""``nearveil reproduce``: the paper's tables and figures with its numbers beside ours, and further experiments."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from nearveil.cli._command import command, option
from nearveil.cli._options import FILE, chosen_region, cores_option, data_dir_option, own_region_option, reading_options
from nearveil.cli._output import say, warn, work_bar
from nearveil.errors import UsageError
from nearveil.evaluation.experiments.registry import EXPERIMENTS
from nearveil.evaluation.results import ExperimentResult
from nearveil.io.datasets import DatasetName
from nearveil.io.people import ReadOptions
from nearveil.report.files import table_cells
from nearveil.report.reproduce import ALL
from nearveil.report.reproduce import reproduce as run
from nearveil.report.text_table import TEXT_WIDTH, text_table


@command()
@click.argument(
    "experiment",
    type=click.Choice([ALL, *EXPERIMENTS]),
    metavar="[EXPERIMENT]",
    default=ALL,
    help=f"Table, figure or experiment to reproduce: {', '.join((ALL, *EXPERIMENTS))}.",
)
@option(
    "--dataset",
    "datasets",
    multiple=True,
    type=click.Choice([name.value for name in DatasetName]),
    help="Population used in the paper; may be repeated.",
    show_default="all available; none with --input",
)
@option(
    "--input",
    "source",
    type=FILE,
    metavar="FILE",
    help="Your own people, in addition to any --dataset: a CSV, TSV, GeoJSON or Parquet file.",
)
@own_region_option
@reading_options
@option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    metavar="MECHANISM",
    help="Your own mechanism, added to the frontier, as FILE.py:CLASS; may be repeated.",
)
@option(
    "--attack",
    "attacks",
    multiple=True,
    metavar="ATTACK",
    help="Your own attack, added to Table 1, as FILE.py:CLASS; may be repeated.",
)
@data_dir_option
@option("--out", type=FILE, default=Path("report"), metavar="FOLDER", help="Folder for the results.")
@option("--runs", type=click.IntRange(min=1), help="Number of runs, each with its own seed.", show_default="5")
@option("--instances", type=click.IntRange(min=1), help="Number of people attacked in each run.", show_default="50")
@option("--quick", is_flag=True, help="Two small runs and coarse sweeps: minutes instead of an hour.")
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    metavar="N",
    help="The same seed gives the same numbers, except times.",
)
@cores_option
def reproduce(
    experiment: str,
    *,
    datasets: tuple[str, ...],
    source: Path | None,
    region: str | None,
    reading: ReadOptions,
    mechanisms: tuple[str, ...],
    attacks: tuple[str, ...],
    data_dir: Path | None,
    out: Path,
    runs: int | None,
    instances: int | None,
    quick: bool,
    seed: int,
    cores: int | None,
) -> None:
    """Reproduce one table or figure of the paper, or all of them in one HTML report.

    Every table is written as CSV and Markdown and every picture as PNG. Finished work is kept in the folder, so the
    same command resumes an interrupted one.
    """
    useless = [*(["--region"] if region is not None else []), *reading.arguments()[:1]]
    if useless and source is None:
        raise UsageError(f"{useless[0]} is for --input FILE; leave it out")
    done = run(
        experiment,
        datasets=datasets,
        people=source,
        region=None if source is None else chosen_region(region),
        read=reading,
        data_dir=data_dir,
        mechanisms=mechanisms,
        attacks=attacks,
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
