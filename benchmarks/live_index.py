"""The service's index in memory beside scipy's KD-tree, PostGIS and Redis: queries and moves, one at a time."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import psycopg
import redis
from scipy.spatial import cKDTree
from tests.services.postgres import NoPostgresError, private_database
from tests.services.redis_server import running_redis

from benchmarks.measure import Row, Work, in_turns, timed
from benchmarks.users import REGION, city
from nearveil.nearby.index import NearbyIndex
from nearveil.nearby.stores.base import STEP_M, PublishedBatch
from nearveil.randomness import KEY_BYTES
from nearveil.types import FloatArray

K = 10
QUERIES, SLOW_QUERIES = 20_000, 1_000
OURS, POSTGIS, REDIS = "Nearveil", "PostGIS", "Redis GEOSEARCH"
TREE, REBUILT = "scipy's KD-tree", "scipy's KD-tree, built again"
# Redis rounds locations to half a meter and measures on a sphere.
LEAST_IN_COMMON = {REDIS: 0.8}

Ids = Sequence[int | str | bytes]


@dataclass(frozen=True, eq=False)
class Town:
    """Users and queries in meters, shape (n, 2), and how far the tenth user is from most queries."""

    users_m: FloatArray
    queries_m: FloatArray
    reach_m: float


class Index(Protocol):
    """What is compared; users and queries go by number."""

    def nearest(self, query: int) -> Ids:
        """Return the users nearest to a query, nearest first."""

    def move(self, user: int, query: int) -> None:
        """Move a user to where a query is."""


class NearveilIndex:
    """The index of the service, through its public calls."""

    def __init__(self, town: Town) -> None:
        self._queries: list[tuple[float, float]] = [(x, y) for x, y in town.queries_m.tolist()]
        self._index: NearbyIndex[str] = NearbyIndex(REGION)
        self._ids = [str(user) for user in range(len(town.users_m))]
        users = PublishedBatch(self._ids, np.rint(town.users_m / STEP_M).astype(np.int64))
        self._index.load([users], lambda steps: steps.astype(np.float64) * STEP_M, bytes(KEY_BYTES))

    def nearest(self, query: int) -> Ids:
        """Return users nearest first."""
        return self._index.ranked_metres(*self._queries[query], K)

    def move(self, user: int, query: int) -> None:
        """Move a user."""
        self._index.move(self._ids[user], *self._queries[query])


class Postgis:
    """A table with a GiST index, asked with prepared statements."""

    def __init__(self, connection: psycopg.Connection, town: Town) -> None:
        self._connection, self._queries = connection, town.queries_m.tolist()
        connection.execute("CREATE UNLOGGED TABLE users (id integer PRIMARY KEY, x float8, y float8, place geometry)")
        with connection.cursor() as cursor, cursor.copy("COPY users (id, x, y) FROM STDIN") as copy:
            for user, (x, y) in enumerate(town.users_m.tolist()):
                copy.write_row((user, x, y))
        connection.execute("UPDATE users SET place = ST_MakePoint(x, y)")
        connection.execute("CREATE INDEX ON users USING gist (place)")
        connection.execute("VACUUM ANALYZE users")

    def nearest(self, query: int) -> Ids:
        """Return users nearest first."""
        statement = "SELECT id FROM users ORDER BY place <-> ST_MakePoint(%s, %s) LIMIT %s"
        return [row[0] for row in self._connection.execute(statement, (*self._queries[query], K), prepare=True)]

    def move(self, user: int, query: int) -> None:
        """Move a user."""
        statement = "UPDATE users SET place = ST_MakePoint(%s, %s) WHERE id = %s"
        self._connection.execute(statement, (*self._queries[query], user), prepare=True)


class RedisGeo:
    """A geo set; it must be told how far to look."""

    def __init__(self, client: redis.Redis, town: Town) -> None:
        self._client: Any = client
        self._reach_m = town.reach_m
        self._queries = REGION.from_metres(town.queries_m).tolist()
        users = enumerate(REGION.from_metres(town.users_m).tolist())
        while some := [value for user, (north, east) in islice(users, 10_000) for value in (east, north, user)]:
            client.geoadd("users", some)

    def nearest(self, query: int) -> Ids:
        """Look around, and farther until there are enough."""
        (north, east), reach_m = self._queries[query], self._reach_m
        place = {"longitude": east, "latitude": north, "unit": "m"}
        while len(found := self._client.geosearch("users", **place, radius=reach_m, sort="ASC", count=K)) < K:
            reach_m *= 2
        users: list[bytes] = found
        return users

    def move(self, user: int, query: int) -> None:
        """Move a user."""
        north, east = self._queries[query]
        self._client.geoadd("users", [east, north, user])


def compare(scale: float, rounds: int) -> Iterator[Row]:
    """Compare with as many users as a large city has in such a service."""
    count = round(1_000_000 * scale)
    town, tree = _town(count)
    with ExitStack() as stack:
        indexes: dict[str, Index] = {OURS: NearveilIndex(town), **dict(_peers(town, stack))}
        _check_same(town, tree, indexes)
        places, users = list(town.queries_m), cycle(np.random.default_rng(2).permutation(count).tolist())

        def asking(index: Index) -> Callable[[int], object]:
            return index.nearest

        def moving(index: Index) -> Callable[[int], object]:
            return lambda query: index.move(next(users), query)

        asked = {name: _each(name, asking(index)) for name, index in indexes.items()}
        asked[TREE] = _each(TREE, lambda query: tree.query(places[query], K))
        moved = {name: _each(name, moving(index)) for name, index in indexes.items()}
        moved[REBUILT] = timed(lambda: cKDTree(town.users_m))
        for what, work in (("a query", asked), ("a move", moved)):
            times = in_turns(work, rounds)
            for peer in list(work)[1:]:
                yield Row(f"index, {what}, {count:,} users, k = {K}", peer, times[OURS], times[peer])


def _town(count: int) -> tuple[Town, cKDTree]:
    """Return users on the grid of the stores, with queries beside some of them, and a tree of the users."""
    users_m = np.rint(REGION.to_metres(city(count)) / STEP_M) * STEP_M
    rng = np.random.default_rng(1)
    inside_m = np.array(REGION.half_extent_m) - 10.0
    queries_m = users_m[rng.integers(count, size=QUERIES)] + rng.uniform(-5, 5, (QUERIES, 2))
    queries_m = np.clip(queries_m, -inside_m, inside_m)
    tree = cKDTree(users_m)
    return Town(users_m, queries_m, float(np.quantile(tree.query(queries_m, K)[0][:, -1], 0.75))), tree


def _peers(town: Town, stack: ExitStack) -> Iterator[tuple[str, Index]]:
    """Start the databases that are installed."""
    try:
        address = stack.enter_context(private_database())
        connection = stack.enter_context(psycopg.connect(address, autocommit=True))
        yield POSTGIS, Postgis(connection, town)
    except NoPostgresError as error:
        print(error, file=sys.stderr)
    if shutil.which("redis-server"):
        path = str(Path(stack.enter_context(TemporaryDirectory())) / "redis.sock")
        stack.enter_context(running_redis("--unixsocket", path))
        yield REDIS, RedisGeo(stack.enter_context(redis.Redis(unix_socket_path=path)), town)
    else:
        print("Redis is not here; install redis-server", file=sys.stderr)


def _check_same(town: Town, tree: cKDTree, indexes: dict[str, Index]) -> None:
    """Refuse to compare indexes that find others; users at one distance may come in any order."""
    for name, index in indexes.items():
        in_common = []
        for query in range(200):
            distances_m, _ = tree.query(town.queries_m[query], K)
            found_m = town.users_m[[int(user) for user in index.nearest(query)]]
            away_m = np.linalg.norm(found_m - town.queries_m[query], axis=1)
            in_common.append(np.mean(away_m <= distances_m[-1] + 1e-6))
        assert np.mean(in_common) >= LEAST_IN_COMMON.get(name, 1.0), f"{name} does not find the nearest"


def _each(name: str, work: Callable[[int], object]) -> Work:
    """Do one query after the other, fewer of those that are slow."""
    count = QUERIES if name in {OURS, TREE} else SLOW_QUERIES

    def work_through() -> None:
        for query in range(count):
            work(query)

    return timed(work_through, count)
