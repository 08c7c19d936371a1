"""``nearveil reproduce``: the paper's tables and figures measured again, and experiments beyond it."""

from __future__ import annotations

from pathlib import Path

import click

from nearveil.cli._command import command, option
from nearveil.cli._options import FILE, chosen_region, cores_option, data_dir_option, reading_options, region_option
from nearveil.cli._output import progress_bar, say, warn
from nearveil.errors import UsageError
from nearveil.evaluation.studies import BEYOND, PAPER
from nearveil.io.datasets import DatasetName
from nearveil.io.location import ReadOptions

_PARTS = ("paper", *PAPER, *BEYOND, "beyond")


@command()
@click.argument(
    "part",
    type=click.Choice(_PARTS),
    metavar="[PART]",
    default="paper",
    help=f"What to reproduce: the whole paper; {', '.join(PAPER)} alone; {', '.join(BEYOND)}, which the paper does "
    "not have, or beyond for these three.",
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
    help="Your own users, in addition to any --dataset: a CSV, TSV, GeoJSON or Parquet file.",
)
@region_option
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
@option(
    "--theirs",
    type=FILE,
    metavar="FILE",
    help="Results of the authors' code as CSV, shown beside ours: method,dataset,k,dist_m,acc,cost_s for Table 1, or "
    "dataset,epsilon,mechanism,metric,value for Table 3.",
)
@data_dir_option
@option("--out", type=FILE, default=Path("report"), metavar="FOLDER", help="Folder for the results.")
@option("--runs", type=click.IntRange(min=1), help="Number of runs, each with its own seed.", show_default="5")
@option("--instances", type=click.IntRange(min=1), help="Number of users attacked in each run.", show_default="50")
@option("--quick", is_flag=True, help="Smaller runs and coarse sweeps: two minutes for the paper instead of fifteen.")
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    metavar="N",
    help="The same seed gives the same numbers, except times.",
)
@cores_option
def reproduce(
    part: str,
    *,
    datasets: tuple[str, ...],
    source: Path | None,
    region: str | None,
    reading: ReadOptions,
    mechanisms: tuple[str, ...],
    attacks: tuple[str, ...],
    theirs: Path | None,
    data_dir: Path | None,
    out: Path,
    runs: int | None,
    instances: int | None,
    quick: bool,
    seed: int,
    cores: int | None,
) -> None:
    """Reproduce the paper, one of its tables or figures, or an experiment beyond it.

    The folder gets a page report.html, every table as Markdown, every figure as PNG, and raw results as CSV with one
    row per run. What is measured is kept there, so that the same command resumes an interrupted one.
    """
    # Needs the packages of the extra "report", and they are slow to import.
    from nearveil.report.reproduce import reproduce as run  # noqa: PLC0415
    from nearveil.report.tables import frame_text  # noqa: PLC0415
    from nearveil.report.text_table import TEXT_WIDTH  # noqa: PLC0415

    if source is None and (region is not None or reading != ReadOptions()):
        raise UsageError("--region and how a file is read are for --input FILE; leave them out")
    found = run(
        part,
        datasets=datasets,
        people=source,
        region=None if source is None else chosen_region(region),
        read=reading,
        data_dir=data_dir,
        mechanisms=mechanisms,
        attacks=attacks,
        theirs=theirs,
        out=out,
        runs=runs,
        instances=instances,
        quick=quick,
        seed=seed,
        cores=cores,
        progress=progress_bar,
        warn=warn,
    )
    if part != "paper":
        for name, table in found.tables.items():
            say(f"{name}\n\n{frame_text(table, width=TEXT_WIDTH)}\n")
    if len(found.verdicts):
        say(f"{frame_text(found.verdicts, width=TEXT_WIDTH)}\n")
    say(f"Written: {found.files[0]}; beside it every table (.md), every figure (.png) and raw results (.csv)")
