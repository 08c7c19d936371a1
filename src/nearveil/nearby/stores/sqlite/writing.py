"""One transaction of the embedded store.

Each method is one statement however many people it is about, and answers in one row: Python's interpreter lock is given
up for every row and statement, and in a busy server it takes long to get it back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nearveil.nearby.stores.base import Draw, Held
from nearveil.nearby.stores.ids import is_id
from nearveil.nearby.stores.sqlite.connection import Connection

DRAW_COLUMNS = "x_steps, y_steps, tag, in_window, receipt"

_NUMBERS = """
    SELECT json_group_array(json_array(people.id, people.number))
    FROM json_each(?) AS wanted CROSS JOIN people ON people.id = wanted.value"""

_HELD = """
    SELECT json_group_array(json_array(
        people.id, people.number,
        pending.x_steps, pending.y_steps, hex(pending.tag), pending.in_window, pending.receipt,
        published.x_steps, published.y_steps, hex(published.tag), published.in_window, published.receipt,
        (SELECT group_concat(hex(tag)) FROM charges WHERE in_window = :window AND person = people.number)
    ))
    FROM json_each(:people) AS wanted CROSS JOIN people ON people.id = wanted.value
    LEFT JOIN pending ON pending.person = people.number
    LEFT JOIN published ON published.person = people.number"""

# Tags come as one run of bytes, of which each draw knows its part: JSON has no bytes.
_PUT = """
    INSERT INTO DRAWS (person, x_steps, y_steps, tag, in_window, receipt, epoch)
    SELECT
        json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        substr(:tags, json_extract(value, '$[3]'), json_extract(value, '$[4]')),
        json_extract(value, '$[5]'), json_extract(value, '$[6]'), :epoch
    FROM json_each(:rows) WHERE true
    ON CONFLICT (person) DO UPDATE SET
        x_steps = excluded.x_steps, y_steps = excluded.y_steps, tag = excluded.tag,
        in_window = excluded.in_window, receipt = excluded.receipt, epoch = excluded.epoch"""
_PUT_PENDING = _PUT.replace("DRAWS", "pending")
_PUT_PUBLISHED = _PUT.replace("DRAWS", "published")

_DROP = "DELETE FROM pending WHERE person IN (SELECT value FROM json_each(?))"


class SqliteWriting:
    """A transaction that somebody else began and ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}

    def held(self, people: Sequence[str], window: int) -> dict[str, Held]:
        """Return what is held about those who are known; nobody else can write meanwhile."""
        rows = self._json_of(_HELD, {"people": _json_ids(people), "window": window})
        self._numbers.update((row[0], row[1]) for row in rows)
        return {row[0]: _held(row) for row in rows}

    def put_pending(self, draws: Sequence[Draw], epoch: int) -> None:
        """Let draws wait, each in place of what waited before."""
        self._put(_PUT_PENDING, draws, epoch)

    def drop_pending(self, people: Sequence[str]) -> None:
        """Forget what waits."""
        if people:
            self._connection.run(_DROP, (json.dumps(list(self._known(people).values())),))

    def publish_now(self, draws: Sequence[Draw], epoch: int) -> None:
        """Publish without waiting and without charge."""
        self._put(_PUT_PUBLISHED, draws, epoch)
        self.drop_pending([draw.person for draw in draws])

    def _put(self, statement: str, draws: Sequence[Draw], epoch: int) -> None:
        if not draws:
            return
        numbers = self._known([draw.person for draw in draws])
        rows: list[tuple[int, int, int, int, int, int, str]] = []
        begin = 1
        for draw in draws:
            if draw.person in numbers:
                number, length = numbers[draw.person], len(draw.tag)
                rows.append((number, draw.x_steps, draw.y_steps, begin, length, draw.window, draw.receipt))
            begin += len(draw.tag)
        tags = b"".join(draw.tag for draw in draws)
        self._connection.run(statement, {"rows": json.dumps(rows), "tags": tags, "epoch": epoch})

    def _known(self, people: Sequence[str]) -> dict[str, int]:
        """Return the numbers of those who are known."""
        strangers = [person for person in people if person not in self._numbers]
        if strangers:
            self._numbers.update(self._json_of(_NUMBERS, (_json_ids(strangers),)))
        return {person: self._numbers[person] for person in people if person in self._numbers}

    def _json_of(self, statement: str, parameters: Any) -> list[Any]:
        row = self._connection.one(statement, parameters)
        return json.loads(row[0]) if row else []


def _json_ids(people: Sequence[str]) -> str:
    return json.dumps([person for person in people if is_id(person)])


def _held(row: Sequence[Any]) -> Held:
    charged = row[12].split(",") if row[12] else []
    return Held(
        pending=_draw(row[0], row[2:7]),
        published=_draw(row[0], row[7:12]),
        charged=frozenset(bytes.fromhex(tag) for tag in charged),
    )


def _draw(person: str, columns: Sequence[Any]) -> Draw | None:
    x_steps, y_steps, tag, window, receipt = columns
    if receipt is None:
        return None
    return Draw(person=person, x_steps=x_steps, y_steps=y_steps, tag=bytes.fromhex(tag), window=window, receipt=receipt)
