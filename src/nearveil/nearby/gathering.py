"""What a generation is built from, in small pieces: threads that answer questions get their turn in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.morton import MOST_LEVELS, interleave
from nearveil.nearby.stores.base import PublishedBatch
from nearveil.types import FloatArray, IntArray

Remap = Callable[[IntArray], FloatArray]
"""From noisy places in steps, shape (n, 2), to published places in metres."""

PIECE = 512
_BREATH_S = 1e-4


def breathe() -> None:
    """Let other threads run; without a pause Python's lock mostly goes back to who has just let go of it."""
    time.sleep(_BREATH_S)


def in_pieces(batches: Iterable[PublishedBatch], remap: Remap) -> Iterator[tuple[list[str], FloatArray]]:
    """People and where they are published, some at a time."""
    for batch in batches:
        for first in range(0, len(batch.people), PIECE):
            metres = remap(batch.steps[first : first + PIECE])
            if not np.isfinite(metres).all():
                raise UsageError("a published place is two finite numbers in metres; correct what moves the places")
            yield batch.people[first : first + PIECE], metres
            breathe()


def settled(
    pieces: Iterable[tuple[list[str], FloatArray]],
    enter: Callable[[list[str]], IntArray],
    half_extent_m: tuple[float, float],
) -> tuple[IntArray, FloatArray]:
    """Give the first people slots in the order of their places: what a question reads then lies together."""
    found = list(pieces)
    people = list(chain.from_iterable(some for some, _ in found))
    metres = np.concatenate([np.empty((0, 2)), *(places for _, places in found)])
    slots = np.empty(len(people), dtype=np.int64)
    order = _rows_side_by_side(metres, half_extent_m)
    for first in range(0, len(order), PIECE):
        rows = order[first : first + PIECE]
        # Copies, made in this order, lie together in memory as their places do, which a question feels.
        slots[rows] = enter([people[row].encode().decode() for row in rows.tolist()])
        breathe()
    return slots, metres


def _rows_side_by_side(metres: FloatArray, half_extent_m: tuple[float, float]) -> IntArray:
    """Rows in an order in which neighbours on the ground are mostly neighbours."""
    cells = 2**MOST_LEVELS
    shares = (metres / half_extent_m + 1.0) / 2
    column, row = np.clip(shares * cells, 0, cells - 1).astype(np.int64).T
    return np.argsort(interleave(column, row), kind="stable")
