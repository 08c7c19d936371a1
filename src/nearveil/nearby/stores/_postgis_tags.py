"""People's tags in PostgreSQL, and whom they blocked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from nearveil.nearby.stores._postgis_connections import Announcer, Database, Session, lock_people, share_epoch_lock
from nearveil.nearby.stores.base import is_id, new_names, tag_bits

# The order of bytes, as in the embedded store.
_BLOCKED = """
    SELECT people.id FROM blocked JOIN people ON people.number = blocked.other
    WHERE blocked.person = %s ORDER BY people.id"""
_BLOCK = """
    INSERT INTO blocked (person, other)
    SELECT %(person)s, number FROM people WHERE id = ANY(%(others)s) AND number <> %(person)s
    ORDER BY number ON CONFLICT DO NOTHING"""
_UNBLOCK = """
    DELETE FROM blocked USING people
    WHERE blocked.person = %s AND blocked.other = people.number AND people.id = %s"""
_ALL_BLOCKS = """
    SELECT people.id, array_agg(others.id) FROM blocked
    JOIN people ON people.number = blocked.person JOIN people AS others ON others.number = blocked.other
    GROUP BY people.id"""


class PostgisTags:
    """The part of the store that is about tags and blocks. Others are told whose have changed, and read them."""

    _database: Database
    _announcer: Announcer

    @contextmanager
    def _locked(self, person: str, others: Collection[str] = ()) -> Iterator[tuple[Session, int | None]]:
        """Begin a transaction with people locked, in the order of their numbers; give the first one's number."""
        with self._database.transaction() as session:
            share_epoch_lock(session)
            yield session, lock_people(session, [person, *others]).get(person)

    def tag_names(self) -> list[str]:
        """Return the name of each bit."""
        with self._database.looking() as session:
            return _names(session)

    def set_tags(self, person: str, tags: Collection[str]) -> int | None:
        """Give a person these tags in place of those before; return them as bits, None if the person is not known."""
        with self._locked(person) as (session, number):
            if number is None:
                return None
            names = _names(session)
            if new_names(names, tags):
                # Nobody else names the next bit.
                session.run("LOCK TABLE tag_names IN SHARE ROW EXCLUSIVE MODE")
                names = _names(session)
            for name in new_names(names, tags):
                session.run("INSERT INTO tag_names (bit, name) VALUES (%s, %s)", (len(names), name))
                names.append(name)
            bits = tag_bits(names, tags)
            session.run("UPDATE people SET tags = %s WHERE number = %s", (bits, number))
            self._announcer.tagged(session, person)
        return bits

    def tags_of(self, people: Sequence[str]) -> dict[str, int]:
        """Return the tags of those who are known, as bits."""
        with self._database.looking() as session:
            return dict(session.rows("SELECT id, tags FROM people WHERE id = ANY(%s)", (list(people),)))

    def blocked(self, person: str) -> list[str] | None:
        """Return whom a person has blocked, in order; None if the person is not known."""
        with self._database.looking() as session:
            row = session.one("SELECT number FROM people WHERE id = %s", (person,)) if is_id(person) else None
            return None if row is None else blocked_by(session, row[0])

    def set_blocked(self, person: str, others: Collection[str]) -> bool:
        """Let these be all whom a person has blocked; whether the person is known."""
        # With a lock on everybody at once, two who block each other do not wait for one another.
        with self._locked(person, others) as (session, number):
            if number is not None:
                session.run("DELETE FROM blocked WHERE person = %s", (number,))
                session.run(_BLOCK, {"person": number, "others": list(others)})
                self._announcer.blocked(session, person)
        return number is not None

    def block(self, person: str, other: str) -> bool:
        """Block somebody for a person; whether both are known."""
        with self._locked(person, [other]) as (session, number):
            row = session.one("SELECT 1 FROM people WHERE id = %s", (other,)) if is_id(other) else None
            if number is None or row is None:
                return False
            session.run(_BLOCK, {"person": number, "others": [other]})
            self._announcer.blocked(session, person)
        return True

    def unblock(self, person: str, other: str) -> bool:
        """Block somebody no more for a person; whether the person is known."""
        with self._locked(person) as (session, number):
            if number is not None and is_id(other):
                session.run(_UNBLOCK, (number, other))
                self._announcer.blocked(session, person)
        return number is not None

    def all_blocked(self) -> dict[str, list[str]]:
        """Return whom each person has blocked who has blocked anybody."""
        with self._database.transaction(long=True) as session:
            return dict(session.rows(_ALL_BLOCKS))


def blocked_by(session: Session, number: int) -> list[str]:
    """Return whom the person of this number has blocked, in order."""
    return [row[0] for row in session.rows(_BLOCKED, (number,))]


def _names(session: Session) -> list[str]:
    return [row[0] for row in session.rows("SELECT name FROM tag_names ORDER BY bit")]
