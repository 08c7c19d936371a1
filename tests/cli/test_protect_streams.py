"""``nearveil protect`` on files in batches: memory stays bounded, and a run that is cut short leaves no result."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearveil.io.files import read_people
from nearveil.types import FloatArray
from tests.cli.conftest import Run

COMMAND = [sys.executable, "-c", "from nearveil.cli.main import main; main()"]
PLANAR = ("--mechanism", "planar-laplace")
# Prints its own peak memory in kilobytes at the end.
# The kernel's own figure since the program began; getrusage would count what the test had before it, too.
WATCHED = """
from pathlib import Path
from nearveil.cli.main import main
from nearveil.release import row_shuffle
row_shuffle._HELD_BYTES = 1 << 25
try:
    main()
finally:
    print("peak", Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


def people(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {"id": np.arange(rows), "lat": rng.uniform(37.55, 37.85, rows), "lon": rng.uniform(-122.55, -122.25, rows)}
    )


def peak_mb(source: Path, *options: str) -> float:
    command = [sys.executable, "-c", WATCHED, "protect", str(source), str(source.with_name("out.parquet")), "--force"]
    # Memory of one thread is not given back to another: with few of them there is less to tell apart.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
    result = subprocess.run([*command, *options], capture_output=True, text=True, check=True, env=environment)
    return int(result.stdout.split("peak")[-1]) / 1024


def write_rows(path: Path, rows: int) -> None:
    """Ids in Parquet are in no order, so that all of them are compared."""
    if path.suffix == ".csv":
        lines = b"".join(b"%d,37.7%04d,-122.4%04d\n" % (row, row % 7919, row % 6007) for row in range(50_000))
        with path.open("wb") as file:
            file.write(b"number,lat,lon\n")
            for _ in range(rows // 50_000):
                file.write(lines)
        return
    shuffled = np.random.default_rng(2).permutation(rows)
    pq.write_table(people(rows).set_column(0, "id", pa.array(shuffled)), path)


@pytest.mark.parametrize(("name", "millions"), [("in.parquet", 10), ("in.csv", 6)])
def test_several_times_the_rows_take_no_more_memory(name: str, millions: int, tmp_path: Path) -> None:
    """Every million more would take 16 MB in memory for their true places alone, and 8 MB for ids to compare."""
    few = 2
    peaks = []
    for size in (few, millions):
        write_rows(tmp_path / name, size * 1_000_000)
        peaks.append(peak_mb(tmp_path / name, *PLANAR))
    # Batches in flight, some on every core, take up to 20 MB each, and the smaller file may not fill all of them.
    assert peaks[1] - peaks[0] < (millions - few) * (7.5 + 2.5 * (os.cpu_count() or 1))


@pytest.fixture(scope="module")
def many_people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many that writing them takes a while."""
    path = tmp_path_factory.mktemp("many") / "in.parquet"
    pq.write_table(people(1_500_000), path)
    return path


def ended_before(process: subprocess.Popen[str], started: Callable[[], bool]) -> bool:
    """Wait until something has started; whether the process ended before that."""
    while not started():
        try:
            process.wait(timeout=0.002)
        except subprocess.TimeoutExpired:
            continue
        return True
    return False


@pytest.mark.parametrize("name", ["out.csv", "out.geojson", "out.parquet"])
def test_killed_in_the_middle_there_is_no_result(name: str, many_people: Path, tmp_path: Path) -> None:
    """What is left is hidden, is called partial, and holds published places only."""
    command = [*COMMAND, "protect", str(many_people), str(tmp_path / name), *PLANAR]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True) as process:
        assert not ended_before(
            process, lambda: any(part.stat().st_size > 100_000 for part in tmp_path.glob(".*.partial*"))
        )
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 1
    assert left[0].startswith(".")
    assert ".partial" in left[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_the_middle_nothing_is_left(number: int, many_people: Path, tmp_path: Path) -> None:
    command = [*COMMAND, "protect", str(many_people), str(tmp_path / "out.parquet"), *PLANAR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert not ended_before(process, lambda: any(tmp_path.glob(".*.partial*")))
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == "error: stopped; no file was left half written"
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


def test_quantiles_of_many_are_close(run: Run, many_people: Path, tmp_path: Path) -> None:
    figures = tmp_path / "true.json"
    run("protect", many_people, tmp_path / "out.parquet", *PLANAR, "--true-figures", figures)
    moved = json.loads(figures.read_text())["displacement_m"]
    # Gamma(2) lengths with a mean of 500 m; a few are clamped to the region's edge.
    assert moved["mean"] == pytest.approx(500, rel=0.02)
    assert moved["p50"] == pytest.approx(419.6, rel=0.02)
    assert moved["p95"] == pytest.approx(1186, rel=0.02)


def test_plain_parquet_stays_plain(run: Run, tmp_path: Path, city: FloatArray) -> None:
    pq.write_table(people(1000), tmp_path / "in.parquet")
    assert run("protect", tmp_path / "in.parquet", tmp_path / "out.parquet", *PLANAR).code == 0
    assert pq.read_schema(tmp_path / "out.parquet").names == ["id", "lat", "lon"]
    assert len(read_people(tmp_path / "out.parquet")) == 1000


def test_only_what_is_needed_is_loaded(tmp_path: Path) -> None:
    pq.write_table(people(1000), tmp_path / "in.parquet")
    script = f"""
import sys
from nearveil.cli.main import main
sys.argv = ["nearveil", "protect", {str(tmp_path / "in.parquet")!r}, {str(tmp_path / "out.parquet")!r}, *{PLANAR!r}]
try:
    main()
finally:
    print("loaded", *sorted({{"matplotlib", "fastapi", "plotly", "httpx", "psycopg", "pandas"}} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1].strip() == "loaded"
