"""Where an attack starts: a place from which the target is listed, far enough from it that it tells little."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nearveil.attacks.base import rank_of, step_from
from nearveil.attacks.oracle import Spot

MOST_LISTED = 100
_FIRST_STEP_M = 50.0
_HALVINGS = 5
_MOST_TRIES = 150

Listing = Callable[[Spot, int], Sequence[str]]
"""Ids near a spot, at most so many."""


class StartSearch:
    """Looks for starts with the operator's help: questions that the platform asks, which no attack is charged for.

    Parameters
    ----------
    listing : callable
        Asks the service.
    k : int
        Length of the attacker's lists.
    half_extent_m : (float, float)
        The region's box.
    rng : numpy Generator
        Directions.
    """

    def __init__(
        self, listing: Listing, *, k: int, half_extent_m: tuple[float, float], rng: np.random.Generator
    ) -> None:
        self._listing, self._k, self._half_extent_m, self._rng = listing, k, half_extent_m, rng

    def start_for(self, target: str, truth: Spot) -> Spot | None:
        """Return a start for a target: the farthest, in some direction, from which it is among the k nearest.

        As in the paper, where the target is the last of the list. None if it is listed from nowhere near.
        """
        seen_from = self._seen_from(target, truth)
        return None if seen_from is None else self._farthest(target, seen_from)

    def _seen_from(self, target: str, truth: Spot) -> Spot | None:
        """Find a place from which the target is listed, going where its rank gets better."""
        best, best_rank = truth, self._rank(target, truth)
        for number in range(_MOST_TRIES):
            if best_rank is not None and best_rank <= self._k:
                return best
            # From near to far and again: nobody knows how far the service moved the target.
            reach_m = _FIRST_STEP_M * 2.0 ** (number % 8)
            place = step_from(best, self._angle(), reach_m * math.sqrt(self._rng.random()))
            rank = self._rank(target, place)
            if rank is not None and (best_rank is None or rank < best_rank):
                best, best_rank = place, rank
        return None

    def _farthest(self, target: str, from_place: Spot) -> Spot:
        angle = self._angle()
        near_m, far_m = 0.0, _FIRST_STEP_M
        while self._is_listed(target, step_from(from_place, angle, far_m)):
            near_m, far_m = far_m, 2 * far_m
        for _ in range(_HALVINGS):
            middle_m = (near_m + far_m) / 2
            listed = self._is_listed(target, step_from(from_place, angle, middle_m))
            near_m, far_m = (middle_m, far_m) if listed else (near_m, middle_m)
        return step_from(from_place, angle, near_m)

    def _is_listed(self, target: str, place: Spot) -> bool:
        return self._is_inside(place) and target in self._listing(place, self._k)

    def _rank(self, target: str, place: Spot) -> int | None:
        return rank_of(self._listing(place, MOST_LISTED), target) if self._is_inside(place) else None

    def _is_inside(self, place: Spot) -> bool:
        return all(abs(value) < half for value, half in zip(place, self._half_extent_m, strict=True))

    def _angle(self) -> float:
        return 2 * math.pi * float(self._rng.random())
