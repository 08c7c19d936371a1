"""``nearveil protect`` on large files: seconds and memory against their limits."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from nearveil import named_region
from nearveil.io.synthetic import synthetic_city

COMMAND = [sys.executable, "-c", "from nearveil.cli.main import main; main()"]


def measure_command() -> list[str]:
    """1 M rows of CSV in 15 s and 1.5 GB; 10 M rows of Parquet in 30 s and 4 GB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pyarrow.csv.write_csv(_people(1_000_000), folder / "people.csv")
        pq.write_table(_people(10_000_000), folder / "people.parquet")
        return [
            _run("1 M rows of CSV", folder / "people.csv", 15, 1.5),
            _run("10 M rows of Parquet", folder / "people.parquet", 30, 4),
        ]


def _people(count: int) -> pa.Table:
    places = synthetic_city(count, named_region("san-francisco"), rng=1)
    return pa.table({"id": np.arange(count), "latitude": places[:, 0], "longitude": places[:, 1]})


def _run(what: str, source: Path, limit_s: float, limit_gb: float) -> str:
    output = source.with_name("out" + source.suffix)
    started = time.perf_counter()
    arguments = ["protect", str(source), str(output), "--json"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        watch = _PeakMemory(process.pid)
        document = json.loads(process.stdout.read() if process.stdout else "")
    seconds = time.perf_counter() - started
    assert document["rows"] > 0
    return (
        f"  {what:<24} {seconds:6.1f} s (limit {limit_s:g} s, {seconds / limit_s:.2f})   "
        f"{watch.peak_gb():5.2f} GB (limit {limit_gb:g} GB, {watch.peak_gb() / limit_gb:.2f})"
    )


class _PeakMemory:
    """Watches a process's memory until it ends."""

    def __init__(self, pid: int) -> None:
        self._peak = 0
        self._thread = threading.Thread(target=self._watch, args=(psutil.Process(pid),), daemon=True)
        self._thread.start()

    def _watch(self, process: psutil.Process) -> None:
        try:
            while process.is_running():
                self._peak = max(self._peak, process.memory_info().rss)
                time.sleep(0.02)
        except psutil.Error:
            return

    def peak_gb(self) -> float:
        return self._peak / 1e9
