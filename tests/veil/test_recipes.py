"""The recipes of the guide, as the page has them, on a real PostGIS with an ordinary role and on a real Redis."""

import json
import re
import secrets
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nearveil import Veil
from tests.services.postgres import postgis_cluster, private_database, run_sql
from tests.services.redis_server import running_redis

__all__ = ["postgis_cluster"]

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "veil.md").read_text(encoding="utf-8")
VEIL = Veil("5e" * 32, noise_m=500)
WORK, POLE = (52.50, 13.45), (90.0, 0.0)
# Two locations 11 m apart, with the border of a cell between them.
NORTH = [(52.52 + step * 1e-4, 13.405) for step in range(100)]
HOME, BESIDE = next(pair for pair in pairwise(NORTH) if len({VEIL.blur("ann", *at) for at in pair}) > 1)


def blocks(heading: str, language: str) -> list[str]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def functions(heading: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(blocks(heading, "py")[0], heading, "exec"), found)  # noqa: S102
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
    table, column, nearby = (block.encode() for block in blocks("PostGIS", "sql"))
    visit = functions("PostGIS")["visit"]
    for statement in (table, b"INSERT INTO visits (user_id) VALUES ('ann')", column):
        database.execute(statement)
    for location in (HOME, WORK, BESIDE, (0.0, -180.0), POLE):
        visit(database, VEIL, "ann", *location, 250)
    visit(database, VEIL, "bob", *HOME)
    found = database.execute(b"SELECT ST_Y(location::geometry), ST_X(location::geometry) FROM visits ORDER BY id")
    home, work = VEIL.blur("ann", *HOME), VEIL.blur("ann", *WORK)
    assert found.fetchall()[1:4] == [home, work, home]

    assert database.execute(nearby).fetchall() == [("bob",)]
    visit(database, VEIL, "ann", *HOME)
    assert sorted(database.execute(nearby).fetchall()) == [("ann",), ("bob",)]
    database.execute("SET enable_seqscan = off")
    assert "visits_location" in str(database.execute(b"EXPLAIN " + nearby).fetchall())


def test_redis() -> None:
    visit, nearby = (functions("Redis GEO")[name] for name in ("visit", "nearby"))
    with running_redis() as server, server.client() as redis:
        visit(redis, VEIL, "bob", *HOME)
        for location in (WORK, HOME, BESIDE, BESIDE):
            visit(redis, VEIL, "ann", *location, 250)
        known = [tuple(json.loads(each)) for each in redis.lrange("known:ann", 0, -1)]
        assert known == [VEIL.blur("ann", *WORK), VEIL.blur("ann", *HOME)]
        ((longitude, latitude),) = redis.geopos("users", "ann")
        assert VEIL.blur("ann", *BESIDE, known=[(latitude, longitude)], accuracy_m=250) == known[1]
        assert sorted(nearby(redis, *HOME)) == ["ann", "bob"]
        visit(redis, VEIL, "ann", *POLE)
        assert nearby(redis, *HOME) == ["bob"]
