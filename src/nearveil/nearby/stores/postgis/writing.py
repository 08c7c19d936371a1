"""One transaction in PostgreSQL that takes reports.

It shares the border's lock with others of its kind, and a border has that lock alone: what is held about somebody
cannot be published between being read and being written. People are locked in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nearveil.nearby.stores.base import Draw, Held
from nearveil.nearby.stores.ids import is_id
from nearveil.nearby.stores.postgis.database import Session
from nearveil.nearby.stores.postgis.following import Announcer

BORDER_LOCK = 0x6E76_0002

_LOCK_SHARED = "SELECT pg_advisory_xact_lock_shared(%s)"
_LOCK_PEOPLE = "SELECT number, id FROM people WHERE id = ANY(%s) ORDER BY number FOR UPDATE"
_HELD = """
    SELECT
        wanted.number,
        pending.x_steps, pending.y_steps, pending.tag, pending.in_window, pending.receipt,
        published.x_steps, published.y_steps, published.tag, published.in_window, published.receipt,
        ARRAY(SELECT tag FROM charges WHERE in_window = %s AND person = wanted.number)
    FROM unnest(%s::bigint[]) AS wanted (number)
    LEFT JOIN pending ON pending.person = wanted.number
    LEFT JOIN published ON published.person = wanted.number"""
_PUT = """
    INSERT INTO DRAWS (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT *, %s::bigint FROM unnest(%s::bigint[], %s::int[], %s::int[], %s::bytea[], %s::bigint[], %s::text[])
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch"""
_PUT_PENDING = _PUT.replace("DRAWS", "pending")
_PUT_PUBLISHED = _PUT.replace("DRAWS", "published")
_DROP = "DELETE FROM pending WHERE person = ANY(%s)"


def share_border(session: Session) -> None:
    """Keep borders out until the transaction ends."""
    # A statement of its own, so that the next one sees what the last border did.
    session.run(_LOCK_SHARED, (BORDER_LOCK,))


def lock_people(session: Session, people: Sequence[str]) -> dict[str, int]:
    """Lock those who are known, and return their numbers."""
    rows = session.rows(_LOCK_PEOPLE, ([person for person in people if is_id(person)],))
    return {person: number for number, person in rows}


class PostgisWriting:
    """A transaction that somebody else began and ends."""

    def __init__(self, session: Session, announcer: Announcer) -> None:
        self._session = session
        self._announcer = announcer
        self._numbers: dict[str, int] = {}
        share_border(session)

    def held(self, people: Sequence[str], window: int) -> dict[str, Held]:
        """Return what is held about those who are known, who stay locked until the end."""
        numbers = self._known(people)
        names = {number: person for person, number in numbers.items()}
        rows = self._session.rows(_HELD, (window, list(names)))
        return {names[row[0]]: _held(names[row[0]], row) for row in rows}

    def put_pending(self, draws: Sequence[Draw], epoch: int) -> None:
        """Let draws wait, each in place of what waited before."""
        self._put(_PUT_PENDING, draws, epoch)

    def drop_pending(self, people: Sequence[str]) -> None:
        """Forget what waits."""
        if people:
            self._session.run(_DROP, (list(self._known(people).values()),))

    def publish_now(self, draws: Sequence[Draw], epoch: int) -> None:
        """Publish without waiting and without charge."""
        kept = self._put(_PUT_PUBLISHED, draws, epoch)
        self.drop_pending([draw.person for draw in kept])
        self._announcer.published_now(self._session, kept)

    def _put(self, statement: str, draws: Sequence[Draw], epoch: int) -> list[Draw]:
        # Of several draws of one person the last counts; PostgreSQL refuses to change a row twice in a statement.
        last = {draw.person: draw for draw in draws}
        numbers = self._known(list(last))
        kept = [draw for person, draw in last.items() if person in numbers]
        if kept:
            columns: list[list[Any]] = [
                [numbers[draw.person] for draw in kept],
                [draw.x_steps for draw in kept],
                [draw.y_steps for draw in kept],
                [draw.tag for draw in kept],
                [draw.window for draw in kept],
                [draw.receipt for draw in kept],
            ]
            self._session.run(statement, (epoch, *columns))
        return kept

    def _known(self, people: Sequence[str]) -> dict[str, int]:
        """Return the numbers of those who are known, and lock them if they are not locked yet."""
        strangers = [person for person in people if person not in self._numbers]
        if strangers:
            self._numbers.update(lock_people(self._session, strangers))
        return {person: self._numbers[person] for person in people if person in self._numbers}


def _held(person: str, row: Sequence[Any]) -> Held:
    return Held(
        pending=_draw(person, row[1:6]),
        published=_draw(person, row[6:11]),
        charged=frozenset(bytes(tag) for tag in row[11]),
    )


def _draw(person: str, columns: Sequence[Any]) -> Draw | None:
    x_steps, y_steps, tag, window, receipt = columns
    if receipt is None:
        return None
    return Draw(person=person, x_steps=x_steps, y_steps=y_steps, tag=bytes(tag), window=window, receipt=receipt)
