"""PostGIS: a table with a GiST index, asked with ``<->``, in a private cluster."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from tests.services.postgres import PACKAGES, NoPostgresError, cluster, private_database

from benchmarks.peers.index_peer import Ids, Map

REMEDY = f"install {' and '.join(PACKAGES)}"
_ASK = "SELECT id FROM people ORDER BY place <-> ST_MakePoint(%s, %s) LIMIT %s"
_MOVE = "UPDATE people SET place = ST_MakePoint(%s, %s) WHERE id = %s"


class Postgis:
    """Everybody in a table."""

    def __init__(self, connection: psycopg.Connection, map_of_people: Map) -> None:
        self._connection = connection
        self._queries = map_of_people.queries_m.tolist()
        connection.execute("CREATE UNLOGGED TABLE people (id integer PRIMARY KEY, x float8, y float8, place geometry)")
        with connection.cursor() as cursor, cursor.copy("COPY people (id, x, y) FROM STDIN") as copy:
            for person, (x, y) in enumerate(map_of_people.people_m.tolist()):
                copy.write_row((person, x, y))
        connection.execute("UPDATE people SET place = ST_MakePoint(x, y)")
        connection.execute("CREATE INDEX ON people USING gist (place)")
        connection.execute("VACUUM ANALYZE people")

    def nearest(self, query: int, k: int) -> Ids:
        """Ask with a statement that is prepared once."""
        rows = self._connection.execute(_ASK, (*self._queries[query], k), prepare=True).fetchall()
        return [row[0] for row in rows]

    def move(self, person: int, query: int) -> None:
        """Move somebody."""
        self._connection.execute(_MOVE, (*self._queries[query], person), prepare=True)


@contextmanager
def postgis_with(map_of_people: Map) -> Iterator[Postgis | None]:
    """Run PostgreSQL with everybody in it; None where it is not installed."""
    if not _can_start():
        yield None
        return
    with private_database() as address, psycopg.connect(address, autocommit=True) as connection:
        yield Postgis(connection, map_of_people)


def _can_start() -> bool:
    """Look before starting, which would install it where it may."""
    if shutil.which("initdb") is None and not any(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        return False
    try:
        cluster()
    except NoPostgresError:
        return False
    return True
