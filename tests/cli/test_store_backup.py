"""``nearveil store backup``, ``restore`` and ``check``: whole copies of a store in use; what is wrong is a sentence."""

import re
import shlex
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.nearby.stores import open_store
from nearveil.nearby.stores._sqlite_connections import VERSION
from nearveil.nearby.stores.sqlite import SqliteStore
from nearveil.server.service import Service
from nearveil.server.settings import Settings
from tests.cli.conftest import Run
from tests.nearby.stores.draws import draw
from tests.services.postgres import Cluster, postgis_cluster, private_database

__all__ = ["postgis_cluster"]

OPERATING = Path(__file__).parents[2] / "docs" / "guides" / "operating.md"


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARVEIL_REGION", "san-francisco")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The store of a service, with 500 people of whom one is published, and its keys beside it."""
    path = tmp_path / "data" / "nearveil.db"
    with closing(Service.open(Settings.load(None, {}, {"store": str(path), "region": "san-francisco"}))) as service:
        service.store.add_people([f"person-{number}" for number in range(500)])
        with service.store.writing() as writing:
            writing.put_pending([draw("person-1")], 1)
        service.store.publish(1, window=0)
    return path


def people(path: Path) -> int:
    with closing(open_store(str(path))) as opened:
        return opened.totals().people


def damage(path: Path) -> None:
    """Overwrite pages in the middle of the file."""
    content = bytearray(path.read_bytes())
    content[4096 * 4 : 4096 * 8] = b"\x5a" * (4096 * 4)
    path.write_bytes(content)


