"""What only PostgreSQL does: tell other processes, share a database, and be gone."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nearveil.nearby.stores import _postgis_connections
from nearveil.nearby.stores.base import ErasedMark, Held, Standing, Store, StoreError
from nearveil.nearby.stores.postgis import PostgisStore
from tests.nearby.stores.draws import EPOCH, WINDOW, charge, draw, held, publish, put, stand
from tests.services.postgres import cluster, dump, run_sql
from tests.waiting import PATIENCE_S

END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()"""


@pytest.fixture
def store(postgis_address: str) -> Iterator[PostgisStore]:
    opened = PostgisStore(postgis_address)
    yield opened
    opened.close()


class Heard:
    """Remembers what a follower was told, in order."""

    def __init__(self, store: Store) -> None:
        self._told: queue.Queue[tuple[str, Any]] = queue.Queue()
        store.follow(
            on_erased=lambda person: self._told.put(("erased", person)),
            on_withdrawn=lambda person: self._told.put(("withdrawn", person)),
            on_epoch=lambda epoch: self._told.put(("epoch", epoch)),
            on_lost=lambda: self._told.put(("lost", None)),
        )

    def next(self) -> tuple[str, Any]:
        return self._told.get(timeout=PATIENCE_S)


class TestFollowing:
    def test_others_are_told_and_oneself_is_not(self, store: PostgisStore, postgis_address: str) -> None:
        other = PostgisStore(postgis_address)
        heard, own = Heard(other), Heard(store)
        store.add_people(["ann", "Zoë", "cem"])
        put(store, draw("ann"))
        assert publish(store)
        assert not publish(store)
        store.withdraw("ann")
        store.withdraw("nobody")
        store.erase("Zoë")
        assert [heard.next() for _ in range(3)] == [
            ("epoch", EPOCH),
            ("withdrawn", "ann"),
            ("erased", "Zoë"),
        ]
        other.erase("cem")
        assert own.next() == ("erased", "cem")
        other.close()

    def test_what_is_undone_is_not_told(self, store: PostgisStore, postgis_address: str) -> None:
        other = PostgisStore(postgis_address)
        heard = Heard(other)
        store.add_people(["ann", "bob"])
        with pytest.raises(RuntimeError), store._database.transaction() as session:
            store._announcer.erased(session, "ann")
            raise RuntimeError
        store.erase("bob")
        assert heard.next() == ("erased", "bob")
        other.close()

    def test_the_longest_id_fits_into_a_notification(self, store: PostgisStore, postgis_address: str) -> None:
        other = PostgisStore(postgis_address)
        heard = Heard(other)
        longest = "\U0001d54f" * 128
        store.add_people([longest])
        store.erase(longest)
        assert heard.next() == ("erased", longest)
        other.close()

    def test_a_lost_connection_is_told(
        self, store: PostgisStore, postgis_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_postgis_connections, "_AGAIN_S", 0.01)
        heard = Heard(store)
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        run_sql(postgis_address, end)
        assert heard.next() == ("lost", None)
        other = PostgisStore(postgis_address)
        other.add_people(["ann"])
        other.erase("ann")
        other.close()
        assert heard.next() == ("erased", "ann")

    def test_a_handler_that_fails_loads_everything_again(
        self, store: PostgisStore, postgis_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_postgis_connections, "_AGAIN_S", 0.01)
        lost = threading.Event()

        def fail(_: object) -> None:
            raise ValueError("a bug")

        store.follow(on_erased=fail, on_withdrawn=fail, on_epoch=fail, on_lost=lost.set)
        other = PostgisStore(postgis_address)
        publish(other)
        other.close()
        assert lost.wait(PATIENCE_S)

    def test_who_cannot_listen_is_told_at_once(self, store: PostgisStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(store._database._options, "port", "1")
        with pytest.raises(StoreError, match="cannot be used"):
            Heard(store)


class TestDatabase:
    def test_two_open_a_new_database_at_once(self, postgis_address: str) -> None:
        opened: list[PostgisStore] = []
        threads = [threading.Thread(target=lambda: opened.append(PostgisStore(postgis_address))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(opened) == 4
        opened[0].add_people(["ann"])
        assert all(store.token_mark("ann") is not None for store in opened)
        for store in opened:
            store.close()

    @pytest.mark.parametrize("version", [0, 2])
    def test_another_version_is_refused(self, postgis_address: str, version: int) -> None:
        PostgisStore(postgis_address).close()
        run_sql(postgis_address, f"UPDATE nearveil.schema_version SET version = {version}")  # noqa: S608
        with pytest.raises(StoreError, match="another version of Nearveil"):
            PostgisStore(postgis_address)

    def test_a_careless_database_is_made_careful(self, postgis_address: str) -> None:
        database = postgis_address.rpartition("/")[2]
        run_sql(
            postgis_address,
            f"ALTER DATABASE {database} SET synchronous_commit = off",
            f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'",
        )
        store = PostgisStore(postgis_address)
        with store._database.transaction() as session:
            assert session.one("SHOW synchronous_commit") == ("on",)
            assert session.one("SHOW transaction_isolation") == ("read committed",)
        store.close()

    def test_connections_that_broke_are_replaced(self, store: PostgisStore, postgis_address: str) -> None:
        store.add_people(["ann"])
        run_sql(postgis_address, END_OTHERS)
        assert store.token_mark("ann") is not None

    def test_a_connection_that_breaks_in_a_transaction(self, store: PostgisStore, postgis_address: str) -> None:
        store.add_people(["ann"])
        with pytest.raises(StoreError, match="cannot be used"), store.writing() as writing:
            writing.put_pending([draw("ann")], EPOCH)
            run_sql(postgis_address, END_OTHERS)
        assert held(store, "ann") == Held()


def test_a_backup_holds_nothing_of_the_erased(store: PostgisStore, postgis_address: str) -> None:
    store.add_people(["somebody-to-be-erased", "ann"])
    put(store, draw("somebody-to-be-erased", 200), draw("ann", 201))
    publish(store)
    put(store, draw("somebody-to-be-erased", 202), epoch=EPOCH + 1)
    charge(store, draw("somebody-to-be-erased", 203))
    stand(store, **{"somebody-to-be-erased": Standing(receipt="last", epoch=EPOCH, candidate=b"\xcc" * 16)})
    traces = [b"somebody-to-be-erased", *(tag * 16 for tag in (b"c8", b"ca", b"cb", b"cc"))]
    assert all(trace in dump(postgis_address) for trace in traces)
    store.erase("somebody-to-be-erased", ErasedMark(b"\xcd" * 16, WINDOW))
    left = dump(postgis_address)
    assert not any(trace in left for trace in traces)
    assert b"c9" * 16 in left
    assert b"cd" * 16 in left
    publish(store, EPOCH + 1, window=WINDOW + 1)
    assert b"cd" * 16 not in dump(postgis_address)


class TestErrors:
    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://ann:hush-hush@127.0.0.1:1/people",
            "postgresql://ann:hush-hush@[::1/people",
            "postgresql://ann:hush-hush@127.0.0.1:port/people",
            "postgresql://127.0.0.1:1/people?password=hush-hush&sslmode=nonsense",
            "postgresql://127.0.0.1/people?hush-hush=1",
        ],
    )
    def test_no_error_holds_the_password(self, address: str) -> None:
        with pytest.raises(StoreError) as caught:
            PostgisStore(address)
        assert "hush-hush" not in f"{caught.value!r} {caught.value.__cause__!r}"
        assert caught.value.__suppress_context__
        assert str(caught.value).count(".") <= 4
        assert "\n" not in str(caught.value)

    def test_why_there_is_no_connection(self, postgis_cluster: object) -> None:
        refused = r"the database people on 127.0.0.1 cannot be used .*Connection refused"
        with pytest.raises(StoreError, match=refused) as caught:
            PostgisStore("postgresql://127.0.0.1:1/people")
        assert (caught.value.reason, caught.value.code) == ("database-away", "ECONNREFUSED")
        with pytest.raises(StoreError, match=r'nowhere on 127.0.0.1 cannot be used \(.*"nowhere" does not exist\)'):
            PostgisStore(cluster().address("nowhere"))

    def test_a_database_that_is_gone(self, store: PostgisStore, postgis_address: str) -> None:
        store.add_people(["ann"])
        database = postgis_address.rpartition("/")[2]
        run_sql(cluster().address("postgres"), f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        try:
            run_sql(cluster().address("postgres"), END_OTHERS.replace("current_database()", f"'{database}'"))
            with pytest.raises(StoreError, match="is not currently accepting connections") as caught:
                store.token_mark("ann")
            assert caught.value.reason == "database-away"
        finally:
            run_sql(cluster().address("postgres"), f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")

    def test_an_error_quotes_no_row(self, store: PostgisStore, postgis_address: str) -> None:
        run_sql(postgis_address, "ALTER TABLE nearveil.pending ADD CHECK (x_steps <> 7000)")
        store.add_people(["Zoë"])
        with pytest.raises(StoreError) as caught:
            put(store, draw("Zoë", 7))
        assert "7000" not in str(caught.value)
        assert "Zoë" not in str(caught.value)
