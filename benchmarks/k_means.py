"""Private k-means beside scikit-learn's, which is not private, and diffprivlib's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.measure import Row, Work, in_turns, timed
from benchmarks.users import REGION, city
from nearveil import build_pic_intervals

CENTERS, ROUNDS, SCALE = 1000, 12, 34.5
# diffprivlib needs an older scikit-learn: a folder of its own that the worker's Python looks into first.
PINS = ("diffprivlib==0.6.4", "scikit-learn==1.4.2", "numpy==1.26.4", "scipy==1.13.1", "joblib==1.4.2")
FOLDER = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nearveil" / "bench-diffprivlib"
WORKER = """
import sys, time
import numpy
from diffprivlib.models import KMeans
points = numpy.load(sys.argv[1])
width, height = map(float, sys.argv[3:])
model = KMeans(n_clusters=int(sys.argv[2]), epsilon=1.0, bounds=([-width, -height], [width, height]))
started = time.perf_counter()
model.fit(points)
print(time.perf_counter() - started)
"""


def compare(scale: float, rounds: int) -> Iterator[Row]:
    """Compare whole fits: ours starts with degrees, the others with points."""
    count, ours, peer = round(1_000_000 * scale), "Nearveil", "scikit-learn, not private"
    times = in_turns({ours: _our_fit(count), peer: timed(lambda: _sklearn_fit(count))}, rounds)
    yield Row(_name(count), peer, times[ours], times[peer])
    # It chooses the number of rounds itself: 2 of this many points.
    count, peer = round(100_000 * scale), "diffprivlib"
    if not (FOLDER / peer).exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--target", str(FOLDER)]
        subprocess.run([*install, *PINS], check=True, capture_output=True)
    with TemporaryDirectory() as folder:
        points = Path(folder) / "points.npy"
        np.save(points, REGION.to_square(city(count)))
        times = in_turns({ours: _our_fit(count), peer: lambda: _diffprivlib_fit(points)}, rounds)
    yield Row(_name(count), peer, times[ours], times[peer])


def _name(count: int) -> str:
    return f"private k-means, {CENTERS:,} centers, {count:,} points"


def _our_fit(count: int) -> Work:
    users = city(count)
    return timed(lambda: build_pic_intervals(users, region=REGION, scale=SCALE, centres=CENTERS, rounds=ROUNDS))


def _sklearn_fit(count: int) -> None:
    points = REGION.to_square(city(count))
    KMeans(CENTERS, init="random", n_init=1, max_iter=ROUNDS, tol=0, algorithm="lloyd").fit(points)


def _diffprivlib_fit(points: Path) -> float:
    command = [sys.executable, "-c", WORKER, str(points), str(CENTERS), *map(str, REGION.half_extent_square)]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout)
