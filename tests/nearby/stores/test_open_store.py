from pathlib import Path

import pytest

from nearveil.nearby.stores import is_postgres, open_store
from nearveil.nearby.stores.base import StoreError
from nearveil.nearby.stores.sqlite import SqliteStore


def test_a_path_is_a_file(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "people.db"))
    assert isinstance(store, SqliteStore)
    store.close()
    assert (tmp_path / "people.db").exists()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_connection_string_is_a_database(scheme: str) -> None:
    assert is_postgres(f"{scheme}://127.0.0.1:1/people")
    with pytest.raises(StoreError, match=r"the database people on 127.0.0.1 cannot be used"):
        open_store(f"{scheme}://127.0.0.1:1/people")
