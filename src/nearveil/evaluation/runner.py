"""Runs the cells of experiments: on all cores, each kept when it is finished, none measured twice.

A cell is one measurement on one population, with everything that it depends on (`nearveil.evaluation.cells`).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import nearveil
from nearveil.attacks.registry import attack_class
from nearveil.errors import OutputError, UsageError
from nearveil.evaluation.workers import map_in_processes
from nearveil.io.datasets import Dataset
from nearveil.plugins import code_digest
from nearveil.region import named_region

Result = Mapping[str, Any]
"""What a cell measured: names and numbers, or lists of numbers."""

NOBODY = "nobody"

_SEED_STEP = 1_000_003


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(ABC):
    """One measurement. Equal cells give equal results, but for seconds.

    Attributes
    ----------
    dataset : str
        The population, by name; `NOBODY` where none is needed.
    seed, run : int
        Of the whole report, and which repetition this is.
    """

    dataset: str
    seed: int
    run: int

    @abstractmethod
    def measure(self, dataset: Dataset) -> dict[str, Any]:
        """Do the work."""

    @property
    @abstractmethod
    def seconds(self) -> float:
        """About how long it takes, for the time left on the progress bar and to start long ones first."""

    @property
    def alone(self) -> bool:
        """Whether nothing else may run meanwhile, because it measures time."""
        return False

    @property
    def run_seed(self) -> int:
        """Seed of the noise in this run."""
        return self.seed * _SEED_STEP + self.run * 7919

    def rng(self, *purpose: int) -> np.random.Generator:
        """Randomness of this run for one purpose: the same for every defence, so that they meet the same people."""
        return np.random.default_rng([self.run_seed, *purpose])

    @property
    def others_code(self) -> tuple[str, ...]:
        """Digests of somebody else's classes that are measured."""
        defence, attack = getattr(self, "defence", None), getattr(self, "attack", None)
        classes = [] if defence is None else [defence.entry.mechanism]
        classes += [] if attack is None else [attack_class(attack)]
        return tuple(filter(None, map(code_digest, classes)))

    def key(self, circumstances: str) -> str:
        """Name the cell's result, under circumstances such as the code and the data."""
        about = asdict(self)
        if isinstance(about.get("defence"), dict):
            about["defence"].pop("label")  # what it is called does not change what it does
        record = json.dumps([circumstances, type(self).__name__, about, self.others_code], sort_keys=True)
        return hashlib.sha256(record.encode()).hexdigest()[:32]


# What results depend on besides their cell: the code that measures, and the people it measures.


# How results are shown does not change them.
_NOT_MEASURING = ("cli", "client", "release", "report", "server")
_NOT_MEASURING_EITHER = (("evaluation", "planning"), ("io", "download.py"))
_EXPERIMENTS = ("evaluation", "experiments")
# Of the experiments, those with cells of their own; the others choose cells, and what they say can be reworded.
_MEASURING_EXPERIMENTS = ("figure8.py", "services.py")
_LIBRARIES = ("numpy", "scipy", "numba")


@cache
def code_fingerprint() -> str:
    """Return a digest of everything that measures, so that results of older code are not taken for new ones."""
    root = Path(nearveil.__file__).parent
    digest = hashlib.sha256(" ".join(metadata.version(name) for name in _LIBRARIES).encode())
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if _measures(inside):
            digest.update(str(inside).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _measures(inside: Path) -> bool:
    if inside.parts[:2] == _EXPERIMENTS:
        return inside.name in _MEASURING_EXPERIMENTS
    return inside.parts[0] not in _NOT_MEASURING and inside.parts[:2] not in _NOT_MEASURING_EITHER


def data_fingerprint(dataset: Dataset) -> str:
    """Return a digest of a population."""
    return hashlib.sha256(dataset.places.tobytes()).hexdigest()


def circumstances_of(dataset: Dataset) -> str:
    """Return what the results of a population's cells are kept under."""
    return f"{code_fingerprint()} {data_fingerprint(dataset)}"


# Finished cells on disk: one line each, so that whatever is killed goes on where it was.


_MARK = 16
_ELSEWHERE = "choose another folder with --out"


class CellJournal:
    """Results by key. A line that is damaged, or was not written to its end, is measured again.

    Parameters
    ----------
    stream : file
        Open for reading and appending, under an exclusive lock.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._found = self._read()

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._found[key]

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result; once this returns, ending the process does not lose it."""
        record = json.dumps({"key": key, "result": result}, allow_nan=True).encode()
        try:
            self._stream.write(_mark(record) + b" " + record + b"\n")
            self._stream.flush()
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else (error.strerror or "the system refused")
            raise OutputError(f"finished work cannot be kept: {reason}; free some space and run it again") from None
        self._found[key] = json.loads(record)["result"]

    def _read(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        self._stream.seek(0)
        end = 0
        for line in self._stream:
            # What has no end was being written when the process ended.
            if not line.endswith(b"\n"):
                break
            mark, _, record = line.rstrip(b"\n").partition(b" ")
            if mark == _mark(record):
                document = json.loads(record)
                found[document["key"]] = document["result"]
            else:
                self._refuse_strangers(end)
            end += len(line)
        self._stream.seek(end)
        self._stream.truncate()
        return found

    @staticmethod
    def _refuse_strangers(end: int) -> None:
        """A file that begins with something else is somebody's; a damaged line further on is measured again."""
        if end == 0:
            raise UsageError(f"there is a file in this folder that only looks like finished work; {_ELSEWHERE}")


def _mark(record: bytes) -> bytes:
    return hashlib.sha256(record).hexdigest()[:_MARK].encode()


@contextmanager
def open_journal(path: Path) -> Iterator[CellJournal]:
    """Open a journal for this process alone; made if it is not there."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}; choose another folder with --out") from None
    with os.fdopen(descriptor, "r+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another run is writing to {path.parent}; wait for it, or choose another folder with --out"
            ) from None
        yield CellJournal(stream)


# Measure cells on all cores, keep each as it is finished, and measure none twice.


SecondsDone = Callable[[float], None]
"""Called with about how many seconds of work were just finished."""


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    cell: Cell
    dataset: Dataset

    def do(self) -> dict[str, Any]:
        return self.cell.measure(self.dataset)


def run_cells(
    cells: Iterable[Cell],
    datasets: Mapping[str, Dataset],
    journal: CellJournal,
    *,
    cores: int,
    progress: SecondsDone | None = None,
) -> dict[Cell, Result]:
    """Return the results of all cells; those that the journal has are not measured again."""
    datasets = {**datasets, NOBODY: Dataset(NOBODY, named_region("san-francisco"), np.empty((0, 2)))}
    circumstances = {name: circumstances_of(dataset) for name, dataset in datasets.items()}
    keys = {cell: cell.key(circumstances[cell.dataset]) for cell in cells}
    missing = [cell for cell, key in keys.items() if key not in journal]
    # Long ones first, so that no core is left alone with one at the end.
    missing.sort(key=lambda cell: -cell.seconds)
    if progress:
        progress(sum(cell.seconds for cell in keys.keys() - set(missing)))
    for together in (False, True):
        part = [cell for cell in missing if cell.alone != together]
        work = [_Work(cell, datasets[cell.dataset]) for cell in part]
        # Closed at once if a result cannot be kept, so that no process works in vain.
        with closing(map_in_processes(_Work.do, work, cores=cores if together else 1)) as finished:
            for index, result in finished:
                journal.add(keys[part[index]], result)
                if progress:
                    progress(part[index].seconds)
    return {cell: journal[key] for cell, key in keys.items()}
