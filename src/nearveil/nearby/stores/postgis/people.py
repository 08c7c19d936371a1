"""The people in PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nearveil.nearby.stores.ids import check_ids, is_id, new_token_mark
from nearveil.nearby.stores.postgis.database import Database, Session
from nearveil.nearby.stores.postgis.following import Announcer
from nearveil.nearby.stores.postgis.writing import lock_people, share_border
from nearveil.nearby.stores.records import held_draw, person_record

# Sorted, so that two processes that add the same people wait for each other in one order.
_ADD = """
    INSERT INTO people (id, created_s, token_mark)
    SELECT id, %s, %s FROM unnest(%s::text[]) AS new (id) ORDER BY id COLLATE "C"
    ON CONFLICT DO NOTHING RETURNING id"""
_PERSON = "SELECT number, created_s, token_mark FROM people WHERE id = %s"
# An array, and not a join: so PostgreSQL looks both columns up in the index.
_ERASE_CHARGES = "DELETE FROM charges WHERE in_window = ANY(ARRAY(SELECT in_window FROM charged)) AND person = %s"
_CHARGES = (
    "SELECT in_window, tag FROM charges WHERE in_window = ANY(ARRAY(SELECT in_window FROM charged)) AND person = %s"
)
_PENDING = "SELECT x_steps, y_steps, tag, in_window, receipt, epoch FROM pending WHERE person = %s"
_PUBLISHED = "SELECT x_steps, y_steps, tag, in_window, receipt, epoch FROM published WHERE person = %s"


class PostgisPeople:
    """The part of the store that is about people."""

    _database: Database
    _announcer: Announcer

    def add_people(self, people: Sequence[str]) -> list[str]:
        """Add people; return those who were not there before."""
        check_ids(people)
        wanted = list(dict.fromkeys(people))
        with self._database.transaction() as session:
            added = {row[0] for row in session.rows(_ADD, (int(time.time()), new_token_mark(), wanted))}
        return [person for person in wanted if person in added]

    def has_person(self, person: str) -> bool:
        """Whether somebody is known."""
        with self._database.looking() as session:
            return _person(session, person) is not None

    def token_mark(self, person: str) -> int | None:
        """Return the number that a person's tokens bear; None if not known."""
        with self._database.looking() as session:
            known = _person(session, person)
        return known[2] if known else None

    def renew_token_mark(self, person: str) -> bool:
        """Give a person another number for their tokens; whether known."""
        with self._locked(person) as (session, number):
            session.run("UPDATE people SET token_mark = %s WHERE number = %s", (new_token_mark(), number))
        return number is not None

    def erase(self, person: str) -> bool:
        """Erase all that is held about a person but the anonymous total; whether there was such a person."""
        with self._locked(person) as (session, number):
            if number is None:
                return False
            session.run(_ERASE_CHARGES, (number,))
            # What waits and what is published goes with the person.
            session.run("DELETE FROM people WHERE number = %s", (number,))
            self._announcer.erased(session, person)
        return True

    def withdraw(self, person: str) -> bool:
        """Take a person off the map and keep the charges; whether known."""
        with self._locked(person) as (session, number):
            if number is None:
                return False
            session.run("DELETE FROM pending WHERE person = %s", (number,))
            session.run("DELETE FROM published WHERE person = %s", (number,))
            self._announcer.withdrawn(session, person)
        return True

    def record(self, person: str) -> dict[str, Any] | None:
        """Return everything held about a person; None if not known."""
        with self._database.transaction() as session:
            # Between a draw that waits and one that is published must be no border.
            share_border(session)
            known = _person(session, person)
            if known is None:
                return None
            number, created_s, token_mark = known
            return person_record(
                person,
                created_s,
                token_mark,
                pending=held_draw(person, session.one(_PENDING, (number,))),
                published=held_draw(person, session.one(_PUBLISHED, (number,))),
                charges=[(window, bytes(tag)) for window, tag in session.rows(_CHARGES, (number,))],
            )

    @contextmanager
    def _locked(self, person: str) -> Iterator[tuple[Session, int | None]]:
        with self._database.transaction() as session:
            share_border(session)
            yield session, lock_people(session, [person]).get(person)


def _person(session: Session, person: str) -> tuple[int, int, int] | None:
    row = session.one(_PERSON, (person,)) if is_id(person) else None
    return (row[0], row[1], row[2]) if row else None
