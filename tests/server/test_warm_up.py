"""When a service says that it is ready, nothing is left to compile, or to read from where compiled code is kept."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nearveil.io.synthetic import synthetic_city
from nearveil.mechanisms.fit_cells import cells_from_points
from nearveil.mechanisms.intervals import Intervals
from nearveil.region import named_region
from tests.server.running import HERE
from tests.server.served import served

# What a process reads it would have to compile where nothing is kept: so this needs no compiler, which takes a minute.
_NOTE_COMPILED_CODE = """
from numba.core.dispatcher import Dispatcher
add = Dispatcher.add_overload
def add_and_note(self, code):
    with open({path!r}, "a") as noted:
        print(self.py_func.__qualname__, code.signature, file=noted)
    add(self, code)
Dispatcher.add_overload = add_and_note
"""


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File in which new processes note each function whose compiled code they take."""
    path = tmp_path / "noted.txt"
    (tmp_path / "sitecustomize.py").write_text(_NOTE_COMPILED_CODE.format(path=str(path)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return path


def test_a_service_that_is_ready_compiles_nothing_more(tmp_path: Path, noted: Path) -> None:
    with served(tmp_path, "--test-hooks") as service:
        before = noted.read_text()
        assert before
        assert service.call("POST", "/v1/nearby", json={**HERE, "k": 5, "within_m": 900}).json() == {"ids": []}
        service.call("POST", "/v1/people", json={"ids": ["ann", "bob"]})
        for person in ("ann", "bob"):
            assert service.call("PUT", f"/v1/people/{person}/location", json=HERE).status_code == 202
        service.call("POST", "/v1/epoch")
        service.call("POST", "/v1/nearby", json={**HERE, "k": 1, "asker": "ann"})
        service.call("DELETE", "/v1/people/ann/location")
        service.call("DELETE", "/v1/people/bob")
        assert noted.read_text() == before


_OTHER_PROTECTIONS = """
import sys
from pathlib import Path
from tests.server.running import HERE, running

noted, cells, intervals = (Path(name) for name in sys.argv[1:])
for options in ({"hide_among": 50, "cells": cells}, {"intervals": intervals}):
    with running(**options) as service:
        before = noted.read_text()
        assert before
        service.add("ann", "bob")
        assert service.report("ann").status_code == service.report("bob").status_code == 202
        service.nearby()
        service.next_epoch()
        service.nearby()
        print([noted.read_text().removeprefix(before)])
"""


@pytest.mark.evidence
def test_nor_do_other_protections(tmp_path: Path, noted: Path) -> None:
    region = named_region("san-francisco")
    cells, intervals = tmp_path / "cells.json", tmp_path / "intervals.json"
    cells.write_text(cells_from_points(synthetic_city(2000, region, rng=1), region).to_json())
    discs = Intervals(
        region=region,
        centres=np.array([[0.0, 0.0], [0.3, 0.4]]),
        method="public",
        answers=(),
        gamma=0.5,
        seeded=False,
    )
    intervals.write_text(discs.to_json())
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_PROTECTIONS, str(noted), str(cells), str(intervals)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["['']"] * 2, done.stderr
