"""``nearveil reproduce``: the paper's tables again, its numbers beside ours."""

from __future__ import annotations

import csv
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli.console import progress_bar, say, warn
from nearveil.errors import DataError, OutputError
from nearveil.evaluation.attack_experiment import AttackProtocol, AttackRow
from nearveil.evaluation.release_utility import EPSILONS, METHODS, QUERIES, ReleaseRow, release_rows, release_table
from nearveil.evaluation.table1 import attacks_in_table1, table1_rows
from nearveil.io.atomic import replacing
from nearveil.io.datasets import Dataset, DatasetName, load_dataset
from nearveil.report.attack_chart import draw_attack_chart
from nearveil.report.attack_table import table_notes, with_paper
from nearveil.report.release_chart import draw_release_chart
from nearveil.report.tables import markdown_table, text_table

_FULL, _QUICK = (5, 50), (2, 8)


class Part(StrEnum):
    """What can be reproduced."""

    TABLE1 = "table1"
    RELEASES = "releases"


def reproduce(
    part: Annotated[Part, typer.Argument(help="What to reproduce.")],
    *,
    dataset: Annotated[list[DatasetName] | None, typer.Option(help="May be repeated.", show_default="all four")] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with the check-ins of brightkite and gowalla.", show_default="NEARVEIL_DATA_DIR"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the table and its picture; made if need be.")] = Path("report"),
    runs: Annotated[int | None, typer.Option(help="Runs with seeds of their own.", show_default="5")] = None,
    instances: Annotated[int | None, typer.Option(help="table1: targets in each run.", show_default="50")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="2 runs of 8: minutes instead of half an hour.")] = False,
    seed: Annotated[int, typer.Option(help="Targets and ties depend on it.", metavar="N", min=0)] = 1,
    cores: Annotated[int | None, typer.Option(help="Processes to use.", show_default="all cores", min=1)] = None,
) -> None:
    """Reproduce a table on four populations, as text, CSV, Markdown and a picture.

    'table1': the paper's attacks and ours. 'releases': what the three releases of DPRS cost in utility.
    """
    default_runs, default_instances = _QUICK if quick else _FULL
    protocol = AttackProtocol(
        runs=default_runs if runs is None else runs,
        instances=default_instances if instances is None else instances,
        seed=seed,
    )
    datasets = _load(dataset, data_dir)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {out} cannot be made: {error.strerror}") from None
    if part is Part.RELEASES:
        _releases(datasets, protocol, out)
        return
    rows: list[AttackRow] = []
    for one in datasets:
        with progress_bar(one.name, attacks_in_table1(protocol.runs, protocol.instances)) as advance:
            rows += table1_rows(one, protocol, cores=cores or os.cpu_count() or 1, progress=advance)
    headers, cells = with_paper(rows, tau_m=protocol.tau_m)
    notes = table_notes(tau_m=protocol.tau_m, runs=protocol.runs, instances=protocol.instances)
    _write("table1", headers, cells, notes, out)
    with replacing(out / "table1.png", force=True) as partial:
        draw_attack_chart(rows, partial, tau_m=protocol.tau_m)
    say(f"\nWritten: {out / 'table1.csv'}, {out / 'table1.md'}, {out / 'table1.png'}")


def _releases(datasets: list[Dataset], protocol: AttackProtocol, out: Path) -> None:
    rows: list[ReleaseRow] = []
    for one in datasets:
        with progress_bar(one.name, len(METHODS) * len(EPSILONS) * protocol.runs) as advance:
            for method in METHODS:
                for epsilon in EPSILONS:
                    rows += release_rows(one, method, epsilon, runs=protocol.runs, seed=protocol.seed, progress=advance)
    notes = (
        f"users protocol, {QUERIES:,} queries, {protocol.runs} runs, 800 intervals, the same for the three releases of "
        "a run; metric: the noise whose loss across the median disc is epsilon."
    )
    _write("releases", *release_table(rows), notes, out)
    with replacing(out / "releases.png", force=True) as partial:
        draw_release_chart(rows, partial)
    say(f"\nWritten: {out / 'releases.csv'}, {out / 'releases.md'}, {out / 'releases.png'}")


def _load(names: list[DatasetName] | None, data_dir: Path | None) -> list[Dataset]:
    """Load what was asked for; if nothing was, whatever is there."""
    if names:
        return [load_dataset(name, data_dir) for name in names]
    found = []
    for name in DatasetName:
        try:
            found.append(load_dataset(name, data_dir))
        except DataError as error:
            warn(f"left out: {error}")
    return found


def _write(name: str, headers: list[str], cells: list[list[str]], notes: str, out: Path) -> None:
    say(text_table(headers, cells))
    say("\n" + notes)
    with replacing(out / f"{name}.csv", force=True) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([headers, *cells])
    with replacing(out / f"{name}.md", force=True) as partial:
        partial.write_text(markdown_table(headers, cells) + "\n" + notes + "\n", encoding="utf-8")
