"""Does an id occur twice in a long file? Exact, in eight bytes a row, or in none where the ids are in order."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearveil.nearby.siphash import KEY_BYTES, split_key
from nearveil.streaming.id_words import id_words, in_order, order_key
from nearveil.streaming.pipeline import mapped_in_order
from nearveil.types import IntArray, WordArray

Batches = Callable[[], Iterator[pa.ChunkedArray]]
"""Gives all ids of the file, from the first row on."""


# Where people have many rows, one of them is soon seen again.
_FIRST_ROWS = 1 << 18


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
        self._words: list[WordArray] | None = []

    def look(self, ids: pa.ChunkedArray) -> IdLook:
        """Look at a batch, on any thread."""
        column = _joined(ids)
        if in_order(column):
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
            self._words.append(look.words)

    def first_repeat(self, batches: Batches) -> tuple[int, int] | None:
        """Return the rows, counted from 1, of the first id that occurs again and of its second occurrence.

        ``batches`` are the same ids once more, for a second look where the first did not settle it.
        """
        if self._rising:
            return None
        parts = self._words
        if parts is None:
            parts = list(mapped_in_order(self._words_of, batches()))
        self._words = None
        words = np.concatenate(parts)
        parts.clear()
        pair = _earliest(words[:_FIRST_ROWS]) or (_earliest(words) if len(_repeated(words)) else None)
        if pair is None:
            return None
        if _are_equal(batches(), *pair):
            return pair[0] + 1, pair[1] + 1
        return self._confirmed(batches(), np.unique(_repeated(words)))

    def _words_of(self, ids: pa.ChunkedArray) -> WordArray:
        return id_words(_joined(ids), self._key)

    def _confirmed(self, batches: Iterator[pa.ChunkedArray], suspected: WordArray) -> tuple[int, int] | None:
        """Compare all suspected ids themselves, since different ones turned out to have the same 64 bits."""
        found: list[pa.Array] = []
        rows: list[IntArray] = []
        rows_before = count = compared = 0
        for ids in batches:
            column = _joined(ids)
            here = np.flatnonzero(_is_in(id_words(column, self._key), suspected))
            found.append(column.take(pa.array(here)))
            rows.append(rows_before + here)
            rows_before += len(column)
            count += len(here)
            if count >= 2 * compared + 2:
                if (repeat := _first_repeat(found, rows)) is not None:
                    return repeat
                compared = count
        return _first_repeat(found, rows)


def _joined(ids: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    return ids.chunk(0) if ids.num_chunks == 1 else ids.combine_chunks()


def _repeated(words: WordArray) -> WordArray:
    """Return the words that occur more than once, in order, and some of them several times."""
    rising = np.sort(words)
    repeated: WordArray = rising[1:][rising[1:] == rising[:-1]]
    return repeated


def _earliest(words: WordArray) -> tuple[int, int] | None:
    """Rows, counted from 0, of the first word that occurs again and of its second occurrence."""
    order = np.argsort(words, kind="stable")
    rising = words[order]
    again = np.flatnonzero(rising[1:] == rising[:-1])
    if not len(again):
        return None
    place = again[np.argmin(order[again + 1])]
    return int(order[place]), int(order[place + 1])


def _are_equal(batches: Iterator[pa.ChunkedArray], first: int, second: int) -> bool:
    """Compare the ids of two rows, counted from 0."""
    found = []
    rows_before = 0
    for ids in batches:
        found += [ids[row - rows_before] for row in (first, second) if rows_before <= row < rows_before + len(ids)]
        rows_before += len(ids)
        if len(found) == 2:
            break
    return bool(found[0].equals(found[1]))


def _is_in(words: WordArray, those: WordArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    place = np.minimum(np.searchsorted(those, words), len(those) - 1)
    found: np.ndarray[Any, np.dtype[np.bool_]] = those[place] == words
    return found


def _first_repeat(ids: list[pa.Array], rows: list[IntArray]) -> tuple[int, int] | None:
    codes = np.asarray(pa.chunked_array(ids).combine_chunks().dictionary_encode(null_encoding="encode").indices)
    _, first = np.unique(codes, return_index=True)
    again = np.ones(len(codes), dtype=bool)
    again[first] = False
    if not again.any():
        return None
    second = int(np.argmax(again))
    # Codes count up in the order in which ids come, and so do the places of the first of each.
    row = np.concatenate(rows)
    return int(row[first[codes[second]]]) + 1, int(row[second]) + 1
