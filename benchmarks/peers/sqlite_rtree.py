"""SQLite's R*Tree: it knows boxes only, so the k nearest are looked for in boxes that grow."""

import sqlite3

from benchmarks.peers.index_peer import Ids, Map

_IN_BOX = (
    "SELECT id, (x - ?1) * (x - ?1) + (y - ?2) * (y - ?2) AS square FROM people "
    "WHERE high_x >= ?1 - ?3 AND low_x <= ?1 + ?3 AND high_y >= ?2 - ?3 AND low_y <= ?2 + ?3 "
    "ORDER BY square LIMIT ?4"
)


class SqliteRTree:
    """Everybody in an R*Tree in memory, with exact places beside its boxes of single precision."""

    def __init__(self, map_of_people: Map) -> None:
        self._queries = map_of_people.queries_m.tolist()
        self._reach_m = map_of_people.first_reach_m
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        self._database.execute("CREATE VIRTUAL TABLE people USING rtree(id, low_x, high_x, low_y, high_y, +x, +y)")
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((person, x, x, y, y, x, y) for person, (x, y) in enumerate(map_of_people.people_m.tolist())),
        )
        self._database.execute("COMMIT")

    def nearest(self, query: int, k: int) -> Ids:
        """Look in a box, and in a larger one until the k-th is as near as the box is wide."""
        x, y = self._queries[query]
        reach_m = self._reach_m
        while True:
            rows = self._database.execute(_IN_BOX, (x, y, reach_m, k)).fetchall()
            if len(rows) == k and rows[-1][1] <= reach_m * reach_m:
                return [row[0] for row in rows]
            reach_m *= 2

    def move(self, person: int, query: int) -> None:
        """Move somebody."""
        x, y = self._queries[query]
        self._database.execute(
            "UPDATE people SET low_x = ?1, high_x = ?1, low_y = ?2, high_y = ?2, x = ?1, y = ?2 WHERE id = ?3",
            (x, y, person),
        )


def is_there() -> bool:
    """Whether SQLite was built with R*Trees."""
    with sqlite3.connect(":memory:") as database:
        options = [row[0] for row in database.execute("PRAGMA compile_options")]
    return "ENABLE_RTREE" in options
