"""Reproduce the paper: its tables and figures measured again, on its populations or on one's own users.

`reproduce` measures, draws and writes. The page says what it was made with, and what to bear in mind.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from nearveil.attacks.base import Attack
from nearveil.attacks.registry import ATTACKS, attack_class, attack_reference
from nearveil.errors import DataError, OutputError, UsageError
from nearveil.evaluation import paper_numbers, studies
from nearveil.evaluation.studies.claims import verdicts
from nearveil.evaluation.study import Part, Scope, code_digest, measure
from nearveil.io.atomic import replacing
from nearveil.io.datasets import Dataset, DatasetName, find_check_ins, load_dataset
from nearveil.io.readers import STANDARD_STREAM, ReadOptions, extension_of, read_points
from nearveil.mechanisms.base import Mechanism
from nearveil.mechanisms.registry import MECHANISMS, entry_of_class, mechanism_entry
from nearveil.region import Region, as_region
from nearveil.report import beyond_figures, paper_figures
from nearveil.report.maps import population_map
from nearveil.report.page import Section, write_page
from nearveil.report.style import house_style, plain_ticks, save_png
from nearveil.report.tables import frame_markdown
from nearveil.types import FloatArray, ProgressBar, no_bar

PAPER, BEYOND = "paper", "beyond"
PARTS = (PAPER, *studies.PAPER, *studies.BEYOND, BEYOND)
"""What can be reproduced, by name."""
REPORT = "report.html"
FIGURES = paper_figures.FIGURES | beyond_figures.FIGURES
_KEPT = ".measured"

# In the order of the paper's tables.
_CHECK_INS = (DatasetName.BRIGHTKITE, DatasetName.GOWALLA)
_ORDER = (*_CHECK_INS, DatasetName.GAUSSIAN, DatasetName.BETA)
_OWN_SOURCE = "own users"
_LIBRARIES = ("numpy", "scipy", "numba", "pandas", "matplotlib")
_DIGEST_DIGITS = 12
_OUR_MECHANISMS = {*MECHANISMS, *(entry.label for entry in MECHANISMS.values())}
_Class = TypeVar("_Class")
# Runs, users attacked in each, and queries.
FULL = (5, 50, 2_000)
QUICK = (3, 20, 400)


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """What was measured again, and the files that were written, the page first.

    ``runs`` has a row of settings and results for each run of a part, ``tables`` what is read, in text, numbers and
    estimates with intervals, and ``verdicts`` the claims of the paper that were measured.
    """

    scope: Scope
    runs: dict[str, pd.DataFrame]
    tables: dict[str, pd.DataFrame]
    verdicts: pd.DataFrame
    files: tuple[Path, ...] = ()


def reproduce(
    part: str = PAPER,
    *,
    datasets: Sequence[str] | None = None,
    people: str | Path | FloatArray | None = None,
    region: Region | str | None = None,
    read: ReadOptions | None = None,
    data_dir: str | Path | None = None,
    mechanisms: Sequence[str | type[Mechanism]] = (),
    attacks: Sequence[str | type[Attack]] = (),
    theirs: str | Path | None = None,
    out: str | Path | None = None,
    runs: int | None = None,
    instances: int | None = None,
    quick: bool = False,
    seed: int = 1,
    cores: int | None = None,
    progress: ProgressBar | None = None,
    warn: Callable[[str], None] | None = None,
) -> Reproduction:
    """Reproduce the paper, or one of its tables and figures, or an experiment beyond it.

    Parameters
    ----------
    part : str
        ``paper``, ``table1`` or another part of it; ``frontier``, ``services``, ``year``, or ``beyond`` for all three.
    datasets : sequence of str, optional
        Populations of the paper; all that are at hand if neither these nor ``people`` are given.
    people : path, or array-like of shape (n, 2), optional
        Your own users, one at each location, called by the file's stem. What is written is computed from true
        locations, and Table 2 draws them on a map.
    region, read
        Of ``people``: the public region, and which columns of the file are what.
    data_dir : path, optional
        Folder with the check-ins of brightkite and gowalla.
    mechanisms, attacks : sequence of str or class
        Others' mechanisms for the frontier, and others' attacks for Table 1: ``file.py:Class``, or classes.
    theirs : path, optional
        What the authors' code gave, as CSV, to stand beside ours in Table 1 or 3: see `paper_numbers.theirs`.
    out : path, optional
        Folder for the page, tables, figures and raw results, where what is measured is kept and not measured again.
    runs, instances, quick, seed
        Runs with seeds of their own, and users attacked in each; whether to measure little and coarsely; the same seed
        gives the same numbers, except times.
    cores, progress, warn
        Processes to use (all cores by default); what gives a progress bar for each part; what is called with warnings.

    Examples
    --------
    >>> from nearveil.io.synthetic import synthetic_city
    >>> points = synthetic_city(900, as_region("san-francisco"), rng=1)
    >>> found = reproduce("table2", people=points, region="san-francisco", cores=1)
    >>> found.runs["table2"].places.tolist()
    [900]
    """
    if part not in PARTS:
        raise UsageError(f"there is no part {part!r}; choose one of {', '.join(PARTS)}")
    names = list({PAPER: studies.PAPER, BEYOND: studies.BEYOND}.get(part, [part]))
    usual = QUICK if quick else FULL
    beside = {} if theirs is None else paper_numbers.theirs(Path(theirs))
    if not beside.keys() <= set(names):
        raise UsageError(f"{theirs} has results for {', '.join(beside)}, which is not measured here; name it, or paper")
    populations = {one.name: one for one in _populations(datasets, people, region, read, data_dir, warn)}
    scope = Scope(
        datasets=tuple(populations), runs=runs or usual[0], instances=instances or usual[1], queries=usual[2],
        seed=seed, quick=quick, mechanisms=_others(mechanisms, "frontier", names, _named_mechanism, _OUR_MECHANISMS),
        attacks=_others(attacks, "table1", names, _named_attack, set(ATTACKS)),
    )  # fmt: skip
    parts = [studies.load(name) for name in names]
    if people is not None and not any(row["dataset"] in populations for one in parts for row in one.grid(scope)):
        raise UsageError(f"{part} is measured on no users; leave yours out")
    if people is not None and out is not None and warn:
        warn(f"the files in {out} are computed from true locations, and maps show them; do not publish")
    kept = None if out is None else _folder(Path(out)) / _KEPT
    measured, sections = {}, []
    for one in parts:
        try:
            with (progress or no_bar)(one.title, len(one.grid(scope))) as advance:
                used = cores or os.cpu_count() or 1
                found = measure(one, scope, populations, cores=used, folder=kept, progress=advance)
        except (DataError, UsageError) as error:
            # Users may be too few for one part and enough for others.
            if len(parts) == 1:
                raise
            sections.append(Section(one.name, one.title, problem=str(error)))
            (warn or str)(f"{one.title}: {error}")
            continue
        measured[one.name] = rows = found
        if one.name in beside:
            others = beside[one.name]
            strange = {*others["dataset"]} - {*_ORDER, *populations}
            if strange:
                raise UsageError(f"{theirs} has a data set {min(strange)!r}, which neither the paper nor this call has")
            rows = pd.concat([found, others[others["dataset"].isin(found["dataset"])]], ignore_index=True)
        with house_style():
            drawn = {} if out is None else _figures(one.name, rows, populations)
            sections.append(Section(one.name, one.title, one.tables(rows), drawn, one.facts(rows)))
    claims = verdicts(measured)
    if part != PAPER:
        claims = claims[~claims["verdict"].str.startswith("not measured")].reset_index(drop=True)
    tables = {name: table for each in sections for name, table in each.tables.items()}
    done = Reproduction(scope, measured, tables, claims)
    if out is None:
        return done
    about = _about(part, parts, scope, populations) | {"theirs": bool(beside)}
    with house_style():
        return replace(done, files=_write(Path(out), done, sections, about, private=people is not None))


def _folder(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / _KEPT).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {out} cannot be created: {error.strerror}") from None
    return out


def _write(
    folder: Path, done: Reproduction, sections: Sequence[Section], about: Mapping[str, Any], *, private: bool
) -> tuple[Path, ...]:
    """Write figures, tables, raw results and the page, and return their paths, the page first."""
    saves: dict[str, Callable[[Path], object]] = {}
    for one in sections:
        saves |= {f"{name}.png": partial(save_png, figure) for name, figure in one.figures.items()}
        for name, table in one.tables.items():
            saves[f"{name}.md"] = partial(Path.write_text, data=frame_markdown(table, one.title), encoding="utf-8")
        if one.name in done.runs:
            saves[f"{one.name}.csv"] = partial(done.runs[one.name].to_csv, index=False, lineterminator="\n")
    for name, save in saves.items():
        with replacing(folder / name, force=True, private=private) as path:
            save(path)
    claims, counts = done.verdicts, {name: len(found) for name, found in done.runs.items()}
    write_page(
        folder / REPORT,
        private=private,
        sections=sections,
        verdicts=claims if len(claims) else None,
        data=counts,
        **about,
    )
    return (folder / REPORT, *(folder / name for name in saves))


def _figures(name: str, runs: pd.DataFrame, populations: Mapping[str, Dataset]) -> dict[str, Figure]:
    found = FIGURES[name](runs) if name in FIGURES else {}
    for figure in found.values():
        plain_ticks(figure)
    maps = {f"table2-{one.name}": population_map(one) for one in populations.values() if name == "table2"}
    return found | maps


# Whom and what is measured.


def _populations(
    datasets: Sequence[str] | None, people: str | Path | FloatArray | None, region: Region | str | None,
    read: ReadOptions | None, data_dir: str | Path | None, warn: Callable[[str], None] | None,
) -> list[Dataset]:  # fmt: skip
    """Load what was asked for; if nothing was, whatever is there."""
    unknown = [name for name in datasets or () if name not in _ORDER]
    if unknown:
        raise UsageError(f"there is no population {unknown[0]!r}; the paper's are {', '.join(DatasetName)}")
    if people is not None and region is None:
        raise UsageError("name the public region of these users: region='berlin', a box, or a GeoJSON file")
    own = [] if people is None or region is None else [_own(people, as_region(region), read or ReadOptions())]
    folder = None if data_dir is None else Path(data_dir)
    missing = [name for name in _CHECK_INS if find_check_ins(name, folder) is None] if not (datasets or own) else []
    for name in missing:
        (warn or str)(f"without {name.value}, of which no file was found: 'nearveil datasets' says how to get it")
    chosen = datasets or ([] if own else [name for name in _ORDER if name not in missing])
    return [*(load_dataset(name, folder) for name in _ORDER if name in chosen), *own]


def _own(people: str | Path | FloatArray, region: Region, read: ReadOptions) -> Dataset:
    """Return your own users, one at each location, called by the stem of their file."""
    name = "people"
    if isinstance(people, str | Path):
        path = Path(people)
        name = "people" if str(path) == STANDARD_STREAM else path.name[: len(path.name) - len(extension_of(path))]
        people = read_points(path, read)
    if name in _ORDER:
        raise UsageError(f"{name} is a population of the paper; give the file of your own users another name")
    places = region.check(people)
    return Dataset(name, region, np.unique(places, axis=0), _OWN_SOURCE)


def _others(
    given: Sequence[_Class], part: str, parts: Sequence[str], named: Callable[[_Class], tuple[str, str]], ours: set[str]
) -> tuple[str, ...]:
    """Return names of others' classes to measure beside ours, which are told apart in tables by their labels."""
    if given and part not in parts:
        raise UsageError(f"a class of your own goes into {part}, and not into {parts[0]}; leave it out")
    labels = {name: label for name, label in map(named, given) if name not in ours}
    if len(ours.union(labels.values())) < len(ours) + len(labels):
        raise UsageError(f"two are called the same: {', '.join(labels.values())}; give your class another name")
    return tuple(labels)


