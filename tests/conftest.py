"""What all tests share: a small made-up city, and the real data where it is at hand."""

import os
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from nearveil.io.synthetic import synthetic_city
from nearveil.region import Region
from nearveil.region_names import named_region
from nearveil.types import FloatArray

# The same examples on every run, and no clock: a slow machine must not fail a test.
settings.register_profile("nearveil", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("nearveil")


@pytest.fixture(scope="session")
def san_francisco() -> Region:
    return named_region("san-francisco")


@pytest.fixture(scope="session")
def city(san_francisco: Region) -> FloatArray:
    return synthetic_city(5000, san_francisco, rng=3)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260101)


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
