"""The live index beside scipy's KD-tree, SQLite's R*Tree, PostGIS and Redis: single questions, moves, and both."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import cycle

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.measuring.people import REGION, people_in_degrees
from benchmarks.measuring.results import Absent, Alone, Beside, Effort, Result
from benchmarks.measuring.timing import Contender, Times, in_turns
from benchmarks.peers import postgis, redis_geo, sqlite_rtree
from benchmarks.peers.index_peer import IndexPeer, Map
from benchmarks.peers.own_index import Published
from nearveil.nearby.stores.base import STEP_M

K = 10
LEAST_SPEED = 3.0
QUERIES = 20_000
US, LIVE, KERNEL = "Nearveil", "a question and a move", "a question in compiled code"
TREE, REBUILT = "scipy's KD-tree", "scipy's KD-tree, built anew"
SQLITE, POSTGIS, REDIS = "SQLite's R*Tree", "PostGIS", "Redis GEOSEARCH"
REMEDIES = {
    SQLITE: "install a Python whose SQLite has R*Trees",
    POSTGIS: postgis.REMEDY,
    REDIS: redis_geo.REMEDY,
}
# Redis rounds places to half a metre, and measures on a sphere.
LEAST_IN_COMMON = {REDIS: 0.8}

Peers = Mapping[str, IndexPeer]


def compare(effort: Effort) -> Iterator[Result]:
    """Compare with as many people as a large city has in such a service."""
    people = effort.of(1_000_000, 100_000)
    where = f"{people:,} people, k = {K}"
    effort.tell("putting everybody on the map")
    town, tree = _map(people)
    ours = Published(town)
    with ExitStack() as stack:
        effort.tell("filling the peers")
        peers = _peers(town, stack)
        _check_same(town, tree, {US: ours, **peers})
        asked = in_turns(_askers(effort, town, tree, ours, peers), effort.of(7, 2), effort.tell)
        moved = in_turns(_movers(effort, town, ours, peers), effort.of(5, 2), effort.tell)
    yield from _besides("question", where, TREE, asked, least_speed=effort.limit(LEAST_SPEED))
    for name in (LIVE, KERNEL):
        yield Beside(what=f"{name}, {where}", peer=TREE, ours=asked[name], theirs=asked[TREE], unit="question")
    yield Alone(what=f"moves, {where}", value=1 / moved[US].best, unit="moves/s")
    yield from _besides("move", where, REBUILT, moved)


def _besides(
    unit: str, where: str, tree: str, times: dict[str, Times], least_speed: float | None = None
) -> Iterator[Result]:
    what = f"a {unit}, {where}"
    for peer in (tree, SQLITE, POSTGIS, REDIS):
        if peer not in times:
            yield Absent(what=what, peer=peer, remedy=REMEDIES[peer])
            continue
        limit = least_speed if peer == tree else None
        yield Beside(what=what, peer=peer, ours=times[US], theirs=times[peer], unit=unit, least_speed=limit)


def _map(count: int) -> tuple[Map, cKDTree]:
    """Return people on the grid that stores keep them on and questions from beside some of them, and a tree of them."""
    people_m = np.rint(REGION.to_metres(people_in_degrees(count)) / STEP_M) * STEP_M
    rng = np.random.default_rng(1)
    inside_m = np.array(REGION.half_extent_m) - 10.0
    beside_m = people_m[rng.integers(count, size=QUERIES)] + rng.uniform(-5, 5, (QUERIES, 2))
    queries_m = np.clip(beside_m, -inside_m, inside_m)
    tree = cKDTree(people_m)
    # Whoever must be told how far to look is told what suffices for most.
    reach_m = float(np.quantile(tree.query(queries_m, K)[0][:, -1], 0.75))
    return Map(people_m, REGION.from_metres(people_m), queries_m, REGION.from_metres(queries_m), reach_m), tree


def _peers(town: Map, stack: ExitStack) -> Peers:
    """Return the peers that are there."""
    found: dict[str, IndexPeer | None] = {
        SQLITE: sqlite_rtree.SqliteRTree(town) if sqlite_rtree.is_there() else None,
        POSTGIS: stack.enter_context(postgis.postgis_with(town)),
        REDIS: stack.enter_context(redis_geo.redis_with(town)),
    }
    return {name: peer for name, peer in found.items() if peer is not None}


def _check_same(town: Map, tree: cKDTree, indexes: Peers) -> None:
    """Refuse to compare indexes that find others; people at one distance may come in any order."""
    for name, index in indexes.items():
        in_common = []
        for query in range(200):
            distances, _ = tree.query(town.queries_m[query], K)
            theirs = town.people_m[index.nearest(query, K)] - town.queries_m[query]
            in_common.append(np.mean(np.hypot(*theirs.T) <= distances[-1] + 1e-6))
        assert np.mean(in_common) >= LEAST_IN_COMMON.get(name, 1.0), f"{name} does not find the nearest"


def _askers(effort: Effort, town: Map, tree: cKDTree, ours: Published, peers: Peers) -> list[Contender]:
    many, few = effort.of(QUERIES, 2_000), effort.of(1_000, 200)
    places = list(town.queries_m)

    def ask_and_move(query: int) -> None:
        ours.ask(query, K)
        ours.move(query, query)

    return [
        _each(US, many, lambda query: ours.ask(query, K)),
        _each(TREE, many, lambda query: tree.query(places[query], K)),
        Contender(KERNEL, lambda: ours.ask_all(town.queries_m[:many], K), many),
        *(_each(name, few, _asking(peer)) for name, peer in peers.items()),
        _each(LIVE, many, ask_and_move),
    ]


def _movers(effort: Effort, town: Map, ours: Published, peers: Peers) -> list[Contender]:
    many, few = effort.of(QUERIES, 2_000), effort.of(1_000, 200)
    people = cycle(np.random.default_rng(2).permutation(len(town.people_m)).tolist())

    def moving(index: IndexPeer) -> Callable[[int], object]:
        return lambda query: index.move(next(people), query)

    return [
        _each(US, many, moving(ours)),
        Contender(REBUILT, lambda: cKDTree(town.people_m)),
        *(_each(name, few, moving(peer)) for name, peer in peers.items()),
    ]


def _asking(index: IndexPeer) -> Callable[[int], object]:
    return lambda query: index.nearest(query, K)


def _each(name: str, count: int, work: Callable[[int], object]) -> Contender:
    """One query after the other, as they come in."""

    def work_through() -> None:
        for query in range(count):
            work(query)

    return Contender(name, work_through, count)
