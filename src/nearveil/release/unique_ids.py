"""Unique ids: whether an id occurs twice in a long file, exactly and in constant memory.

Ids that rise from row to row cost nothing. Others are hashed to 64 bits, and the hashes sorted, on disk beyond a
million rows; equal hashes of different ids are resolved by reading the file again.
"""

from __future__ import annotations

import secrets
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError, OutputError
from nearveil.hashing import Key, hash_parts, split_key
from nearveil.io.columns import numbers_from_arrow, person_columns
from nearveil.io.people import Layout, People, PeopleStream
from nearveil.kernels import kernel
from nearveil.randomness import KEY_BYTES
from nearveil.release.parallel_map import mapped_in_order
from nearveil.types import IntArray, WordArray


class BatchIds(NamedTuple):
    """The ids of one batch."""

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

    def look(self, columns: Sequence[pa.ChunkedArray]) -> BatchIds:
        """Look at a batch of the columns at `positions`, on any thread."""
        missing = None if self._person is None else _first_missing(columns[0])
        looks = tuple(unique.look(column) for unique, column in zip(self._unique, columns, strict=True))
        return BatchIds(missing, looks, None if self._ids is None else columns[0])

    def take(self, look: BatchIds, rows_before: int) -> None:
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
        """All people by id, without places; empty where ids are not kept."""
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
    return [
        column for column, field in enumerate(schema) if field.name in likely and not pa.types.is_nested(field.type)
    ]


def _column(stream: PeopleStream, column: int) -> Iterator[pa.ChunkedArray]:
    for people in stream.batches([column]):
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


# Whether an id occurs twice in a long file: exact, in constant memory.
#
# Ids that rise from row to row cost nothing. Others take some 25 MB of memory, and beyond a million rows also 8 MB of
# disk per million, see `HashRuns`.


Batches = Callable[[], Iterator[pa.ChunkedArray]]
"""Gives all ids of the file, from the first row on."""


class IdLook(NamedTuple):
    """What one batch of ids is like: the least and the most where they rise from row to row, or else 64 bits each."""

    least: Any
    most: Any
    hashes: WordArray | None


class UniqueIds:
    """Finds out about the ids of a column, a batch at a time."""

    def __init__(self) -> None:
        # Secret, so that ids with equal hashes cannot be made up.
        self._key = split_key(secrets.token_bytes(KEY_BYTES))
        self._rising = True
        self._most: Any = None
        # Of all rows so far; none where some of them rose, and were not kept.
        self._hashes: HashRuns | None = HashRuns()

    def look(self, ids: pa.ChunkedArray) -> IdLook:
        """Look at a batch, on any thread."""
        column = _joined(ids)
        # Once the file is known not to rise, whether a batch does is of no use.
        if self._rising and in_order(column):
            return IdLook(order_key(column[0]), order_key(column[len(column) - 1]), None)
        return IdLook(None, None, id_hashes(column, self._key))

    def take(self, look: IdLook) -> None:
        """Take in what was seen of the next batch."""
        if look.hashes is None:
            self._rising = self._rising and (self._most is None or look.least > self._most)
            self._most, self._hashes = look.most, None
            return
        self._rising = False
        if self._hashes is not None:
            self._hashes.add(look.hashes)

    def first_repeat(self, batches: Batches) -> tuple[int, int] | None:
        """Return the rows, counted from 1, of the first id that occurs again and of its second occurrence.

        ``batches`` are the same ids once more, for a second look where the first did not settle it.
        """
        if self._rising:
            return None
        hashes, self._hashes = self._hashes, None
        if hashes is None:
            hashes = HashRuns()
            for part in mapped_in_order(self._hashes_of, batches()):
                hashes.add(part)
        first_run = 0
        while (suspected := hashes.repeats(first_run)) is not None:
            if (pair := self._confirmed(batches(), suspected)) is not None:
                return pair
            first_run = suspected.run + 1
        return None

    def _hashes_of(self, ids: pa.ChunkedArray) -> WordArray:
        return id_hashes(_joined(ids), self._key)

    def _confirmed(self, batches: Iterator[pa.ChunkedArray], suspected: Repeats) -> tuple[int, int] | None:
        """Compare the suspected ids themselves, since different ones may have the same 64 bits."""
        those = np.unique(suspected.hashes)
        found: list[pa.Array] = []
        rows: list[IntArray] = []
        rows_before = count = compared = 0
        for ids in batches:
            column = _joined(ids)[: suspected.rows - rows_before]
            here = np.flatnonzero(_is_in(id_hashes(column, self._key), those))
            found.append(column.take(pa.array(here)))
            rows.append(rows_before + here)
            rows_before += len(column)
            count += len(here)
            if rows_before == suspected.rows or count >= 2 * compared + 2:
                if (repeat := _first_repeat(found, rows)) is not None:
                    return repeat
                compared = count
            if rows_before == suspected.rows:
                break
        return None


