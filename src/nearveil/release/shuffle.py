"""Shuffling published rows: the order of a file may follow the locations of its users, and must not be published.

Every row goes to one of 256 buckets, drawn at random and on its own; then the rows of each bucket, or of several
together, are put into a random order. All orders of all rows are equally likely then (Rao 1961, Sandelius 1962), and no
step needs more than a bucket in memory: what is beyond ``memory_bytes`` waits in a temporary file without a name, in
the folder of the output. That file holds what will be published and nothing else.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from nearveil.errors import DataError
from nearveil.randomness import ORDER_STREAM, secure_generator, seeded_randomness
from nearveil.types import FloatArray, IntArray

_BUCKETS = 256
_MEMORY_BYTES = 1 << 28
# As much as is put in order at once: it stays in a core's cache.
_ROWS_AT_ONCE = 1 << 17
_DEALING, _ORDERING = range(2)

Dealt = tuple[pa.Table, IntArray]
"""Rows sorted by bucket, and where each bucket begins and the last one ends."""


class RowShuffle:
    """Takes published rows in, in any order, and gives them back in a random one.

    Parameters
    ----------
    folder : Path
        Where the temporary file is made if one is needed.
    seed : int, optional
        For experiments only: the same seed gives the same order.
    memory_bytes : int
        How much stays in memory before rows are written to the temporary file.
    """

    def __init__(self, folder: Path, seed: int | None = None, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._folder, self._seed, self._memory_bytes = folder, seed, memory_bytes
        self._waiting: list[Dealt] = []
        self._size_bytes = 0
        self._file: IO[bytes] | None = None
        # Of each bucket: where its rows are in the file, and how many bytes they take.
        self._written: list[list[tuple[int, int]]] = [[] for _ in range(_BUCKETS)]

    def deal(self, rows: pa.Table, first_row: int) -> Dealt:
        """Deal published rows to buckets, on any thread; ``first_row`` is the number of the first."""
        drawn = np.frombuffer(self._generator(_DEALING, first_row).bytes(len(rows)), dtype=np.uint8)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(drawn, minlength=_BUCKETS))])
        return rows.take(as_arrow(np.argsort(drawn, kind="stable"))), bounds

    def add(self, dealt: Dealt) -> None:
        """Take rows in."""
        self._waiting.append(dealt)
        self._size_bytes += dealt[0].nbytes
        if self._size_bytes > self._memory_bytes:
            self._write_out()

    def shuffled(self) -> Iterator[Callable[[], pa.Table]]:
        """Give all rows, a few buckets at a time: each call, on any thread, returns some in random order."""
        parts, count = list[pa.Table](), 0
        for bucket in range(_BUCKETS):
            parts += [*self._read(bucket), *self._of_bucket(bucket)]
            count = sum(map(len, parts))
            if count >= _ROWS_AT_ONCE or bucket == _BUCKETS - 1:
                yield partial(_in_random_order, parts, self._generator(_ORDERING, bucket))
                parts = []

    def _of_bucket(self, bucket: int) -> list[pa.Table]:
        return [rows.slice(bounds[bucket], bounds[bucket + 1] - bounds[bucket]) for rows, bounds in self._waiting]

    def _generator(self, step: int, number: int) -> np.random.Generator:
        """Return what draws for one step: with a seed, the same whichever thread comes first."""
        if self._seed is None:
            return secure_generator()
        return seeded_randomness(self._seed, ORDER_STREAM, step, number).generator

    def _write_out(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - until it is no longer needed
            weakref.finalize(self, self._file.close)
        for bucket, written in enumerate(self._written):
            rows = _joined(self._of_bucket(bucket))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows)
            written.append((self._file.tell(), sink.getvalue().size))
            self._file.write(sink.getvalue())
        self._waiting, self._size_bytes = [], 0

    def _read(self, bucket: int) -> Iterator[pa.Table]:
        for start, size in self._written[bucket]:
            assert self._file is not None  # noqa: S101 - something was written
            self._file.seek(start)
            yield pa.ipc.open_stream(pa.py_buffer(self._file.read(size))).read_all()


def _in_random_order(parts: list[pa.Table], generator: np.random.Generator) -> pa.Table:
    rows = _joined(parts)
    return rows.take(as_arrow(generator.permutation(len(rows))))


def as_arrow(numbers: IntArray | FloatArray) -> pa.Array:
    """Return numbers as an Arrow array by their buffer, which spares loading pandas."""
    buffer = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, buffer])


def _joined(parts: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(parts).combine_chunks()
    except pa.ArrowInvalid:
        # Arrow's own words would show names of fields, which are data in structures.
        names = [name for name in parts[0].column_names if len({part.schema.field(name).type for part in parts}) > 1]
        raise DataError(
            f"column {names[0] if names else ''!r} changes its type within the file; give it one type or leave it out"
        ) from None
