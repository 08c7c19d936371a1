"""``nearveil protect`` on files in batches: memory stays bounded, and a run that is cut short leaves no result."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Run

PLANAR = ("--mechanism", "planar-laplace")
# Protects one file after the other, and prints the peak of its memory in kilobytes after each.
# The kernel's own figure since the program began; getrusage would count what the test had before it, too.
WATCHED = """
import sys
from pathlib import Path
from nearveil.cli.main import main
from nearveil.io import parquet_file
from nearveil.release import row_shuffle
row_shuffle._HELD_BYTES = 1 << 24
parquet_file._ROW_GROUP_ROWS = 1 << 18
sources, options = sys.argv[1:3], sys.argv[3:]
for path in sources:
    sys.argv = ["nearveil", "protect", path, path + ".parquet", *options]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code
    print("peak", Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""
# Stops itself in the middle, in batches of few people: right when rows are taken in, or when some were written.
CUT_SHORT = """
import os, sys
from nearveil.cli.main import main
from nearveil.io import csv_file, geojson_file, parquet_file
from nearveil.release import row_shuffle
number, moment = int(sys.argv.pop(1)), sys.argv.pop(1)
row_shuffle._ROWS_AT_ONCE = parquet_file._BATCH_ROWS = parquet_file._ROW_GROUP_ROWS = 1 << 14

def stopping(method):
    def stop_at_the_second(self, batch):
        method(self, batch)
        begun.append(batch)
        if len(begun) == 2:
            os.kill(os.getpid(), number)
    return stop_at_the_second

begun = []
if moment == "reading":
    row_shuffle.RowShuffle.take = stopping(row_shuffle.RowShuffle.take)
else:
    for writer in (csv_file.CsvWriter, geojson_file.GeoJsonWriter, parquet_file.ParquetWriter):
        writer.write = stopping(writer.write)
main()
"""


def people(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {"id": np.arange(rows), "lat": rng.uniform(37.55, 37.85, rows), "lon": rng.uniform(-122.55, -122.25, rows)}
    )


def peaks_mb(sources: list[Path]) -> list[float]:
    # What is freed is given back at once, so that a peak is what was in use, and not what was kept for later.
    environment = {
        **os.environ,
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "2",
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "131072",
    }
    command = [sys.executable, "-c", WATCHED, *map(str, sources), *PLANAR]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [int(line.split()[1]) / 1024 for line in result.stdout.splitlines() if line.startswith("peak")]


def write_rows(path: Path, rows: int) -> None:
    if path.suffix == ".csv":
        lines = b"".join(b"%d,37.7%04d,-122.4%04d\n" % (row, row % 7919, row % 6007) for row in range(50_000))
        with path.open("wb") as file:
            file.write(b"number,lat,lon\n")
            for _ in range(rows // 50_000):
                file.write(lines)
        return
    pq.write_table(people(rows).rename_columns(["number", "lat", "lon"]), path)


@pytest.mark.parametrize(("suffix", "few", "many"), [("parquet", 2, 5), ("csv", 1, 3)])
def test_several_times_the_rows_take_no_more_memory(suffix: str, few: int, many: int, tmp_path: Path) -> None:
    """Every million more would take 16 MB in memory for their true places alone. There are no ids, which are held."""
    sources = [tmp_path / f"{millions}.{suffix}" for millions in (few, many)]
    for path, millions in zip(sources, (few, many), strict=True):
        write_rows(path, millions * 1_000_000)
    peak, later = peaks_mb(sources)
    # Batches in flight, some on every core, take up to 20 MB each, and the smaller file may not fill all of them.
    assert later - peak < (many - few) * (7.5 + 2.5 * (os.cpu_count() or 1))


@pytest.fixture(scope="module")
def many_people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many that they take several batches, and that quantiles of their moves come from a sample."""
    path = tmp_path_factory.mktemp("many") / "in.parquet"
    pq.write_table(people(150_000), path)
    return path


def cut_short(number: signal.Signals, moment: str, source: Path, output: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CUT_SHORT, str(int(number)), moment, "protect", str(source), str(output), *PLANAR]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["out.csv", "out.geojson", "out.parquet"])
def test_killed_in_the_middle_there_is_no_result(name: str, many_people: Path, tmp_path: Path) -> None:
    """What is left is hidden, is called partial, and holds published places only."""
    ended = cut_short(signal.SIGKILL, "writing", many_people, tmp_path / name)
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".")
    assert ".partial" in left.name
    assert left.stat().st_size > 100_000


@pytest.mark.parametrize(
    ("number", "moment", "name"),
    [(signal.SIGINT, "reading", "out.geojson"), (signal.SIGTERM, "writing", "out.parquet")],
)
def test_stopped_in_the_middle_nothing_is_left(
    number: signal.Signals, moment: str, name: str, many_people: Path, tmp_path: Path
) -> None:
    ended = cut_short(number, moment, many_people, tmp_path / name)
    assert ended.returncode == 130
    assert ended.stderr.strip() == "error: stopped; no file was left half written"
    assert list(tmp_path.iterdir()) == []


def test_damage_in_the_middle_leaves_nothing(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "in.parquet"
    pq.write_table(people(600_000), source, row_group_size=100_000)
    data, column = bytearray(source.read_bytes()), pq.ParquetFile(source).metadata.row_group(5).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    data[start : start + 1000] = b"\xff" * 1000
    source.write_bytes(data)
    outcome = run("protect", source, tmp_path / "out.csv", *PLANAR)
    assert (outcome.code, outcome.out) == (3, "")
    assert "is damaged, cut short or no Parquet file" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_people_who_repeat_in_another_batch_are_refused(run: Run, tmp_path: Path) -> None:
    table = people(300_000)
    table = table.set_column(0, "id", pa.array([*range(299_999), 4]))
    pq.write_table(table, tmp_path / "in.parquet")
    outcome = run("protect", tmp_path / "in.parquet", tmp_path / "out.csv", *PLANAR, "--person", "id")
    assert (outcome.code, "row 300000 has the same 'id' as row 5" in outcome.err) == (3, True)
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]
    warned = run("protect", tmp_path / "in.parquet", tmp_path / "out.csv", *PLANAR, "--json")
    assert "column 'id' looks like a person's id and repeats" in warned.err
    assert json.loads(warned.out)["epsilon_holds"] is False
