"""Unique ids: whether a person has several rows. The ids are held in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.io.columns import numbers_from_arrow, person_columns
from nearveil.io.people import Layout, People
from nearveil.types import IntArray


class BatchIds(NamedTuple):
    """The ids of one batch, a column for each that is watched."""

    first_missing: int | None
    columns: tuple[pa.ChunkedArray, ...]


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

    Attributes
    ----------
    positions : list of int
        Which columns it looks at.
    several_rows : bool
        After `finish`: whether some person may have several rows.
    warnings : tuple of str
        After `finish`: what is suspicious about that.
    """

    def __init__(self, schema: pa.Schema, person: str | None, *, per_row: bool) -> None:
        self.several_rows = per_row
        self.warnings: tuple[str, ...] = ()
        self._person = person
        self._per_row = per_row
        self.positions = _watched(schema, person, per_row=per_row)
        self._names = [schema.field(place).name for place in self.positions]
        self._ids: list[list[pa.ChunkedArray]] = [[] for _ in self.positions]

    def look(self, columns: Sequence[pa.ChunkedArray]) -> BatchIds:
        """Look at a batch of the columns at `positions`, on any thread."""
        missing = None if self._person is None else _first_missing(columns[0])
        return BatchIds(missing, tuple(map(_decoded, columns)))

    def take(self, look: BatchIds, rows_before: int) -> None:
        """Take in the ids of the next batch; refuse a row without a person."""
        if look.first_missing is not None:
            row = rows_before + look.first_missing + 1
            raise DataError(f"row {row} has no {self._person!r}; complete or remove such rows")
        for ids, column in zip(self._ids, look.columns, strict=True):
            ids.append(column)

    def finish(self) -> None:
        """Refuse a person with several rows, unless that is accepted; without a person column, warn of it."""
        for name, ids in zip(self._names, self._ids, strict=True):
            repeat = first_repeat(ids)
            if self._person is not None:
                self._judge(repeat)
            elif repeat is not None:
                self.several_rows = True
                self.warnings = (
                    f"column {name!r} looks like a person's id and repeats: several rows of a person protect that "
                    f"person less, and the card counts rows; name it with person=",
                )
                return

    def people_by_id(self) -> People:
        """All people by id, without places; empty without a person column."""
        if self._person is None:
            return People(np.empty((0, 2)), pa.table({}), Layout())
        return People(np.empty((0, 2)), pa.table({self._person: _joined(self._ids[0])}), Layout())

    def _judge(self, repeat: tuple[int, int] | None) -> None:
        self.several_rows = repeat is not None
        if repeat is not None and not self._per_row:
            first, second = repeat
            raise DataError(
                f"row {second} has the same {self._person!r} as row {first}: several rows of a person protect that "
                "person less; keep one row each, or accept that with per_row=True"
            )


def first_repeat(ids: Sequence[pa.ChunkedArray]) -> tuple[int, int] | None:
    """Return the rows, counted from 1, of the first id that occurs again and of its second occurrence."""
    hashes = np.concatenate([_hashes(column) for column in ids]) if ids else np.empty(0, dtype=np.int64)
    rising = np.sort(hashes)
    twice = rising[1:] == rising[:-1]
    if not twice.any():
        return None
    # Different ids may have the same hash.
    column, seen = _joined(ids), dict[object, int]()
    for row in np.flatnonzero(np.isin(hashes, rising[1:][twice])).tolist():
        (key,) = _keys(column.slice(row, 1))
        if key in seen:
            return seen[key] + 1, row + 1
        seen[key] = row
    return None


def _hashes(ids: pa.ChunkedArray) -> IntArray:
    if pa.types.is_integer(ids.type) and not ids.null_count:
        # Not by to_numpy, for which Arrow loads pandas.
        parts = [numbers_from_arrow(chunk).astype(np.int64) for chunk in ids.chunks]
        numbers: IntArray = np.concatenate([np.empty(0, np.int64), *parts])
        return numbers
    return np.fromiter(map(hash, _keys(ids)), dtype=np.int64, count=len(ids))


def _keys(ids: pa.ChunkedArray) -> Sequence[object]:
    values: list[object] = ids.to_pylist()
    return values if pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type) else list(map(repr, values))


def _joined(ids: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for column in ids for chunk in column.chunks], ids[0].type if ids else pa.null())


def _decoded(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    return ids.cast(ids.type.value_type) if pa.types.is_dictionary(ids.type) else ids


def _watched(schema: pa.Schema, person: str | None, *, per_row: bool) -> list[int]:
    names = schema.names
    if person is not None:
        found = [place for place, name in enumerate(names) if name == person]
        if len(found) != 1:
            many = "there is no column" if not found else "there are several columns"
            raise DataError(f"{many} {person!r} to tell people apart by; check person=")
        return found
    likely = set() if per_row else set(person_columns(names))
    return [
        column for column, field in enumerate(schema) if field.name in likely and not pa.types.is_nested(field.type)
    ]


def _first_missing(ids: pa.ChunkedArray) -> int | None:
    may_be_empty = pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)
    if not (ids.null_count or may_be_empty):
        return None
    import pyarrow.compute as pc  # noqa: PLC0415 - takes long to load, and numbers do without

    missing = pc.is_null(ids)
    if may_be_empty:
        missing = pc.or_(missing, pc.fill_null(pc.equal(ids, ""), False))
    return pc.index(missing, True).as_py() if pc.any(missing).as_py() else None
