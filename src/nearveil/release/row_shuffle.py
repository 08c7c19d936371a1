"""Shuffling published rows: the order of a file may follow the places of its people, and must not be published.

Every row goes to one of 256 buckets, drawn at random and on its own; then the rows of each bucket, or of several
together, are put into a random order. All orders of all rows are equally likely then (Rao 1961, Sandelius 1962), and no
step needs more than a bucket in memory: what is beyond ``held_bytes`` waits in a temporary file without a name, in the
folder of the output. That file holds what will be published and nothing else.
"""

from __future__ import annotations

import math
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from nearveil.io.people import People, joined_people, people_from_table, table_of_people
from nearveil.randomness import ORDER_STREAM, secure_generator, seeded_randomness
from nearveil.types import IntArray

_BUCKETS = 256
_HELD_BYTES = 1 << 28
# As much as is put in order at once: it stays in a core's cache.
_ROWS_AT_ONCE = 1 << 17
# A bucket that takes more is dealt again, so that the few that are worked on at a time take little memory.
_LARGE_BUCKET = 1 / 8
_DEALING, _ORDERING = range(2)


@dataclass(frozen=True, slots=True, eq=False)
class UnorderedRows:
    """Published rows that are still to be put in order, and what draws the order."""

    parts: list[People] = field(repr=False)
    generator: np.random.Generator = field(repr=False)

    def ordered(self) -> People:
        """Return the rows in random order."""
        people = joined_people(self.parts)
        return people.taken(self.generator.permutation(len(people)))


@dataclass(frozen=True, slots=True, eq=False)
class DealtRows:
    """Published rows sorted by bucket, and where each bucket begins and the last one ends."""

    people: People = field(repr=False)
    bounds: IntArray = field(repr=False)

    def of_bucket(self, bucket: int) -> People:
        """Return the rows of one bucket."""
        return self.people.part(int(self.bounds[bucket]), int(self.bounds[bucket + 1]))


class RowShuffle:
    """Takes published rows in, in any order, and gives them back in a random one.

    Parameters
    ----------
    folder : Path or None
        Where the temporary file is made if one is needed; without a folder everything is held in memory.
    seed : int, optional
        For experiments only: the same seed gives the same order.
    held_bytes : int, optional
        How much is held in memory before rows are written to the temporary file; 256 MiB if not given.
    """

    def __init__(self, folder: Path | None, seed: int | None = None, held_bytes: float | None = None) -> None:
        self._folder = folder
        self._held_bytes = (math.inf if folder is None else _HELD_BYTES) if held_bytes is None else held_bytes
        self._seed = seed
        # Of the buckets that were dealt again to come here.
        self._within: tuple[int, ...] = ()
        self._held: list[DealtRows] = []
        self._size_bytes = 0
        self._file: IO[bytes] | None = None
        self._large_bucket_bytes = _LARGE_BUCKET * self._held_bytes
        # Of each bucket: where its rows are in the file, and how many bytes they take.
        self._written: list[list[tuple[int, int]]] = [[] for _ in range(_BUCKETS)]
        self._like: People | None = None

    def dealt(self, people: People, first_row: int) -> DealtRows:
        """Deal published rows to buckets, on any thread; ``first_row`` is the number of the first."""
        drawn = np.frombuffer(self._generator(_DEALING, first_row).bytes(len(people)), dtype=np.uint8)
        buckets = drawn.astype(np.uint16) % _BUCKETS
        bounds = np.concatenate([[0], np.cumsum(np.bincount(buckets, minlength=_BUCKETS))])
        return DealtRows(people.taken(np.argsort(buckets, kind="stable")), bounds)

    def take(self, dealt: DealtRows) -> None:
        """Take rows in."""
        self._like = dealt.people
        self._held.append(dealt)
        self._size_bytes += dealt.people.nbytes
        # What is not in columns came in one piece, and is in memory whole already.
        if self._size_bytes > self._held_bytes and dealt.people.features is None:
            self._write_out()

    def shuffled(self) -> Iterator[UnorderedRows]:
        """Give all rows, a few buckets at a time; each is to be put in order, on any thread."""
        parts = list[People]()
        for bucket in range(_BUCKETS):
            held = [dealt.of_bucket(bucket) for dealt in self._held]
            if sum(size for _, size in self._written[bucket]) > self._large_bucket_bytes:
                yield from self._dealt_again(bucket, chain(self._read(bucket), held))
                continue
            parts += [*self._read(bucket), *held]
            if sum(len(part) for part in parts) >= _ROWS_AT_ONCE:
                yield UnorderedRows(parts, self._generator(_ORDERING, bucket))
                parts = []
        if parts:
            yield UnorderedRows(parts, self._generator(_ORDERING, _BUCKETS))

    def _generator(self, step: int, number: int) -> np.random.Generator:
        """Return what draws for one step: with a seed, the same whichever thread comes first."""
        if self._seed is None:
            return secure_generator()
        return seeded_randomness(self._seed, ORDER_STREAM, *self._within, step, number).generator

    def _dealt_again(self, bucket: int, parts: Iterable[People]) -> Iterator[UnorderedRows]:
        """Give the rows of a bucket that is too large, by way of buckets of its own."""
        smaller, rows = RowShuffle(self._folder, self._seed, self._held_bytes), 0
        smaller._within = (*self._within, bucket)
        # A third time would be for rows of many megabytes each, which it would not make smaller.
        smaller._large_bucket_bytes = math.inf
        for people in parts:
            smaller.take(smaller.dealt(people, rows))
            rows += len(people)
        yield from smaller.shuffled()

    def _write_out(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - until it is no longer needed
            weakref.finalize(self, self._file.close)
        for bucket, written in enumerate(self._written):
            people = joined_people([dealt.of_bucket(bucket) for dealt in self._held])
            if not len(people):
                continue
            sink = pa.BufferOutputStream()
            table = table_of_people(people)
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table.combine_chunks())
            rows = sink.getvalue()
            written.append((self._file.tell(), rows.size))
            self._file.write(rows)
        self._held, self._size_bytes = [], 0

    def _read(self, bucket: int) -> Iterator[People]:
        for start, size in self._written[bucket]:
            assert self._file is not None  # noqa: S101 - something was written
            assert self._like is not None  # noqa: S101
            self._file.seek(start)
            table = pa.ipc.open_stream(pa.py_buffer(self._file.read(size))).read_all()
            yield people_from_table(table, self._like.layout)
