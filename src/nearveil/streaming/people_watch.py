"""One person, one row: what the columns that tell people apart say, over a whole file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.io.columns import person_columns
from nearveil.io.people import Layout, People, PeopleStream
from nearveil.streaming.unique_ids import IdLook, UniqueIds


class Look(NamedTuple):
    """What was seen of one batch."""

    first_missing: int | None
    of_columns: tuple[IdLook, ...]
    ids: pa.ChunkedArray | None


class PeopleWatch:
    """Looks for people with several rows: independent noise for one person averages out, and protects them less.

    Parameters
    ----------
    schema : pyarrow.Schema
        The columns that are carried.
    person : str, optional
        The one that tells people apart. Without it, columns that look like an id are watched.
    per_row : bool
        Whether several rows of a person are accepted.
    keep_ids : bool
        Whether the ids are kept, for a ledger.

    Attributes
    ----------
    positions : list of int
        Which columns it looks at.
    several_rows : bool
        After `finish`: whether some person may have several rows.
    warnings : tuple of str
        After `finish`: what is suspicious about that.
    """

    def __init__(self, schema: pa.Schema, person: str | None, *, per_row: bool, keep_ids: bool = False) -> None:
        self.several_rows = per_row
        self.warnings: tuple[str, ...] = ()
        self._person = person
        self._per_row = per_row
        self.positions = _watched(schema, person, per_row=per_row)
        self._names = [schema.field(place).name for place in self.positions]
        self._unique = [UniqueIds() for _ in self.positions]
        self._ids: list[pa.ChunkedArray] | None = [] if keep_ids else None

    def look(self, columns: Sequence[pa.ChunkedArray]) -> Look:
        """Look at a batch of the columns at `positions`, on any thread."""
        missing = None if self._person is None else _first_missing(columns[0])
        looks = tuple(unique.look(column) for unique, column in zip(self._unique, columns, strict=True))
        return Look(missing, looks, None if self._ids is None else columns[0])

    def take(self, look: Look, rows_before: int) -> None:
        """Take in what was seen of the next batch; refuse a row without a person."""
        if look.first_missing is not None:
            row = rows_before + look.first_missing + 1
            raise DataError(f"row {row} has no {self._person!r}; complete or remove such rows")
        for unique, seen in zip(self._unique, look.of_columns, strict=True):
            unique.take(seen)
        if self._ids is not None and look.ids is not None:
            self._ids.append(look.ids)

    def finish(self, stream: PeopleStream) -> None:
        """Refuse a person with several rows, unless that is accepted; without a person column, warn of it."""
        for name, place, unique in zip(self._names, self.positions, self._unique, strict=True):
            repeat = unique.first_repeat(lambda place=place: _column(stream, place))  # type: ignore[misc]
            if self._person is not None:
                self._judge(repeat)
            elif repeat is not None:
                self.several_rows = True
                self.warnings = (
                    f"column {name!r} looks like a person's id and repeats: several rows of a person protect that "
                    f"person less, and the card counts rows; name it with --person {name}",
                )
                return

    def people_by_id(self) -> People:
        """Everybody by id and without a place; nobody where ids are not kept."""
        chunks = [chunk for column in self._ids or [] for chunk in column.chunks]
        table = pa.table({self._person: pa.chunked_array(chunks)}) if chunks else pa.table({})
        return People(np.empty((0, 2)), table, Layout())

    def _judge(self, repeat: tuple[int, int] | None) -> None:
        self.several_rows = repeat is not None
        if repeat is not None and not self._per_row:
            first, second = repeat
            raise DataError(
                f"row {second} has the same {self._person!r} as row {first}: several rows of a person protect that "
                "person less; keep one row each, or accept that with --per-row"
            )


def _watched(schema: pa.Schema, person: str | None, *, per_row: bool) -> list[int]:
    names = schema.names
    if person is not None:
        found = [place for place, name in enumerate(names) if name == person]
        if len(found) != 1:
            many = "there is no column" if not found else "there are several columns"
            raise DataError(f"{many} {person!r} to tell people apart by; check --person")
        return found
    likely = set() if per_row else set(person_columns(names))
    return [place for place, field in enumerate(schema) if field.name in likely and not pa.types.is_nested(field.type)]


def _column(stream: PeopleStream, place: int) -> Iterator[pa.ChunkedArray]:
    for people in stream.batches([place]):
        yield people.carried.column(0)


def _first_missing(ids: pa.ChunkedArray) -> int | None:
    may_be_empty = pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)
    if not (ids.null_count or may_be_empty):
        return None
    import pyarrow.compute as pc  # noqa: PLC0415 - takes long to load, and numbers do without

    missing = pc.is_null(ids)
    if may_be_empty:
        missing = pc.or_(missing, pc.fill_null(pc.equal(ids, ""), False))
    return pc.index(missing, True).as_py() if pc.any(missing).as_py() else None
