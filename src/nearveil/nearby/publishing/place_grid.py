"""The public grid of places: positions within a cell are perfectly alike, and borders do not flicker."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nearveil.errors import UsageError
from nearveil.mechanisms.planar_laplace import check_hide_within

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