def _joined(ids: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    return ids.chunk(0) if ids.num_chunks == 1 else ids.combine_chunks()


def _is_in(hashes: WordArray, those: WordArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    place = np.minimum(np.searchsorted(those, hashes), len(those) - 1)
    found: np.ndarray[Any, np.dtype[np.bool_]] = those[place] == hashes
    return found


def _first_repeat(ids: list[pa.Array], rows: list[IntArray]) -> tuple[int, int] | None:
    codes = _codes(pa.chunked_array(ids).combine_chunks())
    _, first = np.unique(codes, return_index=True)
    again = np.ones(len(codes), dtype=bool)
    again[first] = False
    if not again.any():
        return None
    second = int(np.argmax(again))
    # Codes count up in the order in which ids come, and so do the places of the first of each.
    row = np.concatenate(rows)
    return int(row[first[codes[second]]]) + 1, int(row[second]) + 1


def _codes(ids: pa.Array) -> IntArray:
    """Return numbers, the same for equal ids and counting up as new ones come."""
    try:
        coded = ids.dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError:
        coded = pa.array([repr(value) for value in ids.to_pylist()]).dictionary_encode()
    return np.asarray(coded.indices)


# External sort of 64-bit hashes: which of them occurred before, in constant memory.


# 8 MiB in memory; fewer hashes than that are never written to disk.
_RUN_HASHES = 1 << 20
# 4 MiB, and some more to put them in order.
_HASHES_COMPARED = 1 << 19
_RANGE_BITS = 10
_HASH_BYTES = 8


class Repeats(NamedTuple):
    """Hashes that had come before, of the earliest run that has some; and the number of rows up to that run's end."""

    run: int
    rows: int
    hashes: WordArray


class HashRuns:
    """Hashes in the order of their rows, cut into runs of equal length and sorted within each.

    All runs but the last lie in a temporary file without a name, 8 bytes a hash: 8 MB per million rows on disk, where
    ``TMPDIR`` says, and some 25 MB in memory. (Where that folder is in memory itself, so are the runs.)

    A hash that is in a run more than twice is kept twice: that it repeats there is all that matters, and hashes that
    are all the same fall into one range, which is compared in memory as a whole.
    """

    def __init__(self) -> None:
        self._open: WordArray | None = None
        self._filled = 0
        self._file: IO[bytes] | None = None
        # For each run on disk, where each range of hashes begins and the last ends.
        self._bounds: list[IntArray] = []

    def add(self, hashes: WordArray) -> None:
        """Take in the hashes of the next rows; raise OutputError where there is no room for them on disk."""
        taken = 0
        while taken < len(hashes):
            if self._open is None:
                self._open = np.empty(_RUN_HASHES, dtype=np.uint64)
            elif self._filled == len(self._open):
                self._put_away(self._open)
            part = hashes[taken : taken + len(self._open) - self._filled]
            self._open[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            taken += len(part)

    def repeats(self, first_run: int = 0) -> Repeats | None:
        """Return the hashes of the earliest run, from ``first_run`` on, that stand in it or before it already."""
        if self._open is None:
            return None
        self._open[: self._filled].sort()
        last = _twice_at_most(self._open[: self._filled])
        earliest, found = len(self._bounds) + 1, list[WordArray]()
        for first, after in _grouped([*self._bounds, _bounds(last)]):
            run, hashes = _repeats_among(self._between(first, after, last, runs=earliest + 1), first_run)
            if run < earliest:
                earliest, found = run, []
            if run == earliest and len(hashes):
                found.append(hashes)
        if not found:
            return None
        rows = earliest * len(self._open) + (len(self._open) if earliest < len(self._bounds) else self._filled)
        return Repeats(earliest, rows, np.concatenate(found))

    def _put_away(self, run: WordArray) -> None:
        run.sort()
        kept = _twice_at_most(run)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="nearveil-", buffering=0)  # noqa: SIM115 - closed below
                weakref.finalize(self, self._file.close)
            self._file.seek(len(self._bounds) * run.nbytes)
            left = kept.data.cast("B")
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise OutputError(
                f"the temporary folder cannot hold 8 bytes a row to compare ids ({error.strerror}); free some space, "
                "or name another folder in TMPDIR"
            ) from None
        self._bounds.append(_bounds(kept))
        self._filled = 0

    def _between(self, first: int, after: int, last: WordArray, runs: int) -> list[WordArray]:
        """Return the hashes of the first ``runs`` runs in these ranges."""
        parts = [self._read(run, own[first], own[after]) for run, own in enumerate(self._bounds[:runs])]
        if runs > len(self._bounds):
            own = _bounds(last)
            parts.append(last[own[first] : own[after]])
        return parts

    def _read(self, run: int, start: np.int64, end: np.int64) -> WordArray:
        assert self._file is not None  # noqa: S101 - there are runs in it
        assert self._open is not None  # noqa: S101 - it was filled before
        self._file.seek((run * len(self._open) + int(start)) * _HASH_BYTES)
        hashes = np.empty(int(end - start), dtype=np.uint64)
        left = hashes.data.cast("B")
        while left:
            count = self._file.readinto(left)  # type: ignore[attr-defined]
            if not count:
                raise OutputError(
                    "the temporary file with ids to compare was cut short; free some space, and try again"
                )
            left = left[count:]
        return hashes


def _twice_at_most(run: WordArray) -> WordArray:
    """Return a sorted run without the third and later ones of equal hashes."""
    more = run[2:] == run[:-2]
    return run[np.append([True, True], ~more)] if more.any() else run


def _bounds(run: WordArray) -> IntArray:
    """Where each range of hashes begins in a sorted run, and the last ends."""
    starts = np.arange(1 << _RANGE_BITS, dtype=np.uint64) << np.uint64(64 - _RANGE_BITS)
    return np.append(np.searchsorted(run, starts), len(run)).astype(np.int64)


def _grouped(bounds: list[IntArray]) -> Iterator[tuple[int, int]]:
    """Give ranges that follow each other, as many at a time as may be compared in memory: the first, and the next."""
    ends = np.sum(bounds, axis=0)
    first = 0
    while first < len(ends) - 1:
        after = max(int(np.searchsorted(ends, ends[first] + _HASHES_COMPARED, side="right")) - 1, first + 1)
        yield first, after
        first = after


def _repeats_among(parts: list[WordArray], first_run: int) -> tuple[int, WordArray]:
    """Return the earliest run with a hash that came before, and its hashes that did; some of them several times."""
    hashes = np.concatenate(parts)
    # A stable sort merges what is in order already.
    rising = np.sort(hashes, kind="stable")
    nothing = len(parts), hashes[:0]
    if not (rising[1:] == rising[:-1]).any():
        return nothing
    # Equal hashes stay in the order of their runs.
    order = np.argsort(hashes, kind="stable")
    run_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])[order]
    again = np.flatnonzero((rising[1:] == rising[:-1]) & (run_of[1:] >= first_run)) + 1
    if not len(again):
        return nothing
    run = int(run_of[again].min())
    return run, rising[again[run_of[again] == run]]


