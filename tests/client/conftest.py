"""A stub of a service with a small town in it."""

import numpy as np
import pytest

from nearveil.region import Region
from tests.client.stub_service import StubService

TOWN = Region(37.745, -122.455, 37.79, -122.398)


@pytest.fixture
def town() -> Region:
    return TOWN


@pytest.fixture
def service() -> StubService:
    stub = StubService(TOWN)
    rng = np.random.default_rng(4)
    stub.populate(TOWN.from_metres(rng.uniform(-0.95, 0.95, (600, 2)) * np.array(TOWN.half_extent_m)))
    return stub
