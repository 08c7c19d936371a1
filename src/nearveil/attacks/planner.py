"""The planner of the adaptive attack: tries many questions on the belief and picks the most telling."""

from __future__ import annotations

import math

import numpy as np

from nearveil.attacks.belief import Belief
from nearveil.attacks.oracle import Spot, spot_of
from nearveil.attacks.planning import Outlook, outlook
from nearveil.attacks.rings import Rings
from nearveil.types import FloatArray

_SAMPLED_PLACES = 14


class Planner:
    """Chooses the next place and radii."""

    def __init__(self, belief: Belief, rings: Rings) -> None:
        self._belief, self._rings = belief, rings
        self._places: list[Spot] = [(float(belief.start[0]), float(belief.start[1]))]
        self._barren: list[Spot] = []
        self._stale: Spot | None = None
        self._trust, self._familiar = 1.0, True
        self._radius_m, self._cells = math.inf, len(belief.cells)
        self._rng = np.random.default_rng(1)
        self.no_radii = np.empty(0)

    def heed(self, place: Spot) -> None:
        """Remember a place, and whether it told anything."""
        _, radius_m = self._belief.enclosing_circle()
        cells = len(self._belief.cells)
        useful = radius_m < 0.97 * self._radius_m or cells < 0.9 * self._cells
        self._radius_m, self._cells = radius_m, cells
        self._stale = None if useful else place
        if useful:
            self._places.append(place)
        elif not self._familiar:
            self._barren.append(place)
        if not self._familiar:
            # The guess of what is visible from elsewhere has just proved right or wrong: trust it more or less.
            self._trust = min(1.0, 1.3 * self._trust) if useful else max(0.6 * self._trust, 0.2)

    def first_radii(self, accounts: int) -> FloatArray:
        """Radii for the first question, when nothing is known but that the target is listed."""
        if accounts == 0:
            return self.no_radii
        even = np.arange(1, accounts + 1) / (accounts + 1)
        return self._outlook().quantile_radii(self._belief.start, even)

    def next_question(self, accounts: int, *, sentinel: bool) -> tuple[Spot, FloatArray]:
        """The place and the radii that promise most."""
        view, ahead = self._outlook(), self._rings.ahead()
        best_score, best_place, best_radii = -1.0, self._places[0], np.array([view.tau_m])
        for place in self._candidates(view):
            q = np.array(place)
            known = ahead.get(place, -1)
            for radii in _radii(view, q, accounts):
                score = view.score(q, radii, known, int(sentinel)) * (1.0 if known >= 0 else self._trust)
                if score > best_score:
                    best_score, best_place, best_radii = score, place, radii
        self._familiar = best_place in ahead
        return best_place, best_radii

    def _outlook(self) -> Outlook:
        return outlook(self._belief, self._rings)

    def _candidates(self, view: Outlook) -> list[Spot]:
        """Places seen before, the mean, samples of the belief, and points along its principal axes."""
        centres, weights = view.cells[:, :2], view.planning_weights
        mean = weights @ centres
        spread = (centres - mean) * np.sqrt(weights)[:, None]
        _, sizes, axes = np.linalg.svd(spread, full_matrices=False)
        along = [
            mean + factor * size * axis for size, axis in zip(sizes, axes, strict=False) for factor in (-2, -1, 1, 2)
        ]
        number = min(_SAMPLED_PLACES, len(centres))
        chosen = centres[self._rng.choice(len(centres), size=number, p=weights / weights.sum())]
        likely = np.array(self._belief.mean())
        places = [*self._places[-3:], self._places[0]]
        # More is known where the target has been seen already: go there rather than right beside.
        seen = list(self._rings.ahead())
        for point in (mean, likely, *along, *chosen):
            place = spot_of(point)
            nearest = min(seen, key=lambda other: math.dist(place, other))
            places.append(nearest if math.dist(place, nearest) < 0.2 * view.tau_m else place)
        return [place for place in dict.fromkeys(places) if self._is_worth_asking(place, view.tau_m)]

    def _is_worth_asking(self, place: Spot, tau_m: float) -> bool:
        return place != self._stale and not any(math.dist(place, other) < 0.05 * tau_m for other in self._barren)


def _radii(view: Outlook, q: FloatArray, accounts: int) -> list[FloatArray]:
    """Sets of radii worth trying at a place: spread over quantiles, and one that may end the attack."""
    sets = []
    for count in range(1, accounts + 1):
        even = np.arange(1, count + 1) / (count + 1)
        sets += [view.quantile_radii(q, even**stretch) for stretch in (0.6, 1.0, 1.6)]
    sets.append(np.array([0.999 * view.tau_m]))
    return sets
