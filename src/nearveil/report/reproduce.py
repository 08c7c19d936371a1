"""Reproduce the paper: its tables and figures measured again, its numbers beside ours, on its people or one's own.

`reproduce` measures, draws and writes. What a report was made with, and what to bear in mind, stands in it.
"""

from __future__ import annotations

import datetime
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from nearveil.attacks.base import Attack
from nearveil.attacks.registry import ATTACKS, attack_class, attack_reference
from nearveil.errors import OutputError, UsageError
from nearveil.evaluation.experiments.registry import EXPERIMENTS, findings
from nearveil.evaluation.experiments.scope import Results, Scope
from nearveil.evaluation.families import all_families
from nearveil.evaluation.results import ExperimentResult, KeyFinding
from nearveil.evaluation.runner import code_fingerprint, data_fingerprint, open_journal, run_cells
from nearveil.io.datasets import Dataset, DatasetName, find_check_ins, load_dataset
from nearveil.io.files import extension_of, read_people
from nearveil.io.input_file import is_standard
from nearveil.io.people import ReadOptions
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.registry import entry_of_class, mechanism_entry
from nearveil.region import Region, as_region
from nearveil.report.files import write_outcome
from nearveil.report.html import Drawn, draw_pictures, write_report
from nearveil.types import FloatArray, no_bar

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

WorkBar = Callable[[str, float], AbstractContextManager[Callable[[float], None]]]
"""Shows long work: called with a title and its length, it gives what to call as the work goes on."""

# In the order of the paper's tables.
_ORDER = (DatasetName.BRIGHTKITE, DatasetName.GOWALLA, DatasetName.GAUSSIAN, DatasetName.BETA)
_OWN_SOURCE = "own people"
_FEW_PICTURES = 4
_LIBRARIES = ("numpy", "scipy", "numba", "matplotlib")
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Size:
    """Default numbers of runs and resolutions of sweeps."""

    runs: int
    instances: int
    queries: int
    targets: int


FULL = Size(runs=5, instances=50, queries=2_000, targets=60)
QUICK = Size(runs=2, instances=10, queries=400, targets=8)


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """What was measured again.

    Attributes
    ----------
    scope : Scope
        The populations, and how much was measured.
    outcomes : tuple of ExperimentResult
        Tables, pictures and remarks of each part, in the order of the report.
    findings : tuple of KeyFinding
        The main findings; only where everything was measured.
    files : tuple of Path
        What was written.
    """

    scope: Scope
    outcomes: tuple[ExperimentResult, ...]
    findings: tuple[KeyFinding, ...] = ()
    files: tuple[Path, ...] = ()


def reproduce(
    part: str = ALL,
    *,
    datasets: Sequence[str] | None = None,
    people: str | Path | FloatArray | None = None,
    region: Region | str | None = None,
    read: ReadOptions | None = None,
    data_dir: str | Path | None = None,
    mechanisms: Sequence[str | type[Mechanism]] = (),
    attacks: Sequence[str | type[Attack]] = (),
    out: str | Path | None = None,
    runs: int | None = None,
    instances: int | None = None,
    quick: bool = False,
    seed: int = 1,
    cores: int | None = None,
    progress: WorkBar | None = None,
    warn: Callable[[str], None] | None = None,
) -> Reproduction:
    """Reproduce one table or figure of the paper, or all of them, on its populations or on one's own people.

    Parameters
    ----------
    part : str
        ``table1``, ``frontier`` or another of `EXPERIMENTS`, or ``all``, which also writes an HTML report.
    datasets : sequence of str, optional
        Populations of the paper; all that are at hand if neither these nor ``people`` are given.
    people : path, or array-like of shape (n, 2), optional
        One's own people, one at each place, labelled by the file's stem. What is written is computed from true places,
        and Table 2 draws them on a map.
    region, read
        Of ``people``: the public region, and which columns of the file are what.
    data_dir : path, optional
        Folder with the check-ins of brightkite and gowalla.
    mechanisms : sequence of str or class
        Somebody else's mechanisms, for the frontier: ``file.py:Class``, or classes.
    attacks : sequence of str or class
        Somebody else's attacks, for Table 1.
    out : path, optional
        Folder for everything that is written, finished work among it, which the same call takes up again; made if
        need be. Nothing is drawn or written if not given.
    runs, instances : int, optional
        Runs with seeds of their own, and people attacked in each.
    quick : bool
        A coarse and small version.
    seed : int
        The same seed gives the same numbers, but for times.
    cores : int, optional
        Processes to use; all cores by default.
    progress : callable, optional
        Gives a progress bar for each step.
    warn : callable, optional
        Called with what to know, before anything is measured.

    Examples
    --------
    >>> from nearveil.io.synthetic import synthetic_city
    >>> points = synthetic_city(900, as_region("san-francisco"), rng=1)
    >>> found = reproduce("releases", people=points, region="san-francisco", quick=True, runs=1, cores=1)
    >>> found.outcomes[0].title
    'The three releases of DPRS at equal intervals'
    """
    if part != ALL and part not in EXPERIMENTS:
        raise UsageError(f"there is no experiment {part!r}; choose one of {', '.join((ALL, *EXPERIMENTS))}")
    size, used = QUICK if quick else FULL, cores or os.cpu_count() or 1
    scope = Scope(
        mechanisms=_mechanisms(mechanisms, part),
        attacks=_attacks(attacks, part),
        datasets={one.name: one for one in _populations(datasets, people, region, read, data_dir, warn)},
        runs=runs or size.runs,
        instances=instances or size.instances,
        queries=size.queries,
        targets=size.targets,
        seed=seed,
        quick=quick,
    )
    names = list(EXPERIMENTS) if part == ALL else [part]
    bar: WorkBar = progress or _no_bar
    with _folder(out) as folder:
        results = _measure(names, scope, folder, used, bar)
        outcomes = tuple(EXPERIMENTS[name].outcome(scope, results) for name in names)
        found = findings(scope, results) if part == ALL else ()
        files = () if out is None else _write(scope, outcomes, found, folder, used, bar, whole=part == ALL)
    return Reproduction(scope, outcomes, found, files)


