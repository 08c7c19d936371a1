"""Questions that PostGIS answers itself, where no index in memory is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nearveil.nearby.stores.postgis.database import Session
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

# Everybody at the distance of the last one is looked at, so that the hash alone decides among them.
_NEAREST = """
    SELECT id FROM (
        SELECT people.id, places.place <-> ST_MakePoint(%(x_m)s, %(y_m)s) AS distance_m
        FROM places JOIN people ON people.number = places.person
        WHERE people.id <> %(exclude)s
        ORDER BY places.place <-> ST_MakePoint(%(x_m)s, %(y_m)s) FETCH FIRST %(k)s ROWS WITH TIES
    ) AS near
    WHERE distance_m <= %(within_m)s
    ORDER BY distance_m, sha256(%(tie_key)s || convert_to(id, 'UTF8')) LIMIT %(k)s"""


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
    exclude: str | None,
    within_m: float | None,
    tie_key: bytes,
) -> list[str]:
    """Return the k nearest, nearest first."""
    parameters = {
        "x_m": float(place_m[0]),
        "y_m": float(place_m[1]),
        "k": k,
        # Nobody has an empty id.
        "exclude": exclude or "",
        "within_m": float("inf") if within_m is None else within_m,
        "tie_key": tie_key,
    }
    return [row[0] for row in session.rows(_NEAREST, parameters)]


def _rows(batches: Iterable[tuple[list[str], FloatArray]]) -> Iterator[tuple[str, float, float]]:
    for people, places_m in batches:
        for person, (x_m, y_m) in zip(people, places_m.tolist(), strict=True):
            yield person, x_m, y_m
