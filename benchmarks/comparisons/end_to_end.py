"""``nearveil protect`` on files beside Polars, which copies or shuffles them unchanged: seconds and memory."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.command import COMMAND, run_watched
from benchmarks.measuring.people import REGION, city_piece, people_in_degrees
from benchmarks.measuring.results import Absent, Alone, Beside, Effort, Result
from benchmarks.measuring.timing import Contender, OwnSeconds, in_turns
from nearveil import build_pic_intervals
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.intervals import PAPER_CENTRES
from nearveil.mechanisms.step_channel import calibrated

SHUFFLED, KEPT = "planar Laplace, in random order", "planar Laplace, order kept"
GIVEN, AMONG = "intervals given, order kept", "hidden among 100, cells given, order kept"
COPYING, SHUFFLING = "Polars copying the file", "Polars shuffling the file"
PEERS = {SHUFFLED: SHUFFLING, KEPT: COPYING, GIVEN: COPYING, AMONG: COPYING}
MOST_TIME = {
    (".parquet", SHUFFLED): 2.0,
    (".parquet", KEPT): 3.0,
    (".parquet", GIVEN): 10.0,
    (".parquet", AMONG): 5.0,
}
USERS_ROWS, USERS_MOST_S = 10_000_000, 90.0
FIT_ROWS, FIT_MOST_S, FIT_MOST_GB = 1_000_000, 30.0, 2.0
REMEDY = "install polars"
LARGE_ROWS, LARGE_MOST_S, LARGE_MOST_GB = 100_000_000, 180.0, 2.0
_PIECE_ROWS = 1_000_000


@dataclass
class _Watched:
    """A command that is run again and again, and the most memory that it took."""

    command: list[str]
    output: Path
    peak_gb: float = 0.0
    seconds: list[float] = field(default_factory=list)

    def __call__(self) -> OwnSeconds:
        self.output.unlink(missing_ok=True)
        run = run_watched(self.command)
        self.peak_gb = max(self.peak_gb, run.peak_gb)
        return OwnSeconds(run.seconds)


def compare(effort: Effort) -> Iterator[Result]:
    """Compare Parquet and CSV: the default, which shuffles, and with the order kept DPRS and hiding among people."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        ways = _ways(_write_intervals(folder), _write_cells(folder))
        for suffix, full, quick in ((".parquet", 10_000_000, 1_000_000), (".csv", 1_000_000, 100_000)):
            effort.tell(f"writing people{suffix}")
            source = write_people(folder / f"people{suffix}", effort.of(full, quick))
            yield from _compare(effort, source, ways, effort.of(full, quick))
            source.unlink()
        yield from _several_rows(effort, folder)
        yield from _cells_fitted(effort, folder)
        if effort.large:
            yield from _large(effort, folder, ways)


def _compare(effort: Effort, source: Path, ways: dict[str, list[str]], rows: int) -> Iterator[Result]:
    output = source.with_name(f"out{source.suffix}")
    runs = {name: _Watched([*_protect(source, output), *more], output) for name, more in ways.items()}
    if find_spec("polars"):
        runs[COPYING] = _Watched([sys.executable, "-c", _copy_with_polars(source, output)], output)
        runs[SHUFFLING] = _Watched([sys.executable, "-c", _shuffle_with_polars(source, output)], output)
    times = in_turns([Contender(name, run) for name, run in runs.items()], effort.of(5, 1), effort.tell)
    for name, peer in PEERS.items():
        what = f"nearveil protect, {rows:,} rows of {_format(source)}, {name}"
        if peer in times:
            limit = effort.limit(MOST_TIME.get((source.suffix, name)))
            yield Beside(
                what=what, peer=peer, ours=times[name], theirs=times[peer], unit="file", most_time=limit,
                told_as_time=True,
            )  # fmt: skip
        else:
            yield Absent(what=what, peer=peer, remedy=REMEDY)
        yield Alone(what=f"{what}: memory", value=runs[name].peak_gb, unit="GB")
    for peer in (name for name in runs if name not in PEERS):
        yield Alone(what=f"{peer}, {rows:,} rows of {_format(source)}: memory", value=runs[peer].peak_gb, unit="GB")