def _no_bar(title: str, total: float) -> AbstractContextManager[Callable[[float], None]]:
    return no_bar(title, round(total))  # type: ignore[return-value]


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {out} cannot be created: {error.strerror}") from None
    yield Path(out)


def _measure(names: Sequence[str], scope: Scope, folder: Path, cores: int, bar: WorkBar) -> Results:
    cells = list(dict.fromkeys(cell for name in names for cell in EXPERIMENTS[name].cells(scope)))
    seconds = sum(cell.seconds for cell in cells)
    wanted = {cell.dataset for cell in cells}
    generated = {
        name: made for one in names if not wanted <= scope.datasets.keys()
        for name, made in EXPERIMENTS[one].generated().items()
    }  # fmt: skip
    with open_journal(folder / JOURNAL) as journal, bar(f"measuring {len(cells):,} cells", seconds) as advance:
        return run_cells(cells, {**generated, **scope.datasets}, journal, cores=cores, progress=advance)


def _write(
    scope: Scope, outcomes: Sequence[ExperimentResult], found: Sequence[KeyFinding], folder: Path, cores: int,
    bar: WorkBar, *, whole: bool,
) -> tuple[Path, ...]:  # fmt: skip
    pictures = sum(len(outcome.pictures) for outcome in outcomes)
    with bar(f"drawing {pictures} pictures", pictures) as advance:
        # To start processes takes longer than to draw a few.
        cores = cores if pictures > _FEW_PICTURES else 1
        drawn = draw_pictures(outcomes, for_page=whole, cores=cores, progress=advance)
    images = {name: one.png for name, one in drawn.items()}
    files = [path for outcome in outcomes for path in write_outcome(outcome, folder, drawn=images)]
    if whole:
        files.insert(0, write_page(scope, outcomes, found, drawn, folder))
    return tuple(files)


def write_page(
    scope: Scope,
    outcomes: Sequence[ExperimentResult],
    found: Sequence[KeyFinding],
    drawn: dict[str, Drawn],
    folder: Path,
) -> Path:
    """Write the report of all experiments as one web page that loads nothing else."""
    write_report(
        folder / REPORT,
        title=REPORT_TITLE,
        findings=found,
        outcomes=outcomes,
        facts=facts_of(scope, QUICK if scope.quick else FULL),
        warnings=warnings_of(scope),
        figures={name: one.figure for name, one in drawn.items()},
        lead=REPORT_LEAD,
    )
    return folder / REPORT


# Whom and what is measured.


