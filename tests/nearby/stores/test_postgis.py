"""What only PostGIS does: answer questions, tell other processes, share a database, and be gone."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest

from nearveil.nearby.stores import _postgis_connections
from nearveil.nearby.stores.base import ErasedMark, Held, Standing, Store, StoreError
from nearveil.nearby.stores.postgis import PostgisStore
from tests.nearby.stores.draws import EPOCH, WINDOW, charge, draw, held, publish, put, stand
from tests.services.postgres import cluster, dump, run_sql

PATIENCE_S = 60.0
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
            on_published_now=lambda batch: self._told.put(("now", (batch.people, batch.steps.tolist()))),
            on_epoch=lambda epoch: self._told.put(("epoch", epoch)),
            on_lost=lambda: self._told.put(("lost", None)),
        )

    def next(self) -> tuple[str, Any]:
        return self._told.get(timeout=PATIENCE_S)


class TestQuestions:
    def places(self, store: PostgisStore, places_m: np.ndarray[Any, Any]) -> list[str]:
        people = [f"person {number}" for number in range(len(places_m))]
        store.add_people(people)
        put(store, *(draw(person) for person in people))
        publish(store)
        store.keep_places(iter([(people[:5], places_m[:5]), (people[5:], places_m[5:])]))
        return people

    def test_the_nearest_are_found(self, store: PostgisStore, rng: np.random.Generator) -> None:
        places_m = rng.uniform(-20_000, 20_000, (400, 2))
        people = self.places(store, places_m)
        for here in rng.uniform(-25_000, 25_000, (10, 2)):
            distances = np.hypot(*(places_m - here).T)
            expected = [people[i] for i in np.argsort(distances)]
            assert store.nearest(tuple(here), 10) == expected[:10]
            assert store.nearest(tuple(here), 10, exclude=expected[2]) == [*expected[:2], *expected[3:11]]
            within_m = float(np.sort(distances)[4]) + 0.001
            assert store.nearest(tuple(here), 10, within_m=within_m) == expected[:5]

    def test_equals_are_ordered_by_the_key_alone(self, store: PostgisStore) -> None:
        people = self.places(store, np.zeros((30, 2)))
        orders = {store_key: store.nearest((1.0, 1.0), 30, tie_key=store_key) for store_key in (b"a", b"b")}
        assert sorted(orders[b"a"]) == sorted(people)
        assert orders[b"a"] != orders[b"b"]
        assert store.nearest((5.0, 1.0), 4, tie_key=b"a") == orders[b"a"][:4]

    def test_who_leaves_is_not_found(self, store: PostgisStore) -> None:
        people = self.places(store, np.arange(20.0).reshape(10, 2))
        store.erase(people[0])
        store.withdraw(people[1])
        assert store.nearest((0.0, 0.0), 3) == people[2:5]
        # Nor when their places arrive late.
        store.keep_places([(people, np.zeros((10, 2)))])
        assert set(store.nearest((0.0, 0.0), 10)) == set(people[2:])

    def test_the_index_is_used(self, store: PostgisStore, postgis_address: str, rng: np.random.Generator) -> None:
        self.places(store, rng.uniform(-20_000, 20_000, (5000, 2)))
        with psycopg.connect(postgis_address) as connection:
            connection.execute("SET search_path TO nearveil, public")
            connection.execute("ANALYZE")
            plan = connection.execute(
                "EXPLAIN SELECT person FROM places ORDER BY place <-> ST_MakePoint(0, 0) LIMIT 10"
            ).fetchall()
        assert any("places_by_place" in row[0] for row in plan)


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
        with store.writing() as writing:
            writing.publish_now([draw("Zoë", 2), draw("nobody")], EPOCH)
        store.erase("Zoë")
        assert [heard.next() for _ in range(4)] == [
            ("epoch", EPOCH),
            ("withdrawn", "ann"),
            ("now", (["Zoë"], [[2000, -2001]])),
            ("erased", "Zoë"),
        ]
        other.erase("cem")
        assert own.next() == ("erased", "cem")
        other.close()

    def test_what_is_undone_is_not_told(self, store: PostgisStore, postgis_address: str) -> None:
        other = PostgisStore(postgis_address)
        heard = Heard(other)
        store.add_people(["ann", "bob"])
        with pytest.raises(RuntimeError), store.writing() as writing:
            writing.publish_now([draw("ann")], EPOCH)
            raise RuntimeError
        store.erase("bob")
        assert heard.next() == ("erased", "bob")
        other.close()

    def test_many_at_once(self, store: PostgisStore, postgis_address: str) -> None:
        other = PostgisStore(postgis_address)
        heard = Heard(other)
        people = [f"{number:03}" + "ß" * 125 for number in range(105)]
        store.add_people(people)
        with store.writing() as writing:
            writing.publish_now([draw(person) for person in people], EPOCH)
        told: list[str] = []
        while len(told) < len(people):
            told += heard.next()[1][0]
        assert told == people
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

        store.follow(on_erased=fail, on_withdrawn=fail, on_published_now=fail, on_epoch=fail, on_lost=lost.set)
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

    def test_a_later_version_is_refused(self, postgis_address: str) -> None:
        PostgisStore(postgis_address).close()
        later = f"UPDATE nearveil.schema_version SET version = {len(_postgis_connections.MIGRATIONS) + 1}"  # noqa: S608
        run_sql(postgis_address, later)
        with pytest.raises(StoreError, match="later version of Nearveil"):
            PostgisStore(postgis_address)

    def test_a_key_made_before_scopes_may_do_everything(
        self, postgis_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as before:
            before.setattr(_postgis_connections, "MIGRATIONS", _postgis_connections.MIGRATIONS[:2])
            PostgisStore(postgis_address).close()
        run_sql(postgis_address, "INSERT INTO nearveil.platform_keys (name, digest) VALUES ('shop', '\\x00')")
        store = PostgisStore(postgis_address)
        assert store.keys()[0].scopes == {"ask", "report", "people", "metrics", "admin"}
        store.close()

    def test_a_database_without_postgis(self, postgis_address: str) -> None:
        run_sql(postgis_address, "DROP EXTENSION postgis", "CREATE ROLE plain LOGIN")
        try:
            database = postgis_address.rpartition("/")[2]
            run_sql(postgis_address, f"GRANT CREATE ON DATABASE {database} TO plain")
            with pytest.raises(StoreError, match="has no PostGIS; let its administrator"):
                PostgisStore(postgis_address.replace("tester", "plain"))
        finally:
            run_sql(postgis_address, "DROP OWNED BY plain", "DROP ROLE plain")
        # Whoever may, makes it.
        PostgisStore(postgis_address).close()

    def test_postgis_may_be_in_any_schema(self, postgis_address: str) -> None:
        run_sql(postgis_address, "DROP EXTENSION postgis", 'CREATE SCHEMA "Its Own"')
        run_sql(postgis_address, 'CREATE EXTENSION postgis SCHEMA "Its Own"')
        store = PostgisStore(postgis_address)
        assert store.nearest((0.0, 0.0), 1) == []
        store.close()

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
    store.keep_places([(["somebody-to-be-erased", "ann"], np.zeros((2, 2)))])
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
