"""Users that all acceptance tests share."""

from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.helpers import CENTER, Array, write_csv


@pytest.fixture(scope="session")
def users() -> Array:
    """Three hundred users of a part of a city, far from the edges of its region."""
    return np.random.default_rng(7).normal(CENTER, 0.02, (300, 2)).round(7)


@pytest.fixture(scope="session")
def many_users() -> Array:
    """As many as it takes to measure noise."""
    return np.random.default_rng(8).normal(CENTER, 0.01, (2000, 2)).round(7)


@pytest.fixture
def users_csv(tmp_path: Path, users: Array) -> Path:
    return write_csv(tmp_path / "users.csv", users)


@pytest.fixture
def many_csv(tmp_path: Path, many_users: Array) -> Path:
    return write_csv(tmp_path / "many.csv", many_users)
