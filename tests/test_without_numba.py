"""Where numba is absent, everything still works, and the same keystream publishes the same places."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Run twice: in a process that has no numba, and here.
WORK = """
import json, sys
import numpy as np
from nearveil import DPRS, PlanarLaplace, build_pic_intervals, named_region
from nearveil.io.synthetic import synthetic_city
from nearveil.nearby.index import NearbyIndex
from nearveil.nearby.published_index import PublishedIndex
from nearveil.nearby.stores.base import PublishedBatch
from nearveil.randomness import NumberedRows
from nearveil import kernels

region = named_region("san-francisco")
city = np.loadtxt(sys.argv[1])
rows = NumberedRows(bytes(range(16)), 0, len(city))
found = {"compiled": kernels.COMPILED}
intervals = build_pic_intervals(city, region=region, scale=2.0, centres=40, rounds=3, rng=1)
found["centres"] = intervals.centres.tolist()
# The bound that calibrates Laplace noise for the release interval takes long without a compiler; its draws do not.
for release, noise in (("paper", "laplace"), ("paper", "gaussian"), ("interval", "gaussian")):
    for epsilon in (0.5, 40.0):
        dprs = DPRS(release=release, noise=noise, epsilon=epsilon, intervals=intervals)
        found[f"{release} {noise} {epsilon}"] = dprs.perturb_rows(city, rows).tolist()
found["metric"] = DPRS(release="metric", intervals=intervals).perturb_rows(city, rows).tolist()
found["planar"] = PlanarLaplace(region=region).perturb_rows(city, rows).tolist()
metres = region.to_metres(city)
index = NearbyIndex(region.half_extent_m, list(range(len(city))), metres, rng=1)
found["index"] = [index.ranked(metres[row], k=5) for row in range(0, 200, 10)]
live = PublishedIndex(region)
steps = np.rint(metres / 0.125).astype(np.int64)
live.load([PublishedBatch([f"p{row}" for row in range(len(city))], steps)], lambda whole: whole * 0.125, bytes(16))
live.move("p3", 0.0, 0.0)
found["live"] = [live.ranked_metres(*metres[row], 5) for row in range(0, 200, 10)] + [live.ranked_metres(0.0, 0.0, 3)]
"""
BLOCKED = "import sys\nsys.modules['numba'] = None\n" + WORK + "\nprint(json.dumps(found))"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    path = tmp_path_factory.mktemp("city") / "city.txt"
    rng = np.random.default_rng(3)
    np.savetxt(path, np.column_stack([rng.uniform(37.6, 37.8, 1500), rng.uniform(-122.5, -122.3, 1500)]))
    plain = subprocess.run([sys.executable, "-c", BLOCKED, str(path)], capture_output=True, text=True, check=False)
    assert plain.returncode == 0, plain.stderr[-3000:]
    return json.loads(plain.stdout), _here(path)


def _here(path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    before, sys.argv = sys.argv, ["", str(path)]
    try:
        exec(compile(WORK, "work", "exec"), names)  # noqa: S102
    finally:
        sys.argv = before
    found: dict[str, Any] = json.loads(json.dumps(names["found"]))
    return found


def test_one_was_compiled_and_the_other_was_not(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert [found["compiled"] for found in both] == [False, True]


def test_results_are_the_same(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    plain, compiled = both
    assert plain.keys() == compiled.keys()
    for name in plain.keys() - {"compiled"}:
        assert plain[name] == compiled[name], name
