"""Time Nearveil and its peers in turns, and show how they compare."""

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median

import psutil
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from nearveil.report.text_table import text_table

PACKAGES = ("nearveil", "numpy", "numba", "scipy", "scikit-learn", "polars", "psycopg", "redis")

Work = Callable[[], float]
"""Does the work once; returns the seconds that one item took."""


@dataclass(frozen=True, slots=True)
class Row:
    """Nearveil and a peer at the same work.

    Attributes
    ----------
    ours, theirs : list of float
        A measurement for each round.
    unit : str
        ``s`` for seconds, ``B`` for bytes.
    """

    name: str
    peer: str
    ours: list[float]
    theirs: list[float]
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer, or as small, the best of each."""
        return min(self.theirs) / min(self.ours)

    @property
    def median_ratio(self) -> float:
        """The same from medians."""
        return median(self.theirs) / median(self.ours)


def timed(work: Callable[[], object], items: int = 1) -> Work:
    """Measure work that does so many items."""

    def seconds_per_item() -> float:
        started = time.perf_counter()
        work()
        return (time.perf_counter() - started) / items

    return seconds_per_item


def in_turns(contenders: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Let contenders work in turns after a warm-up, so that a disturbance of the machine slows all of them.

    Every other round goes backwards, so that nobody always follows the one that leaves the caches cold.
    """
    for work in contenders.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            seconds[name].append(contenders[name]())
    return seconds


def machine() -> dict[str, object]:
    """Describe the machine and what is installed."""
    described = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(": ")[2] for line in described.splitlines() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_at_start": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }


def table(rows: Sequence[Row]) -> str:
    """Print rows as text."""
    cells = []
    for row in rows:
        show = EngFormatter(row.unit, places=1)
        ours, theirs = show(min(row.ours)), show(min(row.theirs))
        cells.append([row.name, row.peer, ours, theirs, f"{row.ratio:.3g}", f"{row.median_ratio:.3g}"])
    return text_table(["what", "peer", "Nearveil", "peer", "ratio", "of medians"], cells)


def draw_ratios(rows: Sequence[Row], target: Path) -> None:
    """Draw a bar for each row of seconds: to the right of 1 Nearveil is faster."""
    rows = [row for row in rows if row.unit == "s"]
    figure = Figure(figsize=(9, 1 + 0.4 * len(rows)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh([f"{row.name}\nbeside {row.peer}" for row in rows], [row.ratio - 1 for row in rows], left=1)
    axes.bar_label(bars, [f"{row.ratio:.3g}" for row in rows], padding=3)
    axes.set(xscale="log", xlabel="times as fast as the peer")
    axes.tick_params(axis="y", labelsize="x-small")
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    figure.savefig(target, dpi=150)
