"""People's tags in the embedded store, and whom they blocked."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from nearveil.nearby.stores._sqlite_connections import Connection, Connections
from nearveil.nearby.stores.base import is_id, new_names, tag_bits

_BITS = """
    SELECT json_group_array(json_array(people.id, people.tags))
    FROM json_each(?) AS wanted CROSS JOIN people ON people.id = wanted.value"""
_BLOCKED = """
    SELECT json_group_array(id) FROM (
        SELECT people.id FROM blocked CROSS JOIN people ON people.number = blocked.other
        WHERE blocked.person = ? ORDER BY people.id
    )"""
_BLOCK = """
    INSERT OR IGNORE INTO blocked (person, other)
    SELECT :person, people.number FROM json_each(:others) AS wanted CROSS JOIN people ON people.id = wanted.value
    WHERE people.number <> :person"""
_UNBLOCK = "DELETE FROM blocked WHERE person = ? AND other = ?"
_ALL_BLOCKS = """
    SELECT people.id, json_group_array(others.id) FROM blocked
    JOIN people ON people.number = blocked.person JOIN people AS others ON others.number = blocked.other
    GROUP BY people.id"""


class SqliteTags:
    """The part of the store that is about tags and blocks."""

    _connections: Connections

    def tag_names(self) -> list[str]:
        """Return the name of each bit."""
        with self._connections.reading() as connection:
            return _names(connection)

    def set_tags(self, person: str, tags: Collection[str]) -> int | None:
        """Give a person these tags in place of those before; return them as bits, None if the person is not known."""
        with self._connections.writing() as connection:
            number = number_of(connection, person)
            if number is None:
                return None
            names = _names(connection)
            for name in new_names(names, tags):
                connection.run("INSERT INTO tag_names (bit, name) VALUES (?, ?)", (len(names), name))
                names.append(name)
            bits = tag_bits(names, tags)
            connection.run("UPDATE people SET tags = ? WHERE number = ?", (bits, number))
        return bits

    def tags_of(self, people: Sequence[str]) -> dict[str, int]:
        """Return the tags of those who are known, as bits."""
        with self._connections.reading() as connection:
            row = connection.one(_BITS, (json.dumps(list(people)),))
        return dict(json.loads(row[0])) if row else {}

    def blocked(self, person: str) -> list[str] | None:
        """Return whom a person has blocked, in order; None if the person is not known."""
        with self._connections.reading() as connection:
            number = number_of(connection, person)
            return None if number is None else blocked_by(connection, number)

    def set_blocked(self, person: str, others: Collection[str]) -> bool:
        """Let these be all whom a person has blocked; whether the person is known."""
        with self._connections.writing() as connection:
            number = number_of(connection, person)
            connection.run("DELETE FROM blocked WHERE person = ?", (number,))
            connection.run(_BLOCK, {"person": number, "others": json.dumps(list(others) if number else [])})
        return number is not None

    def block(self, person: str, other: str) -> bool:
        """Block somebody for a person; whether both are known."""
        with self._connections.writing() as connection:
            numbers = number_of(connection, person), number_of(connection, other)
            if None not in numbers:
                connection.run(_BLOCK, {"person": numbers[0], "others": json.dumps([other])})
        return None not in numbers

    def unblock(self, person: str, other: str) -> bool:
        """Block somebody no more for a person; whether the person is known."""
        with self._connections.writing() as connection:
            number = number_of(connection, person)
            connection.run(_UNBLOCK, (number, number_of(connection, other)))
        return number is not None

    def all_blocked(self) -> dict[str, list[str]]:
        """Return whom each person has blocked who has blocked anybody."""
        with self._connections.reading() as connection:
            return {person: json.loads(others) for person, others in connection.rows(_ALL_BLOCKS)}


def number_of(connection: Connection, person: str) -> int | None:
    """Return a person's number; None if not known."""
    row = connection.one("SELECT number FROM people WHERE id = ?", (person,)) if is_id(person) else None
    return row[0] if row else None


def blocked_by(connection: Connection, number: int) -> list[str]:
    """Return whom the person of this number has blocked, in order."""
    row = connection.one(_BLOCKED, (number,))
    return list(json.loads(row[0])) if row else []


def _names(connection: Connection) -> list[str]:
    return [name for (name,) in connection.rows("SELECT name FROM tag_names ORDER BY bit")]
