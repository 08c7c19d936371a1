"""Questions that PostGIS answers itself, where no index in memory is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nearveil.nearby.stores._postgis_connections import Session
from nearveil.nearby.stores.base import LeftError
from nearveil.types import FloatArray

_ARRIVE = "CREATE TEMPORARY TABLE arriving (id text, x_m double precision, y_m double precision) ON COMMIT DROP"
_COPY = "COPY arriving (id, x_m, y_m) FROM STDIN"
# Who was erased or taken off the map meanwhile is left out.
_KEEP = """
    INSERT INTO places (person, place)
    SELECT published.person, ST_MakePoint(arriving.x_m, arriving.y_m)
    FROM arriving JOIN people ON people.id = arriving.id JOIN published ON published.person = people.number
    ORDER BY published.person
    ON CONFLICT (person) DO UPDATE SET place = excluded.place"""

_DISTANCE = "places.place <-> ST_MakePoint(%(x_m)s, %(y_m)s)"
_TIE = "sha256(%(tie_key)s || convert_to(people.id, 'UTF8'))"
# Everybody at the distance of the last one is looked at, so that the hash alone decides among them.
_NEAREST = f"""
    SELECT id FROM (
        SELECT people.id, {_TIE} AS tie, {_DISTANCE} AS distance_m
        FROM places JOIN people ON people.number = places.person
        WHERE people.id <> ALL(%(hidden)s) FILTERS
        ORDER BY {_DISTANCE} FETCH FIRST %(k)s ROWS WITH TIES
    ) AS near
    WHERE distance_m <= %(within_m)s
    ORDER BY distance_m, tie LIMIT %(k)s"""  # noqa: S608 - no values
_ONLY = "AND NOT EXISTS (SELECT 1 FROM unnest(%(only)s::bigint[]) AS one (bits) WHERE people.tags & one.bits = 0)"
_AFTER = f"AND ({_DISTANCE} > %(after_m)s OR ({_DISTANCE} = %(after_m)s AND {_TIE} > %(after_tie)s))"
_RANK = f"""
    SELECT {_DISTANCE}, {_TIE} FROM places JOIN people ON people.number = places.person
    WHERE people.id = %(after)s"""  # noqa: S608 - no values


def keep_places(session: Session, batches: Iterable[tuple[list[str], FloatArray]]) -> None:
    """Bring places in, those of before replaced."""
    session.run(_ARRIVE)
    session.copy(_COPY, _rows(batches))
    session.run("ANALYZE arriving")
    session.run(_KEEP)


def nearest(
    session: Session,
    place_m: tuple[float, float],
    k: int,
    *,
    hidden: Sequence[str],
    within_m: float | None,
    tie_key: bytes,
    only: Sequence[int],
    after: str | None,
) -> list[str]:
    """Return the k nearest who have a tag of each group and come after somebody, nearest first."""
    parameters: dict[str, Any] = {
        "x_m": float(place_m[0]),
        "y_m": float(place_m[1]),
        "k": k,
        "hidden": list(hidden),
        "within_m": float("inf") if within_m is None else within_m,
        "tie_key": tie_key,
        "only": list(only),
        "after": after,
    }
    filters = [_ONLY] if only else []
    if after is not None:
        rank = session.one(_RANK, parameters)
        if rank is None:
            raise LeftError("the person after whom the list was to go on has left the map; ask from the start")
        parameters |= {"after_m": rank[0], "after_tie": bytes(rank[1])}
        filters.append(_AFTER)
    return [row[0] for row in session.rows(_NEAREST.replace("FILTERS", " ".join(filters)), parameters)]


def _rows(batches: Iterable[tuple[list[str], FloatArray]]) -> Iterator[tuple[str, float, float]]:
    for people, places_m in batches:
        for person, (x_m, y_m) in zip(people, places_m.tolist(), strict=True):
            yield person, x_m, y_m
