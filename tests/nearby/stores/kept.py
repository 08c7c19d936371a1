"""Everything that a store keeps about somebody, as tests look at it; callers of a service never see most of it."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from nearveil.nearby.stores._postgis_connections import share_epoch_lock
from nearveil.nearby.stores.base import Standing, Store, is_id
from nearveil.nearby.stores.postgis import PostgisStore
from nearveil.nearby.stores.sqlite import SqliteStore

_STANDING = "SELECT receipt, epoch, candidate, candidate_epoch, seen, chain FROM standings WHERE person = ?"


def everything_kept(store: Store, person: str) -> dict[str, Any] | None:
    """Return it as plain values; None if nobody of this id is known."""
    # Some tests have a store within another object that can fail.
    store = store.__dict__.get("_store", store)
    if isinstance(store, SqliteStore):
        with store._connections.reading() as connection:
            return _everything(connection, person, lambda statement: statement)
    assert isinstance(store, PostgisStore)
    with store._database.transaction() as session:
        # Between a location that waits and one that is published there must be no epoch boundary.
        share_epoch_lock(session)
        return _everything(session, person, lambda statement: statement.replace("?", "%s"))


def _everything(rows: Any, person: str, spelled: Callable[[str], str]) -> dict[str, Any] | None:
    def one(statement: str, value: object) -> Any:
        return rows.one(spelled(statement), (value,))

    known = one("SELECT number, token_mark FROM people WHERE id = ?", person) if is_id(person) else None
    if known is None:
        return None
    number, token_mark = known
    standing = Standing.from_row(one(_STANDING, number))
    charged = sorted(rows.rows(spelled("SELECT in_window, tag FROM known_places WHERE person = ?"), (number,)))
    charges = Counter(str(window) for window, _ in charged)
    return {
        "id": person,
        "token_mark": token_mark,
        "receipt": standing and standing.receipt,
        "candidate": standing and standing.candidate and standing.candidate.hex(),
        "chain": list(standing.chain) if standing else [],
        "pending": one("SELECT x_steps, y_steps FROM pending WHERE person = ?", number),
        "published": one("SELECT x_steps, y_steps FROM published WHERE person = ?", number),
        "charges": dict(charges),
        "tags": [bytes(tag).hex() for _, tag in charged],
    }