def test_a_store_in_use_is_copied_as_of_one_moment_and_restored(run: Run, store: Path, tmp_path: Path) -> None:
    """What is erased is not in the copy, nor is what is being written; only its owner can read it."""
    copy, elsewhere = tmp_path / "backup.db", tmp_path / "other" / "nearveil.db"
    with closing(SqliteStore(store)) as opened:
        opened.erase("person-77")
        # Still in the log beside the file.
        opened.add_people(["newcomer"])
        with opened._connections.writing() as connection:
            connection.run("INSERT INTO people (id, created_s, token_mark) VALUES ('half-written', 1, 1)")
            done = run("store", "backup", copy, "--store", store)
    assert (done.code, done.err) == (0, "")
    assert f"500 people and 1 published locations are in {copy}; the key file is not" in done.out
    assert copy.stat().st_mode & 0o777 == 0o600
    assert b"newcomer" in copy.read_bytes()
    assert not any(gone in copy.read_bytes() for gone in (b"person-77", b"half-written"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.db", "data"]

    restored = run("store", "restore", copy, "--store", elsewhere)
    assert (restored.code, "500 people and 1 published locations were restored" in restored.out) == (0, True)
    assert [word for word in ("erased", "platform keys", "budget", "receipts") if word not in restored.err] == []
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    (elsewhere.parent / "keys.json").write_bytes((store.parent / "keys.json").read_bytes())
    (elsewhere.parent / "keys.json").chmod(0o600)
    assert run("store", "check", elsewhere).code == 0
    Service.open(Settings.load(None, {}, {"store": str(elsewhere), "region": "san-francisco"})).close()
    assert people(elsewhere) == 500


def _text(path: Path) -> None:
    path.write_text("no database, but long enough for somebody to take it for one " * 20)


def _others(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text)")


def _later(path: Path) -> None:
    with closing(open_store(str(path))):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")


def _damaged(path: Path) -> None:
    with closing(open_store(str(path))) as opened:
        opened.add_people([f"person-{number}" for number in range(2000)])
    damage(path)


def _orphaned(path: Path) -> None:
    with closing(open_store(str(path))) as opened:
        opened.add_people(["ann"])
        with opened.writing() as writing:
            writing.put_pending([draw("ann")], 1)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM people")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_text, "is no Nearveil store"),
        (_others, "another program's database"),
        (_later, "another version"),
        (_damaged, "damaged"),
        (_orphaned, "1 of its rows belong to nobody"),
    ],
)
def test_what_is_no_sound_store_is_neither_copied_nor_restored(
    run: Run, tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    make(tmp_path / "given.db")
    (tmp_path / "given.db.lock").unlink(missing_ok=True)
    before = (tmp_path / "given.db").read_bytes()
    backed_up = run("store", "backup", tmp_path / "copy.db", "--store", tmp_path / "given.db")
    restored = run("store", "restore", tmp_path / "given.db", "--store", tmp_path / "new.db")
    for refused in (backed_up, restored):
        assert (refused.code, refused.err.count("\n"), words in refused.err) == (4, 1, True), refused.err
        assert "given.db" in refused.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given.db", "new.db.lock"]
    assert (tmp_path / "given.db").read_bytes() == before


def test_nothing_is_overwritten_and_what_is_missing_is_named(run: Run, store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "backup.db"
    assert run("store", "backup", copy, "--store", store).code == 0
    kept = copy.read_bytes()
    left_over = tmp_path / "new.db-wal"
    left_over.touch()
    for words, code, *arguments in (
        ("is there already and is not replaced", 2, "backup", copy, "--store", store),
        ("is there already and is not replaced", 2, "restore", copy, "--store", store),
        (f"{left_over} is there already", 2, "restore", copy, "--store", tmp_path / "new.db"),
        ("there is no such store", 2, "backup", tmp_path / "b.db", "--store", tmp_path / "none.db"),
        ("there is no backup", 2, "restore", tmp_path / "none.db", "--store", tmp_path / "b.db"),
        ("there is no such store", 2, "check", tmp_path / "none.db"),
        ("cannot be written (No such file or directory)", 4, "backup", tmp_path / "no" / "b.db", "--store", store),
        ("PostgreSQL's own tools", 2, "backup", copy, "--store", "postgresql://db/nearveil"),
        ("PostgreSQL's own tools", 2, "restore", copy, "--store", "postgresql://db/nearveil"),
    ):
        refused = run("store", *arguments)
        assert (refused.code, refused.err.count("\n"), words in refused.err) == (code, 1, True), refused.err
    assert copy.read_bytes() == kept
    with closing(open_store(str(store))):
        assert "another process uses the store" in run("store", "restore", copy, "--store", store).err


def test_a_check_finds_what_is_wrong(run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_store(str(store))):
        sound = run("store", "check", store)
    assert (sound.code, sound.err) == (0, "")
    assert "500 people, 1 published, 0 noisy location(s) wait" in sound.out
    assert sound.out.count("in order: ") == 4

    def found(*options: object) -> str:
        unsound = run("store", "check", store, *options)
        assert (unsound.code, unsound.err.count("\n")) == (3, 1), unsound.err
        return unsound.err

    write_keys(tmp_path / "other.json", new_keys())
    assert "made with another key file" in found("--keys", tmp_path / "other.json")
    monkeypatch.setenv("NEARVEIL_NOISE", "300m")
    assert "made with --noise 500m, and the service is given --noise 300m" in found()
    monkeypatch.delenv("NEARVEIL_NOISE")
    store.chmod(0o644)
    assert "others on this machine can read" in found()
    store.chmod(0o600)
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("INSERT INTO epochs VALUES (100000000)")
    assert "ahead of this machine's clock" in found()
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM epochs WHERE epoch = 100000000")
    (store.parent / "keys.json").rename(tmp_path / "away.json")
    assert "no key file was found" in found()
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("DELETE FROM people WHERE id = 'person-1'")
    assert "of its rows belong to nobody" in found()
    damage(store)
    assert "damaged" in run("store", "check", store).err


def test_the_commands_of_the_page_copy_a_database(
    run: Run, postgis_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pg_dump and pg_restore as docs/guides/operating.md shows them, with another address and file."""
    shown = re.findall(r"^    ((?:pg_dump|pg_restore) .*)$", OPERATING.read_text(encoding="utf-8"), re.MULTILINE)
    assert [line.split()[0] for line in shown] == ["pg_dump", "pg_restore"]
    with private_database() as before, private_database() as after:
        with closing(open_store(before)) as opened:
            opened.add_people(["ann", "bob"])
            with opened.writing() as writing:
                writing.put_pending([draw("ann")], 1)
            opened.publish(1, window=0)
        for line, address in zip(shown, (before, after), strict=True):
            here = line.replace("postgresql://nearveil@db/nearveil", address)
            program, *arguments = shlex.split(here)
            subprocess.run([postgis_cluster.binaries / program, *arguments], check=True, cwd=tmp_path)
        with closing(open_store(after)) as opened:
            assert (opened.totals().people, opened.totals().published, opened.last_epoch()) == (2, 1, 1)
        monkeypatch.setenv("NEARVEIL_STORE", after)
        write_keys(tmp_path / "keys.json", new_keys())
        checked = run("store", "check", "--keys", tmp_path / "keys.json")
        assert (checked.code, "2 people, 1 published" in checked.out) == (0, True), checked.err
