"""Ids of any type: whether they rise from row to row, and 64 bits that stand for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from nearveil.hashing import Key, hash_parts
from nearveil.io.columns import numbers_from_arrow
from nearveil.kernels import COMPILED, kernel
from nearveil.types import IntArray, WordArray

# Stands for a missing id; what has the same 64 bits by chance is told apart by a second look.
_MISSING = np.uint64(0x9E3779B97F4A7C15)


def in_order(ids: pa.Array) -> bool:
    """Whether every id is greater than the one before; text, by its length first. False where that is hard to say."""
    if ids.null_count or not len(ids):
        return False
    if pa.types.is_integer(ids.type):
        numbers = numbers_from_arrow(ids)
        return bool((numbers[1:] > numbers[:-1]).all())
    if not (COMPILED and _is_text(ids.type)):
        return False
    return bool(_rises(*_text_and_offsets(ids)))


def order_key(item: pa.Scalar) -> Any:
    """Return an id as Python compares it in the same order."""
    value = item.as_py()
    if isinstance(value, int):
        return value
    encoded = value.encode() if isinstance(value, str) else value
    return len(encoded), encoded


def id_words(ids: pa.Array, key: Key) -> WordArray:
    """Return 64 bits for each id, evenly spread: equal ids have equal bits, others hardly ever."""
    if pa.types.is_integer(ids.type):
        known = ids.fill_null(0) if ids.null_count else ids
        words = _scattered(numbers_from_arrow(known).astype(np.int64).view(np.uint64), key)
    elif _is_text(ids.type):
        words = _text_words(ids, key)
    else:
        words = _text_words(_as_text(ids), key)
    if ids.null_count:
        words[ids.is_null().to_numpy(zero_copy_only=False)] = _MISSING
    return words


def _scattered(words: WordArray, key: Key) -> WordArray:
    """Spread words over all 64 bits, in a secret way; different ones stay different."""
    mixed = (words ^ key[0]) * (key[1] | np.uint64(1))
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


def _text_words(ids: pa.Array, key: Key) -> WordArray:
    if not COMPILED:
        # Python's own hash has 64 bits and a secret key, too.
        return np.fromiter(map(hash, ids.to_pylist()), dtype=np.int64, count=len(ids)).view(np.uint64)
    text, offsets = _text_and_offsets(ids)
    words = np.empty(len(ids), dtype=np.uint64)
    hash_parts(text[offsets[0] :], offsets[1:] - offsets[0], *key, words)
    return words


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
