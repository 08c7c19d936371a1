"""What a report of a reproduction was made with, and what to bear in mind."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from nearveil.cli._output import say, warn, work_bar
from nearveil.errors import OutputError
from nearveil.evaluation.experiments.registry import EXPERIMENTS, findings
from nearveil.evaluation.experiments.scope import Results, Scope
from nearveil.evaluation.results import Outcome
from nearveil.evaluation.runner import code_fingerprint, data_fingerprint, open_journal, run_cells
from nearveil.io.datasets import Dataset, DatasetName, find_check_ins, load_dataset
from nearveil.report.files import table_cells, write_outcome
from nearveil.report.html import Drawn, draw_pictures, write_report
from nearveil.report.tables import text_table

_LIBRARIES = ("numpy", "scipy", "numba", "matplotlib")
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Size:
    """How often and how finely things are measured, where nobody says otherwise."""

    runs: int
    instances: int
    queries: int
    targets: int


FULL = Size(runs=5, instances=50, queries=2_000, targets=60)
QUICK = Size(runs=2, instances=10, queries=400, targets=8)


def facts_of(scope: Scope, usual: Size) -> list[tuple[str, str]]:
    """Return versions, sizes, seed and data, as a reader would need them to do it again."""
    again = ["nearveil reproduce", *(["--quick"] if scope.quick else []), f"--seed {scope.seed}"]
    again += [f"--runs {scope.runs}"] if scope.runs != usual.runs else []
    again += [f"--instances {scope.instances}"] if scope.instances != usual.instances else []
    if len(scope.datasets) < len(DatasetName):
        again += [f"--dataset {name}" for name in scope.datasets]
    again += ["--data-dir DIR"] if any(one.source != "generated" for one in scope.datasets.values()) else []
    facts = [
        ("Command", " ".join(again)),
        ("Runs", f"{scope.runs}, with {scope.instances} people attacked, {scope.queries:,} queries and {scope.targets} "
                 "people guessed in each"),
        ("Seed", str(scope.seed)),
        ("Nearveil", f"{metadata.version('nearveil')}, measuring code {code_fingerprint()[:_SHOWN]}"),
        ("Python", f"{platform.python_version()}, " + ", ".join(f"{n} {metadata.version(n)}" for n in _LIBRARIES)),
        ("Machine", f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"),
        ("Date", datetime.datetime.now(tz=datetime.UTC).date().isoformat()),
    ]  # fmt: skip
    facts += [
        (
            f"Data: {name}",
            f"{dataset.source}, {len(dataset.places):,} places, digest {data_fingerprint(dataset)[:_SHOWN]}",
        )
        for name, dataset in scope.datasets.items()
    ]
    return facts


def warnings_of(scope: Scope) -> list[str]:
    """Return what a reader must know before anything else."""
    found = []
    if scope.quick:
        found.append(
            f"A quick look: {scope.runs} runs with {scope.instances} attacks each and coarse sweeps. Intervals are "
            "wide, and some remarks compare means that a full run would not tell apart."
        )
        found.append("Adaptive and unfolding are tried on 3 people a run only; the frontier leaves most families out.")
    if any("reconstruction" in dataset.source for dataset in scope.datasets.values()):
        found.append(
            "brightkite and gowalla are a reconstruction and not SNAP's originals: a third of the check-ins has the "
            "middle of a 20 m cell, and there are fewer places than the paper has."
        )
    if scope.runs == 1:
        found.append("A single run: there are no intervals, and differences between means may be chance.")
    missing = [name.value for name in DatasetName if name.value not in scope.datasets]
    if missing:
        found.append(
            f"Without {', '.join(missing)}: no file was found, or they were not asked for. 'nearveil datasets' says "
            "how to get them."
        )
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


# ``nearveil reproduce``: the paper's tables and figures again, its numbers beside ours, and what it lacks.


ALL = "all"
JOURNAL = "cells.jsonl"
REPORT = "report.html"
REPORT_TITLE = "Protecting k-nearest-neighbour queries: what holds, what does not, and why"

REPORT_LEAD = (
    "Services with a 'people nearby' feature hide coordinates and distances and show a ranked list. The paper, Zhiyu "
    "Sun, Jie Fu, Xinpeng Ling, Huifa Li and Zhili Chen, Protecting K-Nearest Neighbor Queries from Location Inference "
    "Attacks (2026), shows that the list alone gives people away (attacks GI-LIA and ZO-LIA) and proposes a defence "
    "(DPRS). Here all of its tables and figures are measured again, its numbers beside ours, with the comparisons that "
    "it lacks. "
    "Recall@k is the share of the true k nearest people whom a list over published places still has; Acc is the share "
    "of people whom an attack finds within 100 m, and Dist its mean error. Every table says "
    "under which protocol it was measured."
)

# In the order of the paper's tables.
_ORDER = (DatasetName.BRIGHTKITE, DatasetName.GOWALLA, DatasetName.GAUSSIAN, DatasetName.BETA)

PartName = StrEnum("PartName", [(name.upper(), name) for name in (ALL, *EXPERIMENTS)])  # type: ignore[misc]

_EVERYTHING = PartName(ALL)


_FEW_PICTURES = 4


def reproduce(
    part: Annotated[PartName, typer.Argument(help="What to reproduce.")] = _EVERYTHING,
    *,
    dataset: Annotated[
        list[DatasetName] | None, typer.Option(help="May be repeated.", show_default="all that are at hand")
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
    size = QUICK if quick else FULL
    scope = Scope(
        datasets={one.name: one for one in _load(dataset, data_dir)},
        runs=runs or size.runs,
        instances=instances or size.instances,
        queries=size.queries,
        targets=size.targets,
        seed=seed,
        quick=quick,
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {out} cannot be made: {error.strerror}") from None
    names = list(EXPERIMENTS) if part == ALL else [str(part)]
    used = cores or os.cpu_count() or 1
    results = _measure(names, scope, out, used)
    outcomes = [EXPERIMENTS[name].outcome(scope, results) for name in names]
    drawn = _draw(outcomes, used)
    for outcome in outcomes:
        paths = write_outcome(outcome, out, drawn={name: one.png for name, one in drawn.items()})
        if part != ALL:
            _say_outcome(outcome, paths)
    if part == ALL:
        _write_report(scope, results, outcomes, drawn, out)


def _measure(names: list[str], scope: Scope, out: Path, cores: int) -> Results:
    cells = list(dict.fromkeys(cell for name in names for cell in EXPERIMENTS[name].cells(scope)))
    seconds = sum(cell.seconds for cell in cells)
    with open_journal(out / JOURNAL) as journal, work_bar(f"measuring {len(cells):,} cells", seconds) as advance:
        return run_cells(cells, scope.datasets, journal, cores=cores, progress=advance)


def _draw(outcomes: list[Outcome], cores: int) -> dict[str, Drawn]:
    pictures = sum(len(outcome.pictures) for outcome in outcomes)
    with work_bar(f"drawing {pictures} pictures", pictures) as advance:
        # To start processes takes longer than to draw a few.
        return draw_pictures(outcomes, cores=cores if pictures > _FEW_PICTURES else 1, progress=advance)


def _say_outcome(outcome: Outcome, paths: list[Path]) -> None:
    for table in outcome.tables:
        say(f"{text_table(*table_cells(table))}\n\n{table.protocol}\n")
    say("\n".join(f"- {remark}" for remark in outcome.remarks))
    say(f"\nWritten: {', '.join(str(path) for path in paths)}")


def _write_report(scope: Scope, results: Results, outcomes: list[Outcome], drawn: dict[str, Drawn], out: Path) -> None:
    found = findings(scope, results)
    write_report(
        out / REPORT,
        title=REPORT_TITLE,
        findings=found,
        outcomes=outcomes,
        facts=facts_of(scope, QUICK if scope.quick else FULL),
        warnings=warnings_of(scope),
        figures={name: one.figure for name, one in drawn.items()},
        lead=REPORT_LEAD,
    )
    for finding in found:
        say(f"{finding.headline}\n  {finding.words}\n")
    say(f"Written: {out / REPORT}, and every table as CSV and Markdown and every picture as PNG beside it")


def _load(names: list[DatasetName] | None, data_dir: Path | None) -> list[Dataset]:
    """Load what was asked for; if nothing was, whatever is there."""
    if names:
        return [load_dataset(name, data_dir) for name in _ORDER if name in names]
    found = []
    for name in _ORDER:
        if name in (DatasetName.GAUSSIAN, DatasetName.BETA) or find_check_ins(name, data_dir) is not None:
            found.append(load_dataset(name, data_dir))
        else:
            warn(f"without {name.value}, of which no file was found: 'nearveil datasets' says how to get it")
    return found
