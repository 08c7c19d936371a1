"""A database or a disk that cannot be written says so, and a long publication is waited for."""

import threading
from pathlib import Path

import pytest

from nearveil.nearby.stores.base import StoreError
from nearveil.nearby.stores.postgis import PostgisStore
from nearveil.nearby.stores.sqlite import SqliteStore
from tests.nearby.stores.draws import draw, put
from tests.services.postgres import cluster, run_sql
from tests.waiting import PATIENCE_S


def test_a_read_only_database_says_so(postgis_address: str) -> None:
    opened = PostgisStore(postgis_address)
    database = postgis_address.rpartition("/")[2]
    run_sql(cluster().address("postgres"), f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    opened._database._pool.drop_idle()
    with pytest.raises(StoreError) as caught:
        opened.add_people(["ann"])
    assert (caught.value.reason, caught.value.code) == ("read-only", "ReadOnlySqlTransaction")
    assert opened.token_mark("ann") is None
    opened.close()


@pytest.mark.evidence
def test_a_publication_that_lasts_is_waited_for(postgis_address: str) -> None:
    """Longer than a statement may take: reports wait for the lock in many short statements."""
    store = PostgisStore(postgis_address, timeout_s=1.0)
    store.add_people(["ann"])
    waited = threading.Event()
    begun = threading.Event()

    def publishing() -> None:
        with store._database.transaction(long=True) as session:
            session.run("SELECT pg_advisory_xact_lock(%s)", (0x6E76_0002,))
            begun.set()
            session.run("SELECT pg_sleep(1.5)")
            waited.set()

    thread = threading.Thread(target=publishing)
    thread.start()
    assert begun.wait(PATIENCE_S)
    put(store, draw("ann"))
    assert waited.is_set()
    thread.join()
    store.close()


class TestFullDisk:
    def test_sqlite_says_that_the_disk_is_full_and_goes_on_when_there_is_room(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "people.db")
        store.add_people(["ann"])
        store._connections._writer.run("PRAGMA max_page_count = 1")
        with pytest.raises(StoreError) as caught:
            store.keep_setting("large", "x" * 100_000)
        assert (caught.value.reason, caught.value.code) == ("disk-full", "SQLITE_FULL")
        assert store.token_mark("ann") is not None
        store._connections._writer.run("PRAGMA max_page_count = 1000000")
        store.keep_setting("large", "x" * 100_000)
        store.close()
