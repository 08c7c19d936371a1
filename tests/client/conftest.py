"""A stub of a service with a small town in it."""

import pytest

from tests.client.stub_service import StubService, populated


@pytest.fixture
def service() -> StubService:
    return populated()
