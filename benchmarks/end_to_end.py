"""``nearveil protect`` on files: seconds and memory.

Beside noise that is added by hand in pandas, and beside Polars, which copies or shuffles the rows unchanged.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.measure import Row, in_turns
from benchmarks.process import NEARVEIL, Process
from benchmarks.users import PIECE, REGION, city, city_piece
from nearveil.mechanisms.fit_cells import CellPlan, cells_from_points
from nearveil.mechanisms.step_channel import calibrated

SHUFFLED, KEPT, BY_USER = "planar Laplace", "planar Laplace, order kept", "planar Laplace by user"
AMONG, FITTED = "hide among 100, order kept", "hide among 100, cells fitted"
COPY = "Polars copying", "import polars; polars.scan_{kind}({source!r}).sink_{kind}({output!r})"
SHUFFLE = (
    "Polars shuffling",
    "import polars; polars.read_{kind}({source!r}).sample(fraction=1, shuffle=True).write_{kind}({output!r})",
)
BY_HAND = (
    "pandas with noise by hand",
    """
import numpy, pandas
rows = pandas.read_{kind}({source!r}).sample(frac=1)
angle = numpy.random.default_rng().uniform(0, 2 * numpy.pi, len(rows))
away = numpy.random.default_rng().gamma(2, 250, len(rows)) / 111_195
north = rows["latitude"] + away * numpy.sin(angle)
rows["longitude"] += away * numpy.cos(angle) / numpy.cos(numpy.radians(rows["latitude"]))
rows["latitude"] = north
rows[["latitude", "longitude"]].to_{kind}({output!r}, index=False)
""",
)
PEERS = {SHUFFLED: [SHUFFLE, BY_HAND], KEPT: [COPY], BY_USER: [SHUFFLE], AMONG: [COPY], FITTED: [SHUFFLE]}
FILES = (
    ("parquet", 10_000_000, (SHUFFLED, KEPT, BY_USER, AMONG)),
    ("parquet", 1_000_000, (FITTED,)),
    ("csv", 1_000_000, (SHUFFLED,)),
)
_ROWS_PER_USER = 5


def compare(scale: float, rounds: int) -> Iterator[Row]:
    """Compare whole processes: start, read, protect, write."""
    with TemporaryDirectory() as name:
        cells = Path(name) / "cells.json"
        calibrated(cells_from_points(city(200_000), REGION, CellPlan(hide_among=100))).save(cells)
        options = {
            SHUFFLED: [],
            KEPT: ["--keep-order"],
            BY_USER: ["--user", "id"],
            AMONG: ["--cells", str(cells), "--keep-order"],
            FITTED: ["--hide-among", "100", "--region", str(REGION.name)],
        }
        for kind, full, ways in FILES:
            rows = round(full * scale)
            source = write_users(Path(name) / f"users.{kind}", rows)
            yield from _compare(source, rows, {way: options[way] for way in ways}, rounds)


def compare_start_up(_: float, rounds: int) -> Iterator[Row]:
    """Compare commands that have little to do."""
    ours, peer = "nearveil --help", "Python's own start"
    times = in_turns({ours: Process(*NEARVEIL, "--help"), peer: Process(sys.executable, "-c", "pass")}, rounds)
    yield Row(ours, peer, times[ours], times[peer])
    with TemporaryDirectory() as name:
        source = write_users(Path(name) / "users.csv", 1_000)
        yield from _compare(source, 1_000, {SHUFFLED: []}, rounds)


def write_users(target: Path, rows: int) -> Path:
    """Write synthetic users with several rows each: id, latitude, longitude; a piece at a time."""
    schema = pa.schema([("id", pa.int64()), ("latitude", pa.float64()), ("longitude", pa.float64())])
    writer = pa.csv.CSVWriter(target, schema) if target.suffix == ".csv" else pq.ParquetWriter(target, schema)
    with writer:
        for first in range(0, rows, PIECE):
            latitude, longitude = np.ascontiguousarray(city_piece(first, rows).T)
            ids = np.arange(first, first + len(latitude)) % (rows // _ROWS_PER_USER)
            writer.write_table(pa.table([ids, latitude, longitude], schema=schema))
    return target


def _compare(source: Path, rows: int, ways: dict[str, list[str]], rounds: int) -> Iterator[Row]:
    kind, output = source.suffix.removeprefix("."), str(source.with_name(f"out{source.suffix}"))
    runs = {way: Process(*NEARVEIL, "protect", str(source), output, "--force", *more) for way, more in ways.items()}
    for peer, code in (contender for way in ways for contender in PEERS[way]):
        runs[peer] = Process(sys.executable, "-c", code.format(kind=kind, source=str(source), output=output))
    times = in_turns(runs, rounds)
    for way, peer in [(each, peer) for each in ways for peer, _ in PEERS[each]]:
        what = f"protect, {rows:,} rows of {kind}, {way}"
        yield Row(what, peer, times[way], times[peer])
        yield Row(f"{what}: memory", peer, [runs[way].peak_bytes], [runs[peer].peak_bytes], "B")