def _several_rows(effort: Effort, folder: Path) -> Iterator[Result]:
    """Five rows of each user, who get one location per place."""
    rows = effort.of(USERS_ROWS, 100_000)
    source, output = write_people(folder / "users.parquet", rows, rows_each=5), folder / "users-out.parquet"
    run = run_watched([*_protect(source, output), "--user", "id"])
    what = f"nearveil protect, {rows:,} rows of Parquet, {rows // 5:,} users"
    yield Alone(what=what, value=run.seconds, unit="s", most=effort.limit(USERS_MOST_S))
    yield Alone(what=f"{what}: memory", value=run.peak_gb, unit="GB")
    source.unlink()


def _cells_fitted(effort: Effort, folder: Path) -> Iterator[Result]:
    """Private cells from everybody in the file, and the release."""
    rows = effort.of(FIT_ROWS, 100_000)
    source, output = write_people(folder / "fitted.parquet", rows), folder / "fitted-out.parquet"
    run = run_watched([*_protect(source, output), "--hide-among", "100", "--region", str(REGION.name)])
    what = f"nearveil protect, {rows:,} rows of Parquet, hidden among 100, cells fitted"
    yield Alone(what=what, value=run.seconds, unit="s", most=effort.limit(FIT_MOST_S))
    yield Alone(what=f"{what}: memory", value=run.peak_gb, unit="GB", most=effort.limit(FIT_MOST_GB))


def _large(effort: Effort, folder: Path, ways: dict[str, list[str]]) -> Iterator[Result]:
    """A file that does not fit into the memory that is allowed."""
    effort.tell(f"writing {LARGE_ROWS:,} rows")
    source, output = write_people(folder / "large.parquet", LARGE_ROWS), folder / "large-out.parquet"
    for name, more in ways.items():
        what = f"nearveil protect, {LARGE_ROWS:,} rows of Parquet, {name}"
        effort.tell(what)
        output.unlink(missing_ok=True)
        run = run_watched([*_protect(source, output), *more])
        yield Alone(what=what, value=run.seconds, unit="s", most=LARGE_MOST_S)
        yield Alone(what=f"{what}: memory", value=run.peak_gb, unit="GB", most=LARGE_MOST_GB)


def _ways(intervals: Path, cells: Path) -> dict[str, list[str]]:
    """Options of the releases that are compared."""
    return {
        SHUFFLED: [],
        KEPT: ["--keep-order"],
        GIVEN: ["--intervals", str(intervals), "--keep-order"],
        AMONG: ["--cells", str(cells), "--keep-order"],
    }


def write_people(target: Path, rows: int, rows_each: int = 1) -> Path:
    """Write synthetic users: id, latitude, longitude; a piece at a time."""
    schema = pa.schema([("id", pa.int64()), ("latitude", pa.float64()), ("longitude", pa.float64())])
    writer = pa.csv.CSVWriter(target, schema) if target.suffix == ".csv" else pq.ParquetWriter(target, schema)
    with writer:
        for first in range(0, rows, _PIECE_ROWS):
            latitude, longitude = np.ascontiguousarray(city_piece(first, rows).T)
            ids = np.arange(first, first + len(latitude)) % (rows // rows_each)
            writer.write_table(pa.table([ids, latitude, longitude], schema=schema))
    return target


def _write_intervals(folder: Path) -> Path:
    intervals = build_pic_intervals(people_in_degrees(200_000), region=REGION, scale=34.5, centres=PAPER_CENTRES)
    target = folder / "intervals.json"
    target.write_text(intervals.to_json(), encoding="utf-8")
    return target


def _write_cells(folder: Path) -> Path:
    cells = cells_from_points(people_in_degrees(200_000), REGION, CellPlan(hide_among=100))
    target = folder / "cells.parquet"
    calibrated(cells).save(target)
    return target


def _protect(source: Path, output: Path) -> list[str]:
    return [*COMMAND, "protect", str(source), str(output), "--json"]


def _copy_with_polars(source: Path, output: Path) -> str:
    kind = source.suffix.removeprefix(".")
    return f"import polars; polars.scan_{kind}({json.dumps(str(source))}).sink_{kind}({json.dumps(str(output))})"


def _shuffle_with_polars(source: Path, output: Path) -> str:
    kind, here, there = source.suffix.removeprefix("."), json.dumps(str(source)), json.dumps(str(output))
    return f"import polars; polars.read_{kind}({here}).sample(fraction=1, shuffle=True).write_{kind}({there})"


def _format(source: Path) -> str:
    return {".parquet": "Parquet", ".csv": "CSV"}[source.suffix]