def _populations(
    datasets: Sequence[str] | None, people: str | Path | FloatArray | None, region: Region | str | None,
    read: ReadOptions | None, data_dir: str | Path | None, warn: Callable[[str], None] | None,
) -> list[Dataset]:  # fmt: skip
    """Load what was asked for; if nothing was, whatever is there."""
    unknown = [name for name in datasets or () if name not in list(DatasetName)]
    if unknown:
        raise UsageError(f"there is no population {unknown[0]!r}; the paper's are {', '.join(DatasetName)}")
    folder = None if data_dir is None else Path(data_dir)
    if people is not None and region is None:
        raise UsageError("name the public region of these users: region='berlin', a box, or a GeoJSON file")
    own = [] if people is None or region is None else [own_population(people, as_region(region), read or ReadOptions())]
    if datasets or own:
        return [*(load_dataset(name, folder) for name in _ORDER if name in (datasets or ())), *own]
    found = []
    for name in _ORDER:
        if name in (DatasetName.GAUSSIAN, DatasetName.BETA) or find_check_ins(name, folder) is not None:
            found.append(load_dataset(name, folder))
        elif warn:
            warn(f"without {name.value}, of which no file was found: 'nearveil datasets' says how to get it")
    return found


def own_population(people: str | Path | FloatArray, region: Region, read: ReadOptions) -> Dataset:
    """Return one's own people, one at each place, called by the stem of their file."""
    name = "people"
    if isinstance(people, str | Path):
        path = Path(people)
        name = "people" if is_standard(path) else path.name[: len(path.name) - len(extension_of(path))]
        people = read_people(path, read, carry=False, region=region).points
    if name in list(DatasetName):
        raise UsageError(f"{name} is a population of the paper; give the file of your own people another name")
    places = (region.clip if read.clip else region.check)(people)
    return Dataset(name, region, np.unique(places, axis=0), _OWN_SOURCE)


def _mechanisms(given: Sequence[str | type[Mechanism]], part: str) -> tuple[str, ...]:
    if given and part not in (ALL, "frontier"):
        raise UsageError(f"a mechanism of your own goes on the frontier, and not into {part}; leave it out")
    entries = dict.fromkeys(mechanism_entry(one) if isinstance(one, str) else entry_of_class(one) for one in given)
    # Ours are there already.
    others = [entry for entry in entries if not entry.is_own]
    if others:
        _refuse_twins([entry.label for entry in others], [family.label for family in all_families()])
    return tuple(entry.name for entry in others)


def _attacks(given: Sequence[str | type[Attack]], part: str) -> tuple[str, ...]:
    if given and part not in (ALL, "table1"):
        raise UsageError(f"an attack of your own goes into table1, and not into {part}; leave it out")
    found = tuple(one for one in dict.fromkeys(map(attack_reference, given)) if one not in ATTACKS)
    _refuse_twins([attack_class(one).name for one in found], list(ATTACKS))
    return found


def _refuse_twins(names: Sequence[str], taken: Sequence[str]) -> None:
    twin = next((name for number, name in enumerate(names) if name in taken or name in names[:number]), None)
    if twin is not None:
        raise UsageError(f"two of them are called {twin!r}; give your class another name")


# What a report was made with, and what to bear in mind.


def facts_of(scope: Scope, usual: Size) -> list[tuple[str, str]]:
    """Return versions, sizes, seed and data, as a reader would need them to do it again."""
    own = [one for one in scope.datasets.values() if one.source == _OWN_SOURCE]
    papers = [name for name, one in scope.datasets.items() if one.source != _OWN_SOURCE]
    again = ["nearveil reproduce", *(["--quick"] if scope.quick else []), f"--seed {scope.seed}"]
    again += [f"--runs {scope.runs}"] if scope.runs != usual.runs else []
    again += [f"--instances {scope.instances}"] if scope.instances != usual.instances else []
    if own or len(papers) < len(DatasetName):
        again += [f"--dataset {name}" for name in papers]
    again += ["--input FILE --region REGION"] if own else []
    again += [f"--mechanism {name}" for name in scope.mechanisms] + [f"--attack {name}" for name in scope.attacks]
    again += ["--data-dir DIR"] if any(scope.datasets[name].source != "generated" for name in papers) else []
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
    return [*facts, *((f"Data: {name}", _data_words(one)) for name, one in scope.datasets.items())]


def _data_words(dataset: Dataset) -> str:
    words = f"{dataset.source}, {len(dataset.places):,} places"
    # A digest of one's own people would confirm a guess of them.
    if dataset.source == _OWN_SOURCE:
        return f"{words} in {dataset.region}"
    return f"{words}, digest {data_fingerprint(dataset)[:_SHOWN]}"


def warnings_of(scope: Scope) -> list[str]:
    """Return what a reader must know before anything else."""
    found = []
    own = [name for name, one in scope.datasets.items() if one.source == _OWN_SOURCE]
    if own:
        found.append(
            f"{own[0]}: all its figures are computed from true places, and Table 2 draws them on a map. No guarantee "
            "covers this report; keep it to yourself and do not publish it."
        )
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
    if missing and len(missing) < len(DatasetName):
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
