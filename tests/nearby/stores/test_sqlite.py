"""The embedded store's file: private, one process's, erased for good, and never mistaken for another's."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nearveil.nearby.stores._sqlite_connections import VERSION
from nearveil.nearby.stores.base import ErasedMark, Held, Standing, StoreError
from nearveil.nearby.stores.sqlite import SqliteStore
from tests.nearby.stores.draws import (
    EPOCH,
    WINDOW,
    charge,
    draw,
    held,
    publish,
    put,
    stand,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "people.db"


def bytes_of(path: Path) -> bytes:
    """Everything in the store's folder."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()))


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


class TestFile:
    def test_only_its_owner_can_read_it(self, path: Path) -> None:
        store = SqliteStore(path)
        store.add_people(["ann"])
        for file in (path.parent, *path.parent.iterdir()):
            assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file.name
        assert path.with_name("people.db-wal").exists()
        store.close()
        path.chmod(0o644)
        SqliteStore(path).close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_commits_wait_for_the_disk(self, path: Path) -> None:
        store = SqliteStore(path)
        with store._connections.writing() as connection:
            pragmas = {name: (connection.one(f"PRAGMA {name}") or [None])[0]
                       for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys")}  # fmt: skip
        store.close()
        assert pragmas == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}

    def test_another_process_is_refused(self, path: Path) -> None:
        store = SqliteStore(path)
        program = (
            "import sys, pathlib\n"
            "from nearveil.nearby.stores.base import StoreError\n"
            "from nearveil.nearby.stores.sqlite import SqliteStore\n"
            "try: SqliteStore(pathlib.Path(sys.argv[1]))\n"
            "except StoreError as error: print(error)\n"
        )
        command = [sys.executable, "-c", program, str(path)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert told.startswith(f"another process uses the store {path};")
        with pytest.raises(StoreError, match="another process uses the store"):
            SqliteStore(path)
        store.add_people(["ann"])
        store.close()
        SqliteStore(path).close()

    def test_a_store_that_cannot_be_opened_can_be_opened_later(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"no database at all" * 1000)
        with pytest.raises(StoreError, match="is no Nearveil store"):
            SqliteStore(path)
        path.unlink()
        SqliteStore(path).close()

    def test_another_programs_database_is_left_alone(self, path: Path) -> None:
        path.parent.mkdir()
        change(path, "CREATE TABLE theirs (a)")
        before = path.read_bytes()
        with pytest.raises(StoreError, match="another program's database"):
            SqliteStore(path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("version", [0, VERSION + 1])
    def test_another_version_is_refused(self, path: Path, version: int) -> None:
        SqliteStore(path).close()
        change(path, f"PRAGMA user_version = {version}")
        with pytest.raises(StoreError, match="another version of Nearveil"):
            SqliteStore(path)

    def test_a_damaged_file_is_refused(self, path: Path) -> None:
        store = SqliteStore(path)
        store.add_people([f"person {number}" for number in range(2000)])
        store.close()
        content = bytearray(path.read_bytes())
        content[4096:] = os.urandom(len(content) - 4096)
        path.write_bytes(content)
        with pytest.raises(StoreError, match="is damaged; restore it from a backup"):
            SqliteStore(path).add_people(["ann"])

    @pytest.mark.parametrize("name", ["is/missing/people.db", "people.db/people.db", "."])
    def test_a_place_where_no_file_can_be(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "people.db").write_bytes(b"")
        with pytest.raises(StoreError, match="cannot be opened"):
            SqliteStore(tmp_path / name)

    def test_a_full_disk_loses_nothing_that_was_kept(self, path: Path) -> None:
        store = SqliteStore(path)
        store.add_people(["ann"])
        put(store, draw("ann", 1))
        with store._connections.writing() as connection:
            pages = (connection.one("PRAGMA page_count") or [0])[0]
            connection.run(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="is full and nothing of this was kept; make room"):
            store.add_people([f"person {number}" for number in range(5000)])
        assert held(store, "ann") == Held(pending=draw("ann", 1))
        assert store.totals().people == 1
        put(store, draw("ann", 2))
        store.close()


class TestErasing:
    def test_no_byte_is_left(self, path: Path) -> None:
        store = SqliteStore(path)
        secret, other = "somebody-to-be-erased", "somebody-who-stays"
        store.add_people([secret, other])
        put(store, draw(secret, 65), draw(other, 66))
        publish(store)
        put(store, draw(secret, 67), epoch=EPOCH + 1)
        charge(store, draw(secret, 68))
        stand(store, **{secret: Standing(receipt="of the last report", epoch=EPOCH, candidate=b"E" * 16)})
        traces = [secret.encode(), b"A" * 16, b"C" * 16, b"D" * 16, b"E" * 16, b"of the last report"]
        assert all(trace in bytes_of(path) for trace in traces)
        store.erase(secret, ErasedMark(b"M" * 16, WINDOW))
        assert not any(trace in bytes_of(path) for trace in traces)
        assert other.encode() in bytes_of(path)
        store.close()

    def test_the_mark_of_somebody_erased_goes_with_the_window(self, path: Path) -> None:
        store = SqliteStore(path)
        store.add_people(["ann"])
        publish(store, EPOCH)
        store.erase("ann", ErasedMark(b"M" * 16, WINDOW))
        publish(store, EPOCH + 1)
        assert b"M" * 16 in bytes_of(path)
        publish(store, EPOCH + 2, window=WINDOW + 1)
        assert b"M" * 16 not in bytes_of(path)
        store.close()

    def test_what_was_replaced_or_withdrawn_is_gone_too(self, path: Path) -> None:
        store = SqliteStore(path)
        store.add_people(["ann", "bob"])
        put(store, draw("ann", 65), draw("bob", 66))
        put(store, draw("ann", 67), draw("bob", 66))
        stand(store, ann=Standing(receipt="ann before", epoch=EPOCH, candidate=b"D" * 16))
        stand(store, ann=Standing(receipt="ann after", epoch=EPOCH), bob=Standing(receipt="bob after", epoch=EPOCH))
        publish(store)
        assert b"A" * 16 not in bytes_of(path)
        assert b"ann after" in bytes_of(path)
        assert not any(trace in bytes_of(path) for trace in (b"D" * 16, b"ann before"))
        store.withdraw("bob")
        assert not any(trace in bytes_of(path) for trace in (b"bob at 66", b"bob after"))
        store.close()

    def test_a_reader_only_delays_it(self, path: Path) -> None:
        store = SqliteStore(path)
        store.add_people(["somebody-to-be-erased", "ann"])
        put(store, draw("somebody-to-be-erased"), draw("ann"))
        publish(store)
        # A reader that goes on seeing what was there when it began.
        with store._connections.reading() as reader:
            assert reader.one("SELECT count(*) FROM people") == (2,)
            put(store, draw("ann", 2))
            store.erase("somebody-to-be-erased")
            assert reader.one("SELECT count(*) FROM people") == (2,)
        put(store, draw("ann", 3))
        assert b"somebody-to-be-erased" not in bytes_of(path)
        store.close()

    def test_left_overs_of_moved_rows_are_gone_when_a_window_begins(self, path: Path) -> None:
        """Enough people coming and going that SQLite moves rows between pages all the time."""
        store = SqliteStore(path)
        here: list[str] = []
        gone: set[str] = set()
        publish(store)
        for seed in range(4):
            chance = np.random.default_rng(seed)
            for _ in range(30):
                new = [f"person-{chance.bytes(8).hex()}" for _ in range(100)]
                store.add_people(new)
                here += new
                chance.shuffle(here)
                leaving, here = here[: 3 * len(here) // 10], here[3 * len(here) // 10 :]
                gone.update(leaving)
                # As `erase` does, but without emptying the log each time.
                with store._connections.writing() as connection:
                    for person in leaving:
                        connection.run("DELETE FROM people WHERE id = ?", (person,))
        publish(store, EPOCH + 1, window=WINDOW + 1)
        content = bytes_of(path)
        assert not [person for person in gone if person.encode() in content]
        assert all(person.encode() in content for person in here)
        store.close()


class TestThreads:
    def test_a_transaction_in_a_transaction_is_refused(self, path: Path) -> None:
        store = SqliteStore(path)
        with store.writing(), pytest.raises(StoreError, match="open in this thread already"):
            store.add_people(["ann"])
        store.add_people(["ann"])
        store.close()
