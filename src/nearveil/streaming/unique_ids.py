"""Does an id occur twice in a long file? Exact, and in the same memory however long it is.

Ids that rise from row to row cost nothing. Others take some 25 MB of memory, and beyond a million rows also 8 MB of
disk per million, see `WordRuns`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearveil.hashing import split_key
from nearveil.randomness import KEY_BYTES
from nearveil.streaming.id_words import id_words, in_order, order_key
from nearveil.streaming.pipeline import mapped_in_order
from nearveil.streaming.word_runs import Repeats, WordRuns
from nearveil.types import IntArray, WordArray

Batches = Callable[[], Iterator[pa.ChunkedArray]]
"""Gives all ids of the file, from the first row on."""


class IdLook(NamedTuple):
    """What one batch of ids is like: the least and the most where they rise from row to row, or else 64 bits each."""

    least: Any
    most: Any
    words: WordArray | None


class UniqueIds:
    """Finds out about the ids of a column, a batch at a time."""

    def __init__(self) -> None:
        # Secret, so that nobody can make up ids that look the same.
        self._key = split_key(secrets.token_bytes(KEY_BYTES))
        self._rising = True
        self._most: Any = None
        # Of all rows so far; none where some of them rose, and were not kept.
        self._words: WordRuns | None = WordRuns()

    def look(self, ids: pa.ChunkedArray) -> IdLook:
        """Look at a batch, on any thread."""
        column = _joined(ids)
        # Once the file is known not to rise, whether a batch does is of no use.
        if self._rising and in_order(column):
            return IdLook(order_key(column[0]), order_key(column[len(column) - 1]), None)
        return IdLook(None, None, id_words(column, self._key))

    def take(self, look: IdLook) -> None:
        """Take in what was seen of the next batch."""
        if look.words is None:
            self._rising = self._rising and (self._most is None or look.least > self._most)
            self._most, self._words = look.most, None
            return
        self._rising = False
        if self._words is not None:
            self._words.add(look.words)

    def first_repeat(self, batches: Batches) -> tuple[int, int] | None:
        """Return the rows, counted from 1, of the first id that occurs again and of its second occurrence.

        ``batches`` are the same ids once more, for a second look where the first did not settle it.
        """
        if self._rising:
            return None
        words, self._words = self._words, None
        if words is None:
            words = WordRuns()
            for part in mapped_in_order(self._words_of, batches()):
                words.add(part)
        first_run = 0
        while (suspected := words.repeats(first_run)) is not None:
            if (pair := self._confirmed(batches(), suspected)) is not None:
                return pair
            first_run = suspected.run + 1
        return None

    def _words_of(self, ids: pa.ChunkedArray) -> WordArray:
        return id_words(_joined(ids), self._key)

    def _confirmed(self, batches: Iterator[pa.ChunkedArray], suspected: Repeats) -> tuple[int, int] | None:
        """Compare the suspected ids themselves, since different ones may have the same 64 bits."""
        those = np.unique(suspected.words)
        found: list[pa.Array] = []
        rows: list[IntArray] = []
        rows_before = count = compared = 0
        for ids in batches:
            column = _joined(ids)[: suspected.rows - rows_before]
            here = np.flatnonzero(_is_in(id_words(column, self._key), those))
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


def _is_in(words: WordArray, those: WordArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    place = np.minimum(np.searchsorted(those, words), len(those) - 1)
    found: np.ndarray[Any, np.dtype[np.bool_]] = those[place] == words
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
