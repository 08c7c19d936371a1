"""Keyed functions: the noise and the tag of a place, which nobody without the key can tell from random.

Everything is HMAC-SHA-512 over a purpose and length-prefixed parts, so that no two inputs can be confused.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np

from nearveil.nearby.publishing.place_grid import Cell
from nearveil.types import FloatArray

TAG_BYTES = 16
_UNIFORMS = 6


def keyed_bytes(key: bytes, purpose: str, *parts: bytes) -> bytes:
    """Return 64 bytes that depend on the key, the purpose and every part."""
    message = b"".join(len(part).to_bytes(4, "big") + part for part in (purpose.encode(), *parts))
    return hmac.digest(key, message, hashlib.sha512)


def place_tag(key: bytes, person: str, cell: Cell, window: int, grid_side_m: float) -> bytes:
    """Return by what the ledger recognises a person's place within a window."""
    return keyed_bytes(key, "nearveil place tag", *_place(person, cell, window, grid_side_m))[:TAG_BYTES]


def place_uniforms(key: bytes, person: str, cell: Cell, window: int, grid_side_m: float) -> FloatArray:
    """Return the uniform numbers in [0, 1) that make the noise of a person's place: shape (1, 3, 2)."""
    drawn = keyed_bytes(key, "nearveil place noise", *_place(person, cell, window, grid_side_m))
    words = np.frombuffer(drawn, dtype=">u8", count=_UNIFORMS)
    # The upper 53 bits, as NumPy's own generators do.
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(1, 3, 2)


def _place(person: str, cell: Cell, window: int, grid_side_m: float) -> tuple[bytes, ...]:
    # The side is part of the place: another grid is another noise.
    numbers = (str(cell[0]), str(cell[1]), str(window), repr(grid_side_m))
    return (person.encode(), *(number.encode() for number in numbers))
