"""One person, one row: what the person column says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearveil.cli.console import warn
from nearveil.errors import DataError
from nearveil.io.columns import person_columns
from nearveil.io.files import read_people
from nearveil.io.people import People


def read_checked(
    path: Path,
    *,
    latitude: str | None,
    longitude: str | None,
    drop: tuple[str, ...],
    person: str | None,
    per_row: bool,
    carry: bool = True,
) -> tuple[People, bool]:
    """Read people, print warnings, and return them with whether some person may have several rows."""
    people = read_people(path, latitude=latitude, longitude=longitude, drop=drop, carry=carry)
    several_rows, suspicions = _check_persons(people, person, per_row=per_row)
    for warning in (*people.warnings, *suspicions):
        warn(warning)
    return people, several_rows


def _check_persons(people: People, person: str | None, *, per_row: bool) -> tuple[bool, tuple[str, ...]]:
    """Return whether some person has several rows, and warnings; refuse that unless ``per_row``.

    Independent noise for one person averages out, so several rows protect each person less.
    """
    if person is None:
        suspicions = () if per_row else _suspicions(people)
        return per_row or bool(suspicions), suspicions
    found = people.carried.column_names.count(person)
    if found != 1:
        many = "there is no column" if not found else "there are several columns"
        raise DataError(f"{many} {person!r} to tell people apart by; check --person")
    ids = people.carried.column(person).combine_chunks()
    _refuse_missing(ids, person)
    repeats = len(pc.unique(ids)) < len(ids)
    if repeats and not per_row:
        first, second = _first_repeat(ids)
        raise DataError(
            f"row {second} has the same {person!r} as row {first}: several rows of a person protect that person less; "
            "keep one row each, or accept that with --per-row"
        )
    return repeats, ()


def _refuse_missing(ids: pa.Array, person: str) -> None:
    missing = pc.is_null(ids)
    if pa.types.is_string(ids.type):
        missing = pc.or_(missing, pc.fill_null(pc.equal(ids, ""), False))
    if pc.any(missing).as_py():
        row = pc.index(missing, True).as_py() + 1
        raise DataError(f"row {row} has no {person!r}; complete or remove such rows")


def _first_repeat(ids: pa.Array) -> tuple[int, int]:
    """Rows, counted from 1, of the first id that occurs again and of its second occurrence."""
    codes = np.asarray(ids.dictionary_encode().indices)
    _, first = np.unique(codes, return_index=True)
    again = np.ones(len(codes), dtype=bool)
    again[first] = False
    second = int(np.argmax(again))
    return int(first[codes[second]]) + 1, second + 1


def _suspicions(people: People) -> tuple[str, ...]:
    """Warn of a column that looks like a person's id and repeats."""
    likely = set(person_columns(people.carried.column_names))
    for name, ids in zip(people.carried.column_names, people.carried.columns, strict=True):
        if name in likely and not pa.types.is_nested(ids.type) and len(pc.unique(ids)) < len(ids):
            return (
                f"column {name!r} looks like a person's id and repeats: several rows of a person protect that person "
                f"less, and the card counts rows; name it with --person {name}",
            )
    return ()