# Ids of any type: whether they rise from row to row, and 64 bits that stand for each.


# Stands for a missing id; an id with the same 64 bits by chance is resolved by a second look.
_MISSING = np.uint64(0x9E3779B97F4A7C15)


def in_order(ids: pa.Array) -> bool:
    """Whether every id is greater than the one before; text, by its length first. False where that is hard to say."""
    if ids.null_count or not len(ids):
        return False
    if pa.types.is_integer(ids.type):
        numbers = numbers_from_arrow(ids)
        return bool((numbers[1:] > numbers[:-1]).all())
    return _is_text(ids.type) and bool(_rises(*_text_and_offsets(ids)))


def order_key(item: pa.Scalar) -> Any:
    """Return an id as Python compares it in the same order."""
    value = item.as_py()
    if isinstance(value, int):
        return value
    encoded = value.encode() if isinstance(value, str) else value
    return len(encoded), encoded


def id_hashes(ids: pa.Array, key: Key) -> WordArray:
    """Return 64 bits for each id, evenly spread: equal ids have equal bits, others hardly ever."""
    if pa.types.is_integer(ids.type):
        known = ids.fill_null(0) if ids.null_count else ids
        hashes = _scattered(numbers_from_arrow(known).astype(np.int64).view(np.uint64), key)
    elif _is_text(ids.type):
        hashes = _text_hashes(ids, key)
    else:
        hashes = _text_hashes(_as_text(ids), key)
    if ids.null_count:
        hashes[ids.is_null().to_numpy(zero_copy_only=False)] = _MISSING
    return hashes


