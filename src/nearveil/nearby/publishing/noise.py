"""Keyed functions: the noise and the tag of a place, which nobody without the key can tell from random.

Everything is keyed BLAKE2b over a purpose and length-prefixed parts, so that no two inputs can be confused. (HMAC would
do as well, but Python's gives up the interpreter's lock at every call, and a busy server waits for it.)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nearveil.errors import UsageError
from nearveil.mechanisms.planar_laplace import check_hide_within
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


# The public grid of places: positions within a cell are perfectly alike, and borders do not flicker.


Cell = tuple[int, int]
"""Column and row, counted from the region's centre."""

CELLS_PER_HIDE_WITHIN = 4
MARGIN_SHARE = 0.5
"""How far beyond its cell somebody may go and still count as in it, as a share of the cell's side.

So somebody has to be a whole side away to leave a cell that they came back to, which the error of a phone is not.
"""


@dataclass(frozen=True, slots=True)
class PlaceGrid:
    """Square cells in metres around the region's centre, that of column 0 and row 0 centred on it.

    Parameters
    ----------
    side_m : float
        Side of a cell.

    Examples
    --------
    >>> grid = PlaceGrid(125.0)
    >>> grid.cell_at(60.0, -70.0)
    (0, -1)
    >>> grid.cells_near(60.0, 0.0)
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    """

    side_m: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.side_m) and self.side_m > 0):
            raise UsageError("a grid needs cells of a side greater than 0 metres")

    @property
    def margin_m(self) -> float:
        """How far beyond its cell somebody may go and still count as in it."""
        return MARGIN_SHARE * self.side_m

    @property
    def farthest_from_centre_m(self) -> float:
        """The largest distance between somebody and the centre of the cell they count as in."""
        return math.sqrt(2.0) * (self.side_m / 2 + self.margin_m)

    def cell_at(self, x_m: float, y_m: float) -> Cell:
        """Return the cell in which a place lies."""
        return math.floor(x_m / self.side_m + 0.5), math.floor(y_m / self.side_m + 0.5)

    def cells_near(self, x_m: float, y_m: float) -> list[Cell]:
        """Return every cell that somebody here may count as in, nearest centre first; the first is their own."""
        columns = self._along(x_m)
        rows = self._along(y_m)
        cells = [(column, row) for column in columns for row in rows]
        return sorted(cells, key=lambda cell: math.dist(self.centre_of(cell), (x_m, y_m)))

    def centre_of(self, cell: Cell) -> tuple[float, float]:
        """Return the centre of a cell in metres."""
        return cell[0] * self.side_m, cell[1] * self.side_m

    def _along(self, value_m: float) -> list[int]:
        first = math.floor((value_m - self.margin_m) / self.side_m + 0.5)
        last = math.floor((value_m + self.margin_m) / self.side_m + 0.5)
        return list(range(first, last + 1))


def grid_for(hide_within_m: float) -> PlaceGrid:
    """Return the grid of a protection: cells a quarter of the distance to hide within."""
    return PlaceGrid(check_hide_within(hide_within_m) / CELLS_PER_HIDE_WITHIN)
