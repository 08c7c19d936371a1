"""The people of the embedded store."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from nearveil.nearby.stores.ids import check_ids, is_id, new_token_mark
from nearveil.nearby.stores.records import held_draw, person_record
from nearveil.nearby.stores.sqlite.connection import Connection
from nearveil.nearby.stores.sqlite.connections import Connections

_KNOWN = "SELECT json_group_array(people.id) FROM json_each(?) AS wanted CROSS JOIN people ON people.id = wanted.value"
_ADD = "INSERT INTO people (id, created_s, token_mark) SELECT value, ?, ? FROM json_each(?)"
_ERASE_CHARGES = "DELETE FROM charges WHERE in_window IN (SELECT in_window FROM charged) AND person = ?"
_CHARGES = "SELECT in_window, tag FROM charges WHERE in_window IN (SELECT in_window FROM charged) AND person = ?"
_PENDING = "SELECT x_steps, y_steps, tag, in_window, receipt, epoch FROM pending WHERE person = ?"
_PUBLISHED = "SELECT x_steps, y_steps, tag, in_window, receipt, epoch FROM published WHERE person = ?"


class SqlitePeople:
    """The part of the store that is about people."""

    _connections: Connections

    def add_people(self, people: Sequence[str]) -> list[str]:
        """Add people; return those who were not there before."""
        check_ids(people)
        with self._connections.writing() as connection:
            row = connection.one(_KNOWN, (json.dumps(people),))
            known = set(json.loads(row[0])) if row else set()
            added = [person for person in dict.fromkeys(people) if person not in known]
            connection.run(_ADD, (int(time.time()), new_token_mark(), json.dumps(added)))
        return added

    def has_person(self, person: str) -> bool:
        """Whether somebody is known."""
        with self._connections.reading() as connection:
            return _number(connection, person) is not None

    def token_mark(self, person: str) -> int | None:
        """Return the number that a person's tokens bear; None if not known."""
        with self._connections.reading() as connection:
            number = _number(connection, person)
            row = connection.one("SELECT token_mark FROM people WHERE number = ?", (number,))
        return row[0] if row else None

    def renew_token_mark(self, person: str) -> bool:
        """Give a person another number for their tokens; whether known."""
        with self._connections.writing() as connection:
            number = _number(connection, person)
            connection.run("UPDATE people SET token_mark = ? WHERE number = ?", (new_token_mark(), number))
        return number is not None

    def erase(self, person: str) -> bool:
        """Erase all that is held about a person but the anonymous total; whether there was such a person."""
        with self._connections.writing() as connection:
            number = _number(connection, person)
            if number is None:
                return False
            connection.run(_ERASE_CHARGES, (number,))
            # What waits and what is published goes with the person.
            connection.run("DELETE FROM people WHERE number = ?", (number,))
        self._connections.empty_log()
        return True

    def withdraw(self, person: str) -> bool:
        """Take a person off the map and keep the charges; whether known."""
        with self._connections.writing() as connection:
            number = _number(connection, person)
            if number is None:
                return False
            connection.run("DELETE FROM pending WHERE person = ?", (number,))
            connection.run("DELETE FROM published WHERE person = ?", (number,))
        self._connections.empty_log()
        return True

    def record(self, person: str) -> dict[str, Any] | None:
        """Return everything held about a person; None if not known."""
        with self._connections.reading() as connection:
            number = _number(connection, person)
            if number is None:
                return None
            made = connection.one("SELECT created_s, token_mark FROM people WHERE number = ?", (number,)) or (0, 0)
            return person_record(
                person,
                *made,
                pending=held_draw(person, connection.one(_PENDING, (number,))),
                published=held_draw(person, connection.one(_PUBLISHED, (number,))),
                charges=[(window, bytes(tag)) for window, tag in connection.rows(_CHARGES, (number,))],
            )


def _number(connection: Connection, person: str) -> int | None:
    row = connection.one("SELECT number FROM people WHERE id = ?", (person,)) if is_id(person) else None
    return row[0] if row else None
