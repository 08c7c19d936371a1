"""Publishing a file batch by batch, in constant memory and on all cores."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.io.readers import Batch, Source, floats
from nearveil.io.writers import Writer
from nearveil.mechanisms.base import Mechanism
from nearveil.randomness import NumberedRows, stream_key
from nearveil.release.shuffle import Dealt, RowShuffle, as_arrow
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from nearveil.release.protect import _Release

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# As much as a core keeps at hand; with less, threads wait for each other.
_ROWS_AT_ONCE = 1 << 14


def publish_batches(
    release: _Release,
    source: Source,
    columns: Sequence[str],
    published: FloatArray | None,
    writer: Writer,
    output: Path,
) -> int:
    """Write published locations and the columns named, and return how many rows there are.

    ``published`` are the locations of all rows, not a number where a row is left out; None to draw them here, each row
    with randomness of its own.
    """
    mechanism, seed = release.mechanism, release.mechanism.seed
    mechanism._prepare()
    key = stream_key(seed)
    folder = Path(tempfile.gettempdir()) if str(output) == "-" else output.resolve().parent
    shuffle = None if release.keep_order else RowShuffle(folder, seed)

    def publish(first_row: int, batch: Batch) -> Batch:
        if published is None:
            is_usable = release.check(batch.points, first_row)
            moved = _drawn(mechanism, batch.points[is_usable], key, first_row)
        else:
            moved = published[first_row : first_row + len(batch.points)]
            if len(moved) < len(batch.points):
                raise _changed()
            is_usable = ~np.isnan(moved[:, 0])
            moved = moved[is_usable]
        return Batch(moved, batch.table if is_usable.all() else batch.table.filter(pa.array(is_usable)))

    def work(numbered: tuple[int, Batch]) -> tuple[Batch, Batch, Dealt | None]:
        first_row, batch = numbered
        moved = publish(first_row, batch)
        return batch, moved, None if shuffle is None else shuffle.deal(_as_table(moved), first_row)

    second = None
    if columns:
        from nearveil.release.second_location import SecondLocations  # noqa: PLC0415 - only if columns are kept

        second = SecondLocations(source.location)
    rows = count = 0
    with release.bar("moving locations", source.rows) as advance:
        for true, moved, dealt in mapped_in_order(work, _numbered(source, columns)):
            if second is not None:
                second.add_table(true.points, true.table)
            if shuffle is None or dealt is None:
                writer.write(moved)
            else:
                shuffle.add(dealt)
            rows, count = rows + len(true.points), count + len(moved.points)
            advance(len(true.points))
    if published is not None and rows < len(published):
        raise _changed()
    if second is not None:
        second.finish()
    if not count:
        raise DataError("there is no row that can be published; give at least one location")
    if shuffle is not None:
        with release.bar("writing rows in random order", count) as advance:
            for table in mapped_in_order(lambda ordered: ordered(), shuffle.shuffled()):
                writer.write(_as_batch(table))
                advance(len(table))
    return count


def _changed() -> DataError:
    return DataError("the file changed while it was read; protect one that is at rest")


def _drawn(mechanism: Mechanism, points: FloatArray, key: bytes, first_row: int) -> FloatArray:
    moved = np.empty_like(points)
    for start in range(0, len(points), _ROWS_AT_ONCE):
        part = slice(start, min(start + _ROWS_AT_ONCE, len(points)))
        moved[part] = mechanism.published(points[part], NumberedRows(key, first_row + start, part.stop - part.start))
    return moved


def _numbered(source: Source, columns: Sequence[str]) -> Iterator[tuple[int, Batch]]:
    first_row = 0
    for batch in source.batches(columns):
        yield first_row, batch
        first_row += len(batch.points)


def _as_table(batch: Batch) -> pa.Table:
    """Put the published locations beside the columns, as the last two."""
    columns = [*batch.table.columns, *map(as_arrow, batch.points.T)]
    return pa.table(columns, names=[*batch.table.column_names, "latitude", "longitude"])


def _as_batch(table: pa.Table) -> Batch:
    columns = table.num_columns - 2
    points = np.column_stack([floats(table.column(columns + axis)) for axis in (0, 1)])
    return Batch(points, table.select(range(columns)))


def mapped_in_order(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Give the results of ``work`` in the order of the items, which are read ahead, with all cores at work."""
    cores, waiting, fetched, end = os.cpu_count() or 1, deque[Future[_Result]](), iter(items), object()
    with ThreadPoolExecutor(cores) as pool, ThreadPoolExecutor(1) as reader:
        ahead: Future[Any] = reader.submit(next, fetched, end)
        try:
            while (item := ahead.result()) is not end:
                ahead = reader.submit(next, fetched, end)
                waiting.append(pool.submit(work, item))
                if len(waiting) > cores:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
