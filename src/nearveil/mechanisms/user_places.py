"""Several rows per user: one noisy location per user and place, by Veil's grid and law with fresh randomness.

Every user has a secret grid of their own. A user's first row makes its cell a place. A later row belongs to the first
of the user's places whose center is within `h` (a quarter of `noise_m`) of it, and otherwise makes its own cell one. So
GPS errors at one place do not publish it again, and averaging the rows of a place gives one noisy location, not the
true one. The proofs are those of `nearveil.veil`; as places are compared by their cells here, and not by their
published locations, nothing is added to them for coincidences.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nearveil.errors import UsageError
from nearveil.randomness import EXPONENTIAL_TAIL, Randomness, as_randomness
from nearveil.types import FloatArray, IntArray
from nearveil.veil import PI, R, Veil, _published, _turn, _turned, _unit

_ROWS_AT_ONCE = 1 << 18
# From how many places per user on single rows are quicker than rounds over all users.
_MOST_ROUNDS = 32
_LEAST_M, _LARGEST_M = 50.0, 100_000.0


def publish_places(
    noise_m: float, users: IntArray, points: FloatArray, rng: Randomness | np.random.Generator | int | None = None
) -> tuple[FloatArray, IntArray]:
    """Return a published location for every row, and the number of its place; rows of one place share both.

    Parameters
    ----------
    noise_m : float
        Mean length of the noise, 50 to 100,000.
    users : array of int, shape (n,)
        Whose rows they are, by any numbers.
    points : array, shape (n, 2)
        Latitude and longitude in degrees. A user's earlier rows come first.

    Examples
    --------
    >>> home, work = (52.52, 13.40), (52.50, 13.45)
    >>> published, place = publish_places(500, np.array([7, 7, 7]), np.array([home, work, home]), rng=1)
    >>> place.tolist(), bool((published[0] == published[2]).all())
    ([0, 1, 0], True)
    """
    if not _LEAST_M <= noise_m <= _LARGEST_M:
        raise UsageError("with several rows per user, the noise must be from 50 m to 100 km: noise_m=500")
    # Only the grid's geometry comes from Veil. Its key is used for nothing.
    grid, draw = Veil(bytes(32), noise_m), as_randomness(rng).generator
    order = np.argsort(users, kind="stable")
    published, place, count = np.empty((len(points), 2)), np.empty(len(points), dtype=np.int64), 0
    for rows in _chunks(order, users[order]):
        moved, places = _publish_chunk(grid, users[rows], points[rows], draw)
        published[rows], place[rows] = moved[places], count + places
        count += len(moved)
    return published, place


def _chunks(order: IntArray, users: IntArray) -> Iterator[IntArray]:
    """Cut rows, sorted by user, between users."""
    starts = np.flatnonzero(np.diff(users, prepend=users[:1] - 1))
    at = 0
    while at < len(order):
        later = starts[np.searchsorted(starts, at + _ROWS_AT_ONCE) :]
        end = int(later[0]) if len(later) else len(order)
        yield order[at:end]
        at = end


def _publish_chunk(
    grid: Veil, users: IntArray, points: FloatArray, draw: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Return the published location of each place, and the place of each row; rows are sorted by user."""
    starts = np.diff(users, prepend=users[:1] - 1) != 0
    user = np.cumsum(starts) - 1
    turns = np.array(_turn(np, _open_uniforms(draw, (4, int(user[-1]) + 1))))
    latitude, longitude = np.radians(points[:, 0]), np.radians(np.fmod(points[:, 1], 360.0))
    turned = np.array(_turned(turns[:, :, user], _unit(np, latitude, longitude)))
    row, column = grid._cell(np, turned)
    place, makers = _assign_places(grid, user, turned, row, column)
    moved = np.empty((3, len(makers)))
    left = np.arange(len(makers))
    while len(left):
        made_by, uniforms = makers[left], _open_uniforms(draw, (4, len(left)))
        # The distance is made of the first two, whose logarithms would end at -37. A location that can be published for
        # one place and not for another tells them apart, so they reach as far as in `exponential_from_uniforms`.
        in_tail = uniforms[:2] < EXPONENTIAL_TAIL
        uniforms[:2][in_tail] = EXPONENTIAL_TAIL * _open_uniforms(draw, (int(in_tail.sum()),))
        moved[:, left], kept = grid._moved(np, row[made_by], column[made_by], uniforms)
        left = left[~kept]
    return np.column_stack(_published(np, turns[:, :, user[makers]], moved)), place


def _assign_places(
    grid: Veil, user: IntArray, turned: FloatArray, row: FloatArray, column: FloatArray
) -> tuple[IntArray, IntArray]:
    """Return the place of each row, and the row that made each place; a user's places are numbered as they come."""
    reach, place = grid.noise_m / 4, np.empty(len(user), dtype=np.int64)
    makers: list[IntArray] = []
    count, left = 0, np.arange(len(user))
    for _ in range(_MOST_ROUNDS):
        if not len(left):
            break
        # The first row of each user that has no place yet makes one, and all later rows near it belong there.
        first = np.diff(user[left], prepend=-1) != 0
        maker = left[first]
        of_user = np.cumsum(first) - 1
        near = R * np.linalg.norm(turned[:, left] - _centers(grid, row[maker], column[maker])[:, of_user], axis=0)
        taken = (near <= reach) | first
        place[left[taken]] = count + of_user[taken]
        makers.append(maker)
        count, left = count + len(maker), left[~taken]
    known: dict[tuple[int, int, int], int] = {}
    for number, maker in zip(range(count), np.concatenate(makers).tolist(), strict=True):
        if len(left):
            known[int(user[maker]), int(row[maker]), int(column[maker])] = number
    more: list[int] = []
    for at in left.tolist():
        who = int(user[at])
        near_cells = grid._cells_near(turned[:, at].tolist(), reach)
        found = min((known[who, *cell] for cell in near_cells if (who, *cell) in known), default=count + len(more))
        if found == count + len(more):
            known[who, int(row[at]), int(column[at])] = found
            more.append(at)
        place[at] = found
    return place, np.concatenate([*makers, np.array(more, dtype=np.int64)])


def _centers(grid: Veil, row: FloatArray, column: FloatArray) -> FloatArray:
    latitude, columns = grid._row(np, row)
    return np.array(_unit(np, latitude, 2 * PI * (column + 0.5) / columns - PI))


def _open_uniforms(draw: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Draw numbers between 0 and 1 that are never 0."""
    uniforms: FloatArray = draw.random(shape) + 2.0**-54
    return uniforms
