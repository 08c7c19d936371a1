"""A database that is away is noticed, not waited for, and used again when it is back; a full disk says so."""

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearveil.nearby.stores.base import StoreError
from nearveil.nearby.stores.postgis import PostgisStore
from nearveil.nearby.stores.sqlite import SqliteStore
from tests.nearby.stores.draws import draw, publish, put
from tests.services.postgres import Cluster, cluster, own_cluster, private_database, run_sql
from tests.waiting import PATIENCE_S, until


@pytest.fixture(scope="module")
def server(postgis_cluster: object) -> Iterator[Cluster]:
    """A server that only these tests halt."""
    del postgis_cluster
    with own_cluster() as started:
        yield started


@pytest.fixture
def store(server: Cluster) -> Iterator[PostgisStore]:
    with private_database(server) as address:
        opened = PostgisStore(address, timeout_s=1.0)
        opened.add_people(["ann"])
        yield opened
        opened.close()


class Noticed:
    """Remembers outages, and that something may have been missed."""

    def __init__(self, store: PostgisStore) -> None:
        self._noticed: queue.Queue[str] = queue.Queue()
        store.follow(
            on_erased=lambda _: None,
            on_withdrawn=lambda _: None,
            on_epoch=lambda _: None,
            on_lost=lambda: self._noticed.put("lost"),
            on_away=lambda error: self._noticed.put(f"away {error.reason} {error.code}"),
            on_back=lambda seconds: self._noticed.put(f"back {seconds > 0}"),
        )

    def next(self) -> str:
        return self._noticed.get(timeout=PATIENCE_S)


def is_back(store: PostgisStore) -> bool:
    try:
        return store.token_mark("ann") is not None
    except StoreError:
        return False


@pytest.mark.evidence
def test_a_server_that_crashes_is_noticed_and_used_again(store: PostgisStore, server: Cluster) -> None:
    noticed = Noticed(store)
    server.halt()
    try:
        assert noticed.next().startswith("away database-away ")
        for _ in range(3):
            with pytest.raises(StoreError, match="is away; it is tried again every second") as caught:
                store.token_mark("ann")
            assert caught.value.reason == "database-away"
    finally:
        server.resume()
    until(lambda: is_back(store))
    put(store, draw("ann"))
    assert publish(store)
    # In either order: one is told by the circuit, the other by who follows.
    assert {noticed.next(), noticed.next()} == {"back True", "lost"}


@pytest.mark.evidence
def test_a_server_that_stands_still_is_not_waited_for(store: PostgisStore, server: Cluster) -> None:
    noticed = Noticed(store)
    with server.frozen():
        with pytest.raises(StoreError) as caught:
            store.token_mark("ann")
        assert (caught.value.reason, caught.value.code) == ("database-away", "ConnectionTimeout")
        assert noticed.next().startswith("away database-away")
        with pytest.raises(StoreError, match="is away; it is tried again every second"):
            put(store, draw("ann"))
    until(lambda: is_back(store))
    assert noticed.next().startswith("back")


@pytest.mark.evidence
def test_one_connection_that_breaks_is_no_outage(store: PostgisStore, server: Cluster) -> None:
    noticed = Noticed(store)
    with pytest.raises(StoreError), store.writing() as writing:
        writing.put_pending([draw("ann")], 5)
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        run_sql(server.address("postgres"), end)
    assert store.token_mark("ann") is not None
    # Nothing was noticed: what comes next is the outage after it.
    server.halt()
    try:
        assert noticed.next().startswith("away")
    finally:
        server.resume()


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
def test_a_publication_that_lasts_is_waited_for(store: PostgisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a statement may take: reports wait for the lock in many short statements."""
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
