"""Publishing the rows of a frame by Veil: a user's rows in one cell all get the same location."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nearveil._old_faults import faults_in, refuse
from nearveil.errors import DataError, UsageError
from nearveil.io.people import ReadOptions
from nearveil.randomness import secure_generator
from nearveil.release.frames import PeopleInFrame
from nearveil.release.publishing import PredictingColumns, telling_column
from nearveil.types import FloatArray
from nearveil.veil import Veil

if TYPE_CHECKING:
    from nearveil.release.frames import Frame

_ROWS_AT_ONCE = 1 << 17


def veiled_frame(
    frame: Frame, veil: Veil, user: str | None, read: ReadOptions, *, keep_order: bool
) -> tuple[Frame, tuple[str, ...]]:
    """Return a frame with Veil's locations, and what is suspicious about its columns.

    The column of users may follow their locations, as Veil does not hide which rows are whose.
    """
    if user is None:
        raise UsageError("Veil gives every user locations of their own; name the column of users with user=")
    if read.person is not None or read.clip:
        raise UsageError("person= and clip= are for mechanisms, and Veil takes user= alone; leave them out")
    kind = PeopleInFrame(frame, read, keep_order=keep_order)
    people = kind.stream.read_all()
    refuse(faults_in(people.points))
    telling = PredictingColumns()
    telling.take(telling.look(people, 0))
    telling.refuse_second_locations()
    answers = _answers(veil, _users(people.carried, str(user)), people.points)
    published = people.with_points(answers)
    kind.writer.write(published if keep_order else published.taken(secure_generator().permutation(len(published))))
    columns = tuple(warning for warning in telling.warnings() if warning != telling_column(str(user)))
    same_kind: Frame = kind.published()
    return same_kind, (*kind.warnings, *kind.stream.warnings, *columns)


def _answers(veil: Veil, users: list[str], points: FloatArray) -> FloatArray:
    answers = np.empty_like(points)
    for start in range(0, len(points), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        answers[part] = np.column_stack(veil.blur_many(users[part], *points[part].T.tolist()))
    return answers


def _users(carried: pa.Table, user: str) -> list[str]:
    """Return the ids of users as text: those that are whole numbers as their digits."""
    if user not in carried.column_names:
        raise DataError(f"there is no column {user!r} of users; check user=, and do not leave the column out")
    column = carried.column(user)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if not text and not pa.types.is_integer(column.type):
        raise DataError(f"column {user!r} must hold text or whole numbers to tell users apart; convert it")
    ids: list[object] = column.to_pylist()
    missing = next((row for row, each in enumerate(ids, start=1) if each in (None, "")), None)
    if missing is not None:
        raise DataError(f"row {missing} has no {user!r}; complete or remove such rows")
    return list(map(str, ids))
