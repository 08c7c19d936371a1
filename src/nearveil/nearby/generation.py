"""Generation: everybody's published place in one epoch, in cells, with the epoch's order of equals.

Questions and single changes are calls that keep Python's lock, so that no question sees a change half done. Building
lets go of the lock, and happens before anybody else has the generation.
"""

from __future__ import annotations

import math
import threading

import numpy as np

from nearveil.kernels import brief_kernel
from nearveil.nearby.dense_grid import (
    PEOPLE_PER_CELL,
    SlotArray,
    home_of,
    laid_out,
    link_everybody,
    rank_slots,
)
from nearveil.nearby.grid import NOBODY, link, unlink
from nearveil.nearby.siphash import HashArray, Key, hash_word, hash_words
from nearveil.types import FloatArray


class _Room(threading.local):
    """Where an answer is put together, each thread's own: making it anew takes as long as a tenth of a question."""

    slots: SlotArray = np.empty(0, dtype=np.int32)
    squares: FloatArray = np.empty(0)


_ROOM = _Room()


class Generation:
    """People's places by slot, in cells.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the area; places beyond it are allowed.
    places : array, shape (n, 2)
        In metres; not a number where nobody is. The generation keeps the array and changes it.
    id_hashes : array, shape (n,)
        Of the people in the slots.
    key : (uint64, uint64)
        Orders people at one distance.
    """

    def __init__(self, half_extent_m: tuple[float, float], places: FloatArray, id_hashes: HashArray, key: Key) -> None:
        self.places = places
        self._key = key
        self._ties = np.empty(len(places), dtype=np.uint64)
        hash_words(id_hashes, *key, self._ties)
        half_width, half_height = half_extent_m
        cells = max(1.0, len(places) / PEOPLE_PER_CELL)
        size = math.sqrt(4 * half_width * half_height / cells)
        self._frame = np.array([-half_width, -half_height, size])
        self._shape = (int(2 * half_width / size) + 1, int(2 * half_height / size) + 1)
        self._head, self._inner = laid_out(places, self._frame, *self._shape)
        self._after, self._before, self._home = (np.full(len(places), NOBODY, dtype=np.int32) for _ in range(3))
        self.count: int = link_everybody(
            places, self._frame, *self._shape, self._head, self._inner, self._after, self._before, self._home
        )

        # Kept together: a question takes microseconds, and looking them up one by one is seen in it.
        self._searched = (self._frame, *self._shape, self._head, self._inner, self._after, self.places, self._ties)

    @property
    def capacity(self) -> int:
        """How many slots there are."""
        return len(self.places)

    @property
    def key(self) -> Key:
        """What the order of equals is keyed with."""
        return self._key

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        arrays = (self.places, self._ties, self._head, self._inner, self._after, self._before, self._home)
        return sum(array.nbytes for array in arrays)

    def has(self, slot: int) -> bool:
        """Whether somebody is in a slot."""
        return 0 <= slot < len(self._home) and bool(self._home[slot] != NOBODY)

    def put(self, slot: int, x_m: float, y_m: float, id_hash: np.uint64) -> None:
        """Put whoever has this slot at a place."""
        self.count += _put(
            slot, x_m, y_m, id_hash, *self._key, self._frame, *self._shape, self._head, self._inner, self._after,
            self._before, self._home, self.places, self._ties,
        )  # fmt: skip

    def drop(self, slot: int) -> None:
        """Take whoever has this slot off the map."""
        if self.has(slot):
            _drop(slot, self._head, self._after, self._before, self._home, self.places)
            self.count -= 1

    def nearest(self, x_m: float, y_m: float, k: int, excluded: int, within_m: float) -> list[int]:
        """Return the slots of the k nearest, in order."""
        slots, squares = _ROOM.slots, _ROOM.squares
        if len(slots) != k:
            slots, squares = _ROOM.slots, _ROOM.squares = np.empty(k, dtype=np.int32), np.empty(k)
        found = _ask(x_m, y_m, excluded, within_m, *self._searched, slots, squares)
        return slots.tolist() if found == k else slots[:found].tolist()


@brief_kernel
def _ask(
    x_m: float,
    y_m: float,
    excluded: int,
    within_m: float,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    places: FloatArray,
    ties: HashArray,
    slots: SlotArray,
    squares: FloatArray,
) -> int:
    return rank_slots(
        x_m, y_m, excluded, within_m * within_m, frame, columns, rows, head, inner, after, places, ties, slots, squares
    )


@brief_kernel
def _put(
    slot: int,
    x_m: float,
    y_m: float,
    id_hash: np.uint64,
    key_0: np.uint64,
    key_1: np.uint64,
    frame: FloatArray,
    columns: int,
    rows: int,
    head: SlotArray,
    inner: SlotArray,
    after: SlotArray,
    before: SlotArray,
    home: SlotArray,
    places: FloatArray,
    ties: HashArray,
) -> int:
    is_new = home[slot] == NOBODY
    if not is_new:
        unlink(slot, head, after, before, home)
    places[slot, 0], places[slot, 1] = x_m, y_m
    ties[slot] = hash_word(id_hash, key_0, key_1)
    link(slot, home_of(x_m, y_m, frame, columns, rows, head, inner), head, after, before, home)
    return 1 if is_new else 0


@brief_kernel
def _drop(slot: int, head: SlotArray, after: SlotArray, before: SlotArray, home: SlotArray, places: FloatArray) -> None:
    unlink(slot, head, after, before, home)
    places[slot, 0] = places[slot, 1] = np.nan
