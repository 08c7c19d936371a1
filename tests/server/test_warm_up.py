"""When a service says that it is ready, nothing is left to compile: counted by the files of compiled code."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.mechanisms.intervals import Intervals
from nearveil.region import named_region
from tests.server.running import HERE
from tests.server.served import served


def compiled(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.nbc")}


def test_a_service_that_is_ready_compiles_nothing_more(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with served(tmp_path, "--test-hooks", env={"NUMBA_CACHE_DIR": str(cache)}) as service:
        before = compiled(cache)
        assert before
        assert service.call("POST", "/v1/nearby", json={**HERE, "k": 5, "within_m": 900}).json() == {"ids": []}
        service.call("POST", "/v1/people", json={"ids": ["ann", "bob"]})
        for person in ("ann", "bob"):
            assert service.call("PUT", f"/v1/people/{person}/location", json=HERE).status_code == 202
        service.call("POST", "/v1/epoch")
        service.call("POST", "/v1/nearby", json={**HERE, "k": 1, "asker": "ann"})
        service.call("DELETE", "/v1/people/ann/location")
        service.call("DELETE", "/v1/people/bob")
        assert compiled(cache) == before


_OTHER_PROTECTIONS = """
import sys
from pathlib import Path
from tests.server.running import HERE, running

cache, cells, intervals = (Path(name) for name in sys.argv[1:])
off = {"policy": "off", "unprotected": True}
for options in ({"hide_among": 50, "cells": cells}, {"intervals": intervals, **off}, {"policy": "fresh"}):
    with running(**options) as service:
        before = set(cache.rglob("*.nbc"))
        service.add("ann", "bob")
        assert service.report("ann").status_code == service.report("bob").status_code == 202
        service.nearby()
        service.next_epoch()
        service.nearby()
        print(sorted(path.name for path in set(cache.rglob("*.nbc")) - before))
"""


def test_nor_do_other_protections(tmp_path: Path) -> None:
    region = named_region("san-francisco")
    cells, intervals, cache = tmp_path / "cells.json", tmp_path / "intervals.json", tmp_path / "cache"
    cells.write_text(cells_from_points(synthetic_city(2000, region, rng=1), region).to_json())
    discs = Intervals(
        region=region,
        centres=np.array([[0.0, 0.0], [0.3, 0.4]]),
        radii=np.array([0.25, 0.25]),
        method="public",
        answers=(),
        gamma=0.5,
        seeded=False,
    )
    intervals.write_text(discs.to_json())
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_PROTECTIONS, str(cache), str(cells), str(intervals)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["[]"] * 3, done.stderr
