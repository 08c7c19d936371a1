"""What a report of a reproduction was made with, and what to bear in mind."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from nearveil.evaluation.experiments.scope import Scope
from nearveil.evaluation.runner import code_fingerprint, data_fingerprint
from nearveil.io.datasets import DatasetName

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