def _named_mechanism(one: str | type[Mechanism]) -> tuple[str, str]:
    entry = mechanism_entry(one) if isinstance(one, str) else entry_of_class(one)
    return entry.name, entry.label


def _named_attack(one: str | type[Attack]) -> tuple[str, str]:
    return (reference := attack_reference(one)), attack_class(reference).name


# What the page says of how it was made.


def _about(part: str, parts: Sequence[Part], scope: Scope, populations: Mapping[str, Dataset]) -> dict[str, Any]:
    used = {row["dataset"] for one in parts for row in one.grid(scope)}
    made = {} if used <= populations.keys() else {name: own for one in parts for name, own in one.populations().items()}
    return {
        "title": "The paper, measured again" if part in (PAPER, *studies.PAPER) else "Beyond the paper",
        "scope": scope,
        "populations": [one for name, one in {**populations, **made}.items() if name in used and len(one.places)],
        "missing": [name.value for name in _ORDER if name.value not in used] if used & set(DatasetName) else [],
        "command": _command(part, scope, populations),
        "digest_of": lambda dataset: hashlib.sha256(dataset.places.tobytes()).hexdigest()[:_DIGEST_DIGITS],
        "made_with": {
            "Nearveil": f"{metadata.version('nearveil')}, code {code_digest()[:_DIGEST_DIGITS]}",
            "Python": ", ".join([platform.python_version(), *(f"{one} {metadata.version(one)}" for one in _LIBRARIES)]),
            "Machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
            "Date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        },
    }


def _command(part: str, scope: Scope, populations: Mapping[str, Dataset]) -> str:
    """Return the command that does it again."""
    paper = [name for name, one in populations.items() if one.source != _OWN_SOURCE]
    again = ["nearveil reproduce", part, *(["--quick"] if scope.quick else [])]
    again += [f"--{name} {getattr(scope, name)}" for name in ("seed", "runs", "instances")]
    again += [] if set(populations) == set(DatasetName) else [f"--dataset {name}" for name in paper]
    again += ["--input FILE --region REGION"] if len(paper) < len(populations) else []
    again += [f"--mechanism {name}" for name in scope.mechanisms] + [f"--attack {name}" for name in scope.attacks]
    return " ".join(again)
