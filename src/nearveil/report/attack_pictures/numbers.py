"""Numbers of questions beside their places, where there is room for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nearveil.attacks.oracle import Spot
from nearveil.report.attack_pictures.views import View

_Box = tuple[float, float, float, float]

# Shares of a view's half width.
_LETTER, _HEIGHT, _MARK, _GAP = 0.034, 0.062, 0.03, 0.01


class Room:
    """Finds room for text beside marks.

    Parameters
    ----------
    small, large : sequence of Spot
        Marks that must be left free.
    """

    def __init__(self, view: View, small: Iterable[Spot], large: Iterable[Spot]) -> None:
        self._view = view
        sized = [*((mark, 2 * _MARK) for mark in small), *((mark, 3 * _MARK) for mark in large)]
        self._taken = [self._box(mark, size, size) for mark, size in sized if view.holds(mark)]

    def keep_free(self, start: Spot, stop: Spot) -> None:
        """Leave a line free."""
        for x, y in np.linspace(start, stop, 60).tolist():
            self._taken.append(self._box((x, y), _MARK, _MARK))

    def beside(self, place: Spot, text: str) -> Spot | None:
        """The middle of a free spot beside a mark in view, which is then taken; None if there is none."""
        if not self._view.holds(place):
            return None
        width, height = _LETTER * len(text), _HEIGHT
        up, side = _MARK + height / 2 + _GAP, _MARK + width / 2 + _GAP
        straight = ((0.0, up), (0.0, -up), (side, 0.0), (-side, 0.0))
        across = ((side, up), (side, -up), (-side, up), (-side, -up))
        for east, north in straight + across:
            spot = place[0] + east * self._view.half_m, place[1] + north * self._view.half_m
            box = self._box(spot, width, height)
            inside = self._view.holds((box[0], box[1])) and self._view.holds((box[2], box[3]))
            if inside and not any(_overlap(box, other) for other in self._taken):
                self._taken.append(box)
                return spot
        return None

    def _box(self, middle: Spot, width: float, height: float) -> _Box:
        east, north = width / 2 * self._view.half_m, height / 2 * self._view.half_m
        return middle[0] - east, middle[1] - north, middle[0] + east, middle[1] + north


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def ranges(numbers: Sequence[int]) -> str:
    """Numbers with runs put together: 1–3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)
