"""The recipes of the guide, as the page has them, on a real PostGIS with an ordinary role and on a real Redis."""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nearveil.veil import Veil
from tests.services.postgres import postgis_cluster, private_database, run_sql
from tests.services.redis_server import RedisServer, running_redis

__all__ = ["postgis_cluster"]

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "veil.md").read_text(encoding="utf-8")
VEIL = Veil("5e" * 32, noise_m=500)
HOME, WORK = (52.52, 13.405), (52.50, 13.45)


def blocks(heading: str, language: str) -> list[str]:
    section = re.search(rf"^## {heading}\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None
    return re.findall(rf"^```{language}\n(.*?)^```", section[1], re.DOTALL | re.MULTILINE)


def functions(heading: str) -> dict[str, Any]:
    (code,) = blocks(heading, "py")
    found: dict[str, Any] = {}
    exec(compile(code, heading, "exec"), found)  # noqa: S102
    return found


@pytest.fixture
def database(postgis_cluster: object) -> Iterator[psycopg.Connection]:
    """A connection of a role that may do nothing but make tables in a schema of its own."""
    del postgis_cluster
    role = f"app_{secrets.token_hex(4)}"
    with private_database() as address:
        run_sql(address, f"CREATE ROLE {role} LOGIN", f"CREATE SCHEMA {role} AUTHORIZATION {role}")
        try:
            with psycopg.connect(address.replace("//tester", f"//{role}"), autocommit=True) as connection:
                yield connection
        finally:
            run_sql(address, f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


def test_postgis(database: psycopg.Connection) -> None:
    table, column, nearby = blocks("PostGIS", "sql")
    visit = functions("PostGIS")["visit"]
    database.execute(table.encode())
    database.execute("INSERT INTO visits (user_id) VALUES ('ann')")
    database.execute(column.encode())
    assert database.execute("SELECT usesuper FROM pg_user WHERE usename = current_user").fetchone() == (False,)

    for location in (HOME, WORK, (HOME[0] + 1e-4, HOME[1]), (0.0, -180.0), (90.0, 0.0)):
        visit(database, VEIL, "ann", *location, 30)
    visit(database, VEIL, "bob", *HOME)
    stored = (
        "SELECT ST_Y(location::geometry), ST_X(location::geometry) FROM visits WHERE location IS NOT NULL ORDER BY id"
    )
    home, work, jitter, *_, bob = database.execute(stored.encode()).fetchall()
    assert home == jitter == VEIL.blur("ann", *HOME)
    assert work == VEIL.blur("ann", *WORK)
    assert bob != home

    # Ann was last seen at a pole, and then at home.
    assert database.execute(nearby.encode()).fetchall() == [("bob",)]
    visit(database, VEIL, "ann", *HOME)
    assert sorted(database.execute(nearby.encode()).fetchall()) == [("ann",), ("bob",)]
    database.execute("SET enable_seqscan = off")
    plan = database.execute(b"EXPLAIN " + nearby.encode()).fetchall()
    assert "visits_location" in str(plan)


def test_an_answer_of_a_neighboring_cell_is_known_to_the_recipe(database: psycopg.Connection) -> None:
    table, column, _ = blocks("PostGIS", "sql")
    visit = functions("PostGIS")["visit"]
    database.execute((table + column).encode())
    step = next(step for step in range(1, 100) if VEIL.blur("ann", *moved(step)) != VEIL.blur("ann", *HOME))
    visit(database, VEIL, "ann", *moved(step))
    visit(database, VEIL, "ann", *moved(step - 1), 250)
    assert database.execute("SELECT count(*), count(DISTINCT location) FROM visits").fetchone() == (2, 1)


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


def test_redis(redis_server: RedisServer) -> None:
    recipe = functions("Redis GEO")
    visit, nearby = recipe["visit"], recipe["nearby"]
    step = next(step for step in range(1, 100) if VEIL.blur("ann", *moved(step)) != VEIL.blur("ann", *HOME))
    with redis_server.client() as redis:
        visit(redis, VEIL, "bob", *HOME)
        visit(redis, VEIL, "ann", *WORK)
        for location in (moved(step), moved(step - 1), moved(step - 1)):
            visit(redis, VEIL, "ann", *location, 250)
        home = VEIL.blur("ann", *moved(step))
        assert redis.lrange("known:ann", 0, -1) == [str(list(each)) for each in (VEIL.blur("ann", *WORK), home)]
        ((longitude, latitude),) = redis.geopos("users", "ann")
        # What Redis has kept is recognized.
        assert VEIL.blur("ann", *moved(step - 1), known=[(latitude, longitude)], accuracy_m=250) == home
        assert sorted(nearby(redis, *HOME)) == ["ann", "bob"]
        visit(redis, VEIL, "ann", 89.0, 0.0)
        assert nearby(redis, *HOME) == ["bob"]
        visit(redis, VEIL, "cem", 0.0, 180.0)
        assert nearby(redis, 0.0, -179.9999) == nearby(redis, 0.0, 179.9999) == ["cem"]


def moved(step: int) -> tuple[float, float]:
    """Return a location some meters north of home."""
    return HOME[0] + step * 1e-4, HOME[1]
