"""``nearveil import``: from files and tables into a store; mistakes are one sentence and change nothing."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from nearveil.nearby.publishing.keys import new_keys, write_keys
from nearveil.nearby.stores import open_store
from tests.cli.conftest import Run
from tests.services.postgres import postgis_cluster, private_database

__all__ = ["postgis_cluster"]

ROWS = "id,lat,lng\nann,37.77,-122.42\nbob,37.60,-122.30\ncem,0.0,0.0\n"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(ROWS, encoding="utf-8")
    return path


@pytest.fixture
def database(postgis_cluster: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with a table of users, some of them in another reference system."""
    del postgis_cluster
    with private_database() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS postgis")
            connection.execute("CREATE SCHEMA app")
            connection.execute(
                'CREATE TABLE app."Users" (number bigint, geom geometry, web geometry, lat float8, lng float8)'
            )
            connection.execute(
                'INSERT INTO app."Users" SELECT number, ST_SetSRID(ST_MakePoint(-122.42, 37.77), 4326), '
                "ST_Transform(ST_SetSRID(ST_MakePoint(-122.42, 37.77), 4326), 3857), 37.77, -122.42 "
                "FROM generate_series(1, 50) AS number"
            )
            connection.execute('INSERT INTO app."Users" VALUES (51, NULL, NULL, NULL, NULL)')
        monkeypatch.setenv("NEARVEIL_IMPORT_FROM", address)
        yield address


def total(path: Path | str) -> int:
    with closing(open_store(str(path))) as store:
        return store.totals().people


def test_a_file(run: Run, people: Path, tmp_path: Path) -> None:
    store = tmp_path / "data" / "nearveil.db"
    first = run("import", people, "--store", store, "--region", "san-francisco")
    assert first.code == 0
    assert "2 of 3 people were taken" in first.out
    assert "1 have no location in the region" in first.err
    again = run("import", people, "--store", store, "--region", "san-francisco")
    assert (again.code, total(store)) == (0, 2)
    assert "0 of 3 people were taken" in again.out
    assert "2 were there before" in again.out


@pytest.mark.parametrize(
    "columns", [("--location", "geom"), ("--location", "web"), ("--latitude", "lat", "--longitude", "lng")]
)
def test_a_table(run: Run, database: str, tmp_path: Path, columns: tuple[str, ...]) -> None:
    store = tmp_path / "data" / "nearveil.db"
    done = run("import", "--table", "app.Users", "--id", "number", *columns, "--store", store)
    assert done.code == 0, done.err
    assert "50 of 51 people were taken" in done.out
    assert database not in done.out + done.err


def test_into_the_same_database(run: Run, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_keys(tmp_path / "keys.json", new_keys())
    monkeypatch.setenv("NEARVEIL_STORE", database)
    wanted = (
        "import",
        "--table",
        "app.Users",
        "--id",
        "number",
        "--location",
        "geom",
        "--keys",
        tmp_path / "keys.json",
    )
    assert "50 of 51 people were taken" in run(*wanted).out
    assert "0 of 51 people were taken" in run(*wanted).out
    assert total(database) == 50


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "name a file or a database"),
        (("people.csv", "--table", "users"), "--table is for databases"),
        (("people.csv", "--id", "name"), "name"),
        (("nothing.csv",), "nothing.csv"),
        (("postgresql://ann:secret@127.0.0.1/app", "--table", "users"), "NEARVEIL_IMPORT_FROM"),
        (("postgresql://ann@127.0.0.1/app",), "--table"),
        (("postgresql://ann@127.0.0.1/app", "--table", "users"), "--location COLUMN"),
        (("postgresql://ann@127.0.0.1:1/app", "--table", "users", "--location", "geom"), "the database cannot be read"),
        (("people.csv", "--region", "atlantis"), "atlantis"),
    ],
)
def test_mistakes(
    run: Run, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    del people
    monkeypatch.chdir(tmp_path)
    done = run("import", *arguments, "--store", tmp_path / "data" / "nearveil.db")
    assert done.code in (2, 3)
    assert sentence in done.err
    assert "secret" not in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(("table", "column"), [("nowhere", "geom"), ("app.Users", "nowhere"), ("app.Users", "lat")])
def test_tables_and_columns_that_are_not_there(
    run: Run, database: str, tmp_path: Path, table: str, column: str
) -> None:
    del database
    done = run("import", "--table", table, "--id", "number", "--location", column, "--store", tmp_path / "nearveil.db")
    assert done.code == 3
    assert "the table cannot be read" in done.err


def test_an_error_of_the_database_quotes_no_value(run: Run, database: str, tmp_path: Path) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE texts (number int, lat text, lng text)")
        connection.execute("INSERT INTO texts VALUES (1, '37.7654321 N', '-122.42')")
    columns = ("--latitude", "lat", "--longitude", "lng")
    done = run("import", "--table", "texts", "--id", "number", *columns, "--store", tmp_path / "nearveil.db")
    assert done.code == 3
    assert "the table cannot be read" in done.err
    assert "37.7654321" not in done.out + done.err


def test_a_store_that_is_in_use(run: Run, people: Path, tmp_path: Path) -> None:
    path = tmp_path / "data" / "nearveil.db"
    assert run("import", people, "--store", path).code == 0
    with closing(open_store(str(path))):
        done = run("import", people, "--store", path)
    assert done.code != 0
    assert "use" in done.err


def test_another_distance_than_the_service_has(run: Run, people: Path, tmp_path: Path) -> None:
    path = tmp_path / "data" / "nearveil.db"
    run("import", people, "--store", path, "--noise", "800m")
    done = run("import", people, "--store", path, "--noise", "500m")
    assert done.code == 2
    assert "noise" in done.err
