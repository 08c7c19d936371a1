"""Adaptive: as few questions as information allows, and a certificate at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nearveil.attacks.base import Attack, Finding, Inquiry, step_from
from nearveil.attacks.belief import Belief
from nearveil.attacks.oracle import Spot
from nearveil.attacks.planning import Outlook, outlook
from nearveil.attacks.result import Outcome
from nearveil.attacks.rings import Rings
from nearveil.nearby.index import Person
from nearveil.types import FloatArray


@dataclass(frozen=True, kw_only=True)
class Adaptive(Attack):
    """Ask where the answer is expected to tell most, until only one place is left.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        The estimate is certified when everything possible lies within this distance of it.
    colluders : int
        How many accounts to use at most.
    most_queries : int
        After so many questions the best guess is returned.
    """

    name: ClassVar[str] = "adaptive"

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    colluders: int = 1
    most_queries: int = 60

    def _run(self, inquiry: Inquiry, start: Spot) -> Finding:
        accounts = inquiry.colluders[: self.colluders]
        belief = Belief(start, self.half_extent_m, inquiry.oracle.k, self.tau_m)
        rings = Rings(inquiry.target, inquiry.oracle.k)
        first = inquiry.rank(start)
        if first is None:
            return Finding(Outcome.NOT_LISTED)
        rings.add_count(start, first - 1)
        planner = _Planner(belief, rings, first - 1, len(accounts))
        radius, cells = math.inf, len(belief.cells)
        while len(inquiry.steps) < self.most_queries:
            place, radii = planner.next_question()
            answer = self._ask(inquiry, accounts, place, radii)
            if not rings.learn(place, radii, accounts, answer):
                return Finding(Outcome.CONTRADICTION, belief.mean())
            if not belief.learn(rings.target_rings(), rings.counts(), rings.misses()):
                return Finding(Outcome.CONTRADICTION, belief.mean())
            inquiry.note_cells(belief.cells)
            before = radius
            centre, radius = belief.enclosing_circle()
            if radius <= self.tau_m:
                return Finding(Outcome.FOUND, centre, certified=True)
            planner.heed(place, useful=radius < 0.97 * before or len(belief.cells) < 0.9 * cells)
            cells = len(belief.cells)
        return Finding(Outcome.OUT_OF_QUERIES, belief.mean())

    def _ask(self, inquiry: Inquiry, accounts: Sequence[Person], place: Spot, radii: FloatArray) -> Sequence[Person]:
        """Put the colluders at their distances, in different directions, and ask."""
        for number, account in enumerate(accounts):
            if number < len(radii):
                angle = math.atan2(-place[1], -place[0]) + 0.3 * number
                inquiry.put(account, step_from(place, angle, float(radii[number])))
            else:
                inquiry.put(account, None)
        return inquiry.ask(place)


class _Planner:
    """Chooses the next place and radii."""

    def __init__(self, belief: Belief, rings: Rings, ahead: int, accounts: int) -> None:
        self._belief, self._rings = belief, rings
        self._ahead, self._accounts = float(ahead), accounts
        self._places: list[Spot] = [(float(belief.start[0]), float(belief.start[1]))]
        self._barren: list[Spot] = []
        self._trust = 1.0
        self._rng = np.random.default_rng(1)

    def heed(self, place: Spot, useful: bool) -> None:
        """Remember a place, and whether it told anything."""
        (self._places if useful else self._barren).append(place)
        # The guess of what is visible from elsewhere has just proved right or wrong: trust it more or less.
        self._trust = min(1.0, 1.3 * self._trust) if useful else 0.6 * self._trust

    def next_question(self) -> tuple[Spot, FloatArray]:
        """The place and the radii that promise most."""
        view = outlook(self._belief, self._ahead, self._rings.densities(), self._rings.crowded())
        best_score, best_place, best_radii = -1.0, self._places[0], np.array([view.tau_m])
        for place in self._candidates(view):
            q = np.array(place)
            for radii in self._radii(view, q):
                known = self._rings.known_ahead(place)
                score = view.score(q, radii, known) * (1.0 if known >= 0 else self._trust)
                if score > best_score:
                    best_score, best_place, best_radii = score, place, radii
        return best_place, best_radii

    def _radii(self, view: Outlook, q: FloatArray) -> list[FloatArray]:
        """Sets of radii worth trying at a place: evenly spread quantiles, and one that may end the attack."""
        sets = []
        for count in range(1, self._accounts + 1):
            even = np.arange(1, count + 1) / (count + 1)
            sets += [view.quantile_radii(q, even**stretch) for stretch in (0.6, 1.0, 1.6)]
        sets.append(np.array([0.999 * view.tau_m]))
        return sets

    def _candidates(self, view: Outlook) -> list[Spot]:
        """Places seen before, the mean, samples of the belief, and points along its principal axes."""
        centres, weights = view.cells[:, :2], view.planning_weights
        mean = weights @ centres
        spread = (centres - mean) * np.sqrt(weights)[:, None]
        _, sizes, axes = np.linalg.svd(spread, full_matrices=False)
        along = [
            mean + factor * size * axis for size, axis in zip(sizes, axes, strict=False) for factor in (-2, -1, 1, 2)
        ]
        chosen = centres[self._rng.choice(len(centres), size=min(14, len(centres)), p=weights / weights.sum())]
        likely = np.array(self._belief.mean())
        places = [*self._places[-3:], self._places[0], *(_spot(point) for point in (mean, likely, *along, *chosen))]
        tau = view.tau_m
        return [place for place in places if not any(math.dist(place, other) < 0.05 * tau for other in self._barren)]


def _spot(point: FloatArray) -> Spot:
    return float(point[0]), float(point[1])
