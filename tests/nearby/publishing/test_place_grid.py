"""The public grid: everybody has a cell, and nobody counts as far from it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearveil.errors import UsageError
from nearveil.nearby.publishing.protection import PlaceGrid

METRES = st.floats(-60_000, 60_000)
GRID = PlaceGrid(125.0)


def reaches(cell: tuple[int, int], x_m: float, y_m: float) -> bool:
    """By definition: within the cell's square, wider by the margin on every side."""
    centre = GRID.centre_of(cell)
    return max(abs(x_m - centre[0]), abs(y_m - centre[1])) <= GRID.side_m / 2 + GRID.margin_m


@given(x_m=METRES, y_m=METRES)
def test_the_first_cell_is_ones_own_and_the_nearest(x_m: float, y_m: float) -> None:
    first, *others = GRID.cells_near(x_m, y_m)
    centre = GRID.centre_of(first)
    assert max(abs(x_m - centre[0]), abs(y_m - centre[1])) <= GRID.side_m / 2 + 1e-6
    assert all(math.dist(GRID.centre_of(other), (x_m, y_m)) >= math.dist(centre, (x_m, y_m)) for other in others)


@given(x_m=METRES, y_m=METRES)
def test_all_cells_that_reach_here_are_found_and_no_other(x_m: float, y_m: float) -> None:
    column, row = round(x_m / GRID.side_m), round(y_m / GRID.side_m)
    around = {(column + i, row + j) for i in range(-2, 3) for j in range(-2, 3)}
    near = set(GRID.cells_near(x_m, y_m))
    clear = {cell for cell in around if abs(_slack(cell, x_m, y_m)) > 1e-6}
    assert {cell for cell in clear if reaches(cell, x_m, y_m)} == near & clear
    assert 1 <= len(near) <= 4


@given(x_m=METRES, y_m=METRES)
def test_nobody_counts_as_farther_from_a_centre_than_the_card_reckons_with(x_m: float, y_m: float) -> None:
    for cell in GRID.cells_near(x_m, y_m):
        assert math.dist(GRID.centre_of(cell), (x_m, y_m)) <= GRID.farthest_from_centre_m + 1e-6


@pytest.mark.parametrize("side_m", [0.0, -1.0, math.nan, math.inf])
def test_cells_without_a_size_are_refused(side_m: float) -> None:
    with pytest.raises(UsageError):
        PlaceGrid(side_m)


def _slack(cell: tuple[int, int], x_m: float, y_m: float) -> float:
    centre = GRID.centre_of(cell)
    return max(abs(x_m - centre[0]), abs(y_m - centre[1])) - GRID.side_m / 2 - GRID.margin_m
