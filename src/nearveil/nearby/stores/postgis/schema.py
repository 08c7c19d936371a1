"""The tables in PostgreSQL, and how a database of an earlier version becomes one of this."""

from __future__ import annotations

from psycopg import Connection, errors, sql

from nearveil.nearby.stores.base import StoreError

SCHEMA = "nearveil"
MIGRATION_LOCK = 0x6E76_0001
"""Advisory lock: whoever changes the tables is alone at it."""

_DRAWS = """
    CREATE TABLE DRAWS (
        person bigint PRIMARY KEY REFERENCES people (number) ON DELETE CASCADE,
        x_steps integer NOT NULL,
        y_steps integer NOT NULL,
        tag bytea NOT NULL,
        in_window bigint NOT NULL,
        receipt text NOT NULL,
        epoch bigint NOT NULL
    )"""

# Steps are never changed once released; a new version of the tables is a new step at the end.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE people (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE,
            created_s bigint NOT NULL
        )""",
        _DRAWS.replace("DRAWS", "pending"),
        _DRAWS.replace("DRAWS", "published"),
        """CREATE TABLE charges (
            in_window bigint NOT NULL,
            person bigint NOT NULL,
            tag bytea NOT NULL,
            PRIMARY KEY (in_window, person, tag)
        )""",
        "CREATE TABLE charged (in_window bigint PRIMARY KEY, places bigint NOT NULL)",
        "CREATE TABLE epochs (epoch bigint PRIMARY KEY)",
        "CREATE TABLE platform_keys (name text PRIMARY KEY, digest bytea NOT NULL)",
        "CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL)",
        # Metres east and north of the region's centre, after the move to the intervals.
        """CREATE TABLE places (
            person bigint PRIMARY KEY REFERENCES published (person) ON DELETE CASCADE,
            place geometry(Point, 0) NOT NULL
        )""",
        "CREATE INDEX places_by_place ON places USING gist (place)",
    ),
    ("ALTER TABLE people ADD COLUMN token_mark bigint NOT NULL DEFAULT 0",),
)


def migrate(connection: Connection) -> str:
    """Take every step that a database has not seen, all or none; return the schema that PostGIS is in."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
    postgis = _postgis_schema(connection)
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
    connection.execute(search_path(postgis))
    connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
    row = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    version = (row[0] or 0) if row else 0
    if version > len(MIGRATIONS):
        raise StoreError("the database was written by a later version of Nearveil; use that one")
    for number in range(version + 1, len(MIGRATIONS) + 1):
        for statement in MIGRATIONS[number - 1]:
            connection.execute(statement.encode())
        connection.execute("INSERT INTO schema_version (version) VALUES (%s)", (number,))
    connection.commit()
    return postgis


def search_path(postgis: str) -> sql.Composed:
    """Return the statement after which our tables and PostGIS's functions are found by their names."""
    return sql.SQL("SET search_path TO {}, {}").format(sql.Identifier(SCHEMA), sql.Identifier(postgis))


def _postgis_schema(connection: Connection) -> str:
    query = """
        SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'postgis'"""
    row = connection.execute(query).fetchone()
    if row is None:
        try:
            connection.execute("CREATE EXTENSION postgis")
        except (errors.InsufficientPrivilege, errors.UndefinedFile, errors.FeatureNotSupported):
            raise StoreError(
                "the database has no PostGIS; let its administrator install it and run CREATE EXTENSION postgis there"
            ) from None
        row = connection.execute(query).fetchone()
    return str(row[0]) if row else "public"