def _scattered(hashes: WordArray, key: Key) -> WordArray:
    """Spread hashes over all 64 bits, in a secret way; different ones stay different."""
    mixed = (hashes ^ key[0]) * (key[1] | np.uint64(1))
    mixed ^= mixed >> np.uint64(32)
    mixed *= key[0] | np.uint64(1)
    return mixed


def _is_text(kind: pa.DataType) -> bool:
    return any(
        check(kind)
        for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )


def _as_text(ids: pa.Array) -> pa.Array:
    try:
        return ids.cast(pa.large_string())
    except pa.ArrowException:
        return pa.array([repr(value) for value in ids.to_pylist()], pa.large_string())


def _text_hashes(ids: pa.Array, key: Key) -> WordArray:
    text, offsets = _text_and_offsets(ids)
    hashes = np.empty(len(ids), dtype=np.uint64)
    hash_parts(text[offsets[0] :], offsets[1:] - offsets[0], *key, hashes)
    return hashes


def _text_and_offsets(ids: pa.Array) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], IntArray]:
    """Return Arrow's own bytes of all texts, and where each begins and the last ends."""
    wide = pa.types.is_large_string(ids.type) or pa.types.is_large_binary(ids.type)
    _, offsets, text = ids.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32)[ids.offset : ids.offset + len(ids) + 1]
    return np.frombuffer(text or b"", dtype=np.uint8), starts.astype(np.int64)


@kernel
def _rises(text: np.ndarray[Any, np.dtype[np.uint8]], offsets: IntArray) -> bool:
    for i in range(1, len(offsets) - 1):
        before, own, end = offsets[i - 1], offsets[i], offsets[i + 1]
        longer = (end - own) - (own - before)
        at = 0
        while longer == 0 and own + at < end:
            longer = np.int64(text[own + at]) - np.int64(text[before + at])
            at += 1
        if longer <= 0:
            return False
    return True
