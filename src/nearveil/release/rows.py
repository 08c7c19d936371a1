"""The rows of a file or a frame: where they are, whose they are, and which of them cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearveil.errors import DataError, UsageError
from nearveil.io.frames import columns_of_frame, is_frame, location_in_frame, true_points, users_in_frame
from nearveil.points import unusable
from nearveil.region import Region
from nearveil.types import BoolArray, FloatArray, IntArray, ProgressBar

if TYPE_CHECKING:
    from nearveil.io.location import Location, ReadOptions
    from nearveil.io.readers import Source
    from nearveil.privacy.ledger import Ledger


@dataclass(frozen=True, slots=True, eq=False)
class InputRows:
    """All rows in memory.

    Attributes
    ----------
    points : ndarray, shape (n, 2)
        True locations in degrees; not a number where they cannot be read.
    users : ndarray of int, optional
        Whose rows they are, as positions in ``names``, -1 where a row has no user; None if no column was named.
    names : sequence of str
        The ids of users, each once.
    """

    points: FloatArray = field(repr=False)
    users: IntArray | None = field(default=None, repr=False)
    names: Sequence[str] = field(default=(), repr=False)

    def only(self, is_usable: BoolArray) -> InputRows:
        """Return some rows, with all names."""
        users = None if self.users is None else self.users[is_usable]
        return InputRows(self.points[is_usable], users, self.names)


class RowCheck:
    """Finds rows that cannot be used, batch after batch: refuses the first, or notes them to be left out.

    Attributes
    ----------
    skip_bad : bool
        Whether they are left out.
    """

    def __init__(self, area: Region, location: Location, *, skip_bad: bool) -> None:
        self.skip_bad, self._area, self._location = skip_bad, area, location
        self._found: dict[str, list[IntArray]] = {}

    def __call__(self, points: FloatArray, first_row: int = 0, users: IntArray | None = None) -> BoolArray:
        """Return which rows can be used."""
        nobody = np.flatnonzero(users < 0) if users is not None else np.empty(0, dtype=np.int64)
        if len(nobody) and not self.skip_bad:
            raise DataError(f"row {first_row + nobody[0] + 1} has no user; complete or remove such rows")
        if not self.skip_bad:
            self._location.check(points, self._area, rows_before=first_row)
        is_usable = np.ones(len(points), dtype=np.bool_)
        for reason, rows in {**unusable(points, self._area), "no user": nobody}.items():
            is_usable[rows] = False
            self._found.setdefault(reason, []).append(rows + first_row + 1)
        return is_usable

    @property
    def skipped(self) -> dict[str, IntArray]:
        """Numbers of the rows to be left out, from 1, by reason."""
        found = {reason: np.sort(np.concatenate(rows)) for reason, rows in self._found.items()}
        return {reason: rows for reason, rows in found.items() if len(rows)}


def read_options(read: ReadOptions | None, given: dict[str, Any]) -> ReadOptions | None:
    """Return how the input is read: ``read``, or the fields of `ReadOptions` that a caller gave by their names."""
    if not given:
        return read
    from nearveil.io.location import ReadOptions  # noqa: PLC0415

    known = [each.name for each in fields(ReadOptions)]
    for name in given.keys() - known:
        near = get_close_matches(name, [*known, "user", "keep", "keep_all", "region", "ledger", "mechanism"], n=1)
        raise TypeError(f"there is no parameter {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    if read is not None:
        raise UsageError(f"read= says how the input is read; put {next(iter(given))} into it")
    return ReadOptions(**given)


def check_charged(ledger: Ledger | None, user: str | None, seed: int | None) -> None:
    """Refuse what cannot be charged: rows without users, and noise from a seed, which protects nobody."""
    if ledger is None:
        return
    if not hasattr(ledger, "charge"):
        raise UsageError("ledger= takes a Ledger, such as Ledger('budgets.db', [Budget(definition='metric', ...)])")
    if user is None:
        raise UsageError("a ledger charges users: name their column with user=")
    if seed is not None:
        raise UsageError("noise from a seed protects nobody and is not charged; leave seed= or ledger= out")


def columns_to_publish(
    columns: Sequence[str], location: Location, user: str | None, keep: Sequence[str] = (), *, keep_all: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that are published beside the location, and those that are left out."""
    if isinstance(keep, str):
        keep = (keep,)
    for option, name in [("user", user), *(("keep", name) for name in keep)]:
        if name in location.columns:
            raise DataError(f"column {name!r} is the location, which is published with noise; leave {option}= out")
        if name is not None and name not in columns:
            known = ", ".join(map(repr, columns)) or "none besides the location"
            raise DataError(f"there is no column {name!r} to name with {option}=; the columns are {known}")
    named = {user, *keep}
    published = tuple(name for name in columns if keep_all or name in named)
    return published, tuple(name for name in columns if name not in published)


def rows_of_frame(frame: Any, user: str | None, read: ReadOptions | None) -> InputRows:
    """Return the rows of a frame."""
    points = true_points(frame, read)
    return InputRows(points) if user is None else with_users(points, users_in_frame(frame, user))


def rows_of_source(source: Source, user: str | None, bar: ProgressBar) -> InputRows:
    """Read the locations and users of a file."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    points, ids = list[FloatArray](), list[pa.ChunkedArray]()
    with bar("reading locations", source.rows) as advance:
        for batch in source.batches(() if user is None else (user,)):
            points.append(batch.points)
            if user is not None:
                ids.append(batch.table.column(0))
            advance(len(batch.points))
    where = np.concatenate(points) if points else np.empty((0, 2))
    return InputRows(where) if user is None else _with_arrow_users(where, ids, user)


def read_rows(source: Any, user: str | None, read: ReadOptions | None, bar: ProgressBar) -> tuple[InputRows, Location]:
    """Return the rows of a file or a frame, and how it writes locations down."""
    if is_frame(source):
        location = location_in_frame(source, read)
        columns_to_publish(columns_of_frame(source, read), location, user)
        return rows_of_frame(source, user, read), location
    if not isinstance(source, str | Path):
        raise UsageError("the users must be the path of a file, or a frame of pandas, Polars, GeoPandas or Arrow")
    from nearveil.io.readers import open_source  # noqa: PLC0415 - needs an extra

    opened = open_source(source, read)
    columns_to_publish(opened.columns, opened.location, user)
    return rows_of_source(opened, user, bar), opened.location


def with_users(points: FloatArray, ids: Sequence[str]) -> InputRows:
    """Return rows and whose they are."""
    names: dict[str, int] = {}
    users = np.fromiter((names.setdefault(each, len(names)) for each in ids), dtype=np.int64, count=len(points))
    return InputRows(points, users, list(names))


def _with_arrow_users(points: FloatArray, ids: list[Any], user: str) -> InputRows:
    import pyarrow as pa  # noqa: PLC0415 - an extra

    chunks = [chunk for column in ids for chunk in column.chunks]
    column = pa.chunked_array(chunks, type=ids[0].type if ids else pa.string())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (
        pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ):
        raise DataError(f"column {user!r} must hold text or whole numbers to tell users apart; convert it")
    coded = column.dictionary_encode().combine_chunks()
    names = coded.dictionary.cast(pa.large_string()).to_pylist()
    users = coded.indices.fill_null(len(names)).to_numpy().astype(np.int64)
    nobody = np.array([not name.strip() for name in names] + [True])[users]
    return InputRows(points, np.where(nobody, -1, users), names)
