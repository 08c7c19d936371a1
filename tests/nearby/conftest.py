"""Every store there is, empty, by its address or open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nearveil.nearby.stores import is_postgres, open_store
from nearveil.nearby.stores.base import Store
from nearveil.nearby.stores.sqlite import SqliteStore
from tests.services.postgres import postgis_cluster, private_database

__all__ = ["postgis_cluster"]


@pytest.fixture(params=["sqlite", "postgis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a store can be opened, closed and opened again."""
    yield from _address(request, tmp_path)


@pytest.fixture
def postgis_address(postgis_cluster: object) -> Iterator[str]:
    """A database with PostGIS."""
    del postgis_cluster
    with private_database() as found:
        yield found


@pytest.fixture(params=["sqlite", "memory", "postgis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An open store."""
    for place in _address(request, tmp_path):
        opened: Store = SqliteStore.in_memory() if request.param == "memory" else open_store(place)
        yield opened
        opened.close()


@pytest.fixture
def two_stores(address: str) -> Iterator[tuple[Store, Store]]:
    """What two processes would have; a file has one store, which two threads then share."""
    first = open_store(address)
    second = open_store(address) if is_postgres(address) else first
    yield first, second
    first.close()
    second.close()


def _address(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if request.param != "postgis":
        yield str(folder / "people.db")
        return
    request.getfixturevalue("postgis_cluster")
    with private_database() as found:
        yield found
