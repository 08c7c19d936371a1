"""What all tests share: a small made-up city, and the real data where it is at hand."""

import gc
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from nearveil.io.synthetic import synthetic_city
from nearveil.region import Region, named_region
from nearveil.types import FloatArray

# The same examples on every run, and no clock: a slow machine must not fail a test.
settings.register_profile("nearveil", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("nearveil")

# One process runs them all: each would start a Spark of its own. They take longest, and so they come first.
SPARK = "tests/spark/test_"
# The longest of the other files. The other processes begin with them, so that none is left alone with one at the end.
LONG = ("tests/attacks/test_adaptive", "tests/cli/test_docs_commands.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("evidence") is not None:
            # For the page of "make evidence", which gets the reports of other processes only.
            name = item.name.removeprefix("test_").partition("[")[0].replace("_", " ")
            doc = (getattr(getattr(item, "obj", None), "__doc__", None) or name).strip()
            item.user_properties.append(("claim", doc.partition("\n")[0]))
    items.sort(key=lambda item: item.nodeid.startswith(LONG) - item.nodeid.startswith(SPARK))


# Thousands of tests and all packages stay to the end: no garbage collection needs to look at them, now or later.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for doctests in the package alone: tests have none."""
    found = yield
    is_test = file_path.is_relative_to(Path(__file__).parent)
    return [each for each in found if not (is_test and isinstance(each, DoctestModule))]


class FromBothEnds(LoadScopeScheduling):  # type: ignore[misc]
    """Deals files of tests to the first process from the first on, and to every other one from the last on.

    So what the tests of a file share is made once, not once on each process, and what one process compiles is there for
    the other. The mark ``xdist_group`` would not do: pytest 9.2 loses it without a word
    (https://github.com/pytest-dev/pytest-xdist/issues/1386).
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else nodeid.split("::", 1)[0]

    def _assign_work_unit(self, node: Any) -> None:
        if node is not self.nodes[0]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FromBothEnds:
    return FromBothEnds(config, log)


@pytest.fixture(scope="session")
def san_francisco() -> Region:
    return named_region("san-francisco")


@pytest.fixture(scope="session")
def city(san_francisco: Region) -> FloatArray:
    return synthetic_city(5000, san_francisco, rng=3)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Record a figure for the page of ``make evidence``: ``figure("largest loss found", 0.97, "epsilon per km")``."""

    def record(name: str, value: float | str, unit: str = "") -> None:
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else value
        request.node.user_properties.append(("figure", f"{name}: {shown} {unit}".strip()))

    return record


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that no number of cores is named for stays in this process: another one takes longer to start than it."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


@pytest.fixture(scope="session")
def real_data_folder() -> Path:
    """Folder with the real check-ins, which are not part of the repository."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("NEARVEIL_DATA_DIR", beside))
    if not (folder / "brightkite_sf.csv.gz").exists():
        pytest.skip("the real check-in files are not here; set NEARVEIL_DATA_DIR to their folder")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where CI=true, a test that is skipped for want of a tool fails: only the real data may be missing there."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and item.get_closest_marker("realdata") is None:
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report
