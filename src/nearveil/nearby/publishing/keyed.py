"""Keyed functions: the noise and the tag of a place, which nobody without the key can tell from random.

Everything is keyed BLAKE2b over a purpose and length-prefixed parts, so that no two inputs can be confused. (HMAC would
do as well, but Python's gives up the interpreter's lock at every call, and a busy server waits for it.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from nearveil.nearby.publishing.place_grid import Cell
from nearveil.types import FloatArray

TAG_BYTES = 16
_UNIFORMS = 6


def keyed_bytes(key: bytes, purpose: str, *parts: bytes, size: int = 64) -> bytes:
    """Return so many bytes, at most 64, that depend on the key, the purpose and every part."""
    message = b"".join([len(part).to_bytes(4, "big") + part for part in (purpose.encode(), *parts)])
    return hashlib.blake2b(message, digest_size=size, key=key).digest()


def place_tag(key: bytes, person: str, cell: Cell, window: int, grid_side_m: float) -> bytes:
    """Return by what the ledger recognises a person's place within a window."""
    return keyed_bytes(key, "nearveil place tag", *_place(person, cell, window, grid_side_m), size=TAG_BYTES)


def place_uniforms(key: bytes, places: Iterable[tuple[str, Cell]], window: int, grid_side_m: float) -> FloatArray:
    """Return the uniform numbers in [0, 1) that make the noise of people's places: shape (n, 3, 2)."""
    drawn = b"".join(
        keyed_bytes(key, "nearveil place noise", *_place(person, cell, window, grid_side_m), size=8 * _UNIFORMS)
        for person, cell in places
    )
    words = np.frombuffer(drawn, dtype=">u8")
    # The upper 53 bits, as NumPy's own generators do.
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(-1, 3, 2)


def _place(person: str, cell: Cell, window: int, grid_side_m: float) -> tuple[bytes, ...]:
    # The side is part of the place: another grid is another noise.
    return (person.encode(), f"{cell[0]} {cell[1]} {window} {grid_side_m!r}".encode())
