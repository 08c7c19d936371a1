"""Redis: a geo set, asked with GEOSEARCH through a Unix socket."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers.index_peer import Ids, Map

REMEDY = "install redis-server 6.2 or newer"
_BATCH = 1000
_START_S = 30.0
Reply = int | bytes | list["Reply"] | None


class RedisGeo:
    """Everybody in a geo set; it keeps places to about half a metre and must be told how far to look."""

    def __init__(self, connection: socket.socket, map_of_people: Map) -> None:
        self._connection = connection
        self._replies = connection.makefile("rb")
        self._queries = [(repr(east), repr(north)) for north, east in map_of_people.queries_deg.tolist()]
        self._reach_m = map_of_people.first_reach_m
        people = map_of_people.people_deg.tolist()
        for first in range(0, len(people), _BATCH):
            some = enumerate(people[first : first + _BATCH], first)
            self._call("GEOADD", "people", *(word for person, (north, east) in some
                                             for word in (repr(east), repr(north), str(person))))  # fmt: skip

    def nearest(self, query: int, k: int) -> Ids:
        """Look around, and farther until there are k."""
        east, north = self._queries[query]
        reach_m = self._reach_m
        while True:
            found = self._call("GEOSEARCH", "people", "FROMLONLAT", east, north, "BYRADIUS", str(reach_m), "m",
                               "ASC", "COUNT", str(k))  # fmt: skip
            assert isinstance(found, list)
            if len(found) == k:
                return [int(person) for person in found if isinstance(person, bytes)]
            reach_m *= 2

    def move(self, person: int, query: int) -> None:
        """Move somebody."""
        self._call("GEOADD", "people", *self._queries[query], str(person))

    def _call(self, *words: str) -> Reply:
        parts = [f"*{len(words)}\r\n"] + [f"${len(word)}\r\n{word}\r\n" for word in words]
        self._connection.sendall("".join(parts).encode())
        return self._reply()

    def _reply(self) -> Reply:
        kind, rest = (line := self._replies.readline())[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        if kind == b"+":
            return rest
        raise RuntimeError(f"Redis says {line!r}")


@contextmanager
def redis_with(map_of_people: Map) -> Iterator[RedisGeo | None]:
    """Run Redis with everybody in it; None where it is not installed."""
    server = shutil.which("redis-server")
    if server is None:
        yield None
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "redis.sock"
        settings = ["--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no", "--dir", folder]
        with subprocess.Popen([server, *settings], stdout=subprocess.DEVNULL) as process:
            try:
                with _connected(path) as connection:
                    yield RedisGeo(connection, map_of_people)
            finally:
                process.terminate()


def _connected(path: Path) -> socket.socket:
    deadline = time.monotonic() + _START_S
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except OSError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return connection
