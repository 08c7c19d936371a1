"""Adaptive: as few questions as information allows, and a certificate at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from nearveil.attacks.base import Attack, Finding, Inquiry, step_from
from nearveil.attacks.belief import Belief
from nearveil.attacks.oracle import Spot
from nearveil.attacks.planner import Planner
from nearveil.attacks.result import Outcome
from nearveil.attacks.rings import Rings
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

# At so many places an account put right there must have been listed first before anything is certified.
_SENTINELS_NEEDED = 2


@dataclass(frozen=True, kw_only=True)
class Adaptive(Attack):
    """Ask where the answer is expected to tell most, until only one place is left.

    A service may publish the attacker's accounts elsewhere than they were put, which would make every bound worthless.
    So an account is put at the very place that is asked from, a sentinel: it must come first. Nothing is certified
    before sentinels came first at two places.

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
        return _Search(self, inquiry, start).run()


class _Search:
    """One attack under way."""

    def __init__(self, attack: Adaptive, inquiry: Inquiry, start: Spot) -> None:
        self._attack, self._inquiry, self._start = attack, inquiry, start
        self._accounts = inquiry.colluders[: attack.colluders]
        k = inquiry.oracle.k
        self._belief = Belief(start, attack.half_extent_m, k, attack.tau_m)
        self._rings = Rings(inquiry.target, k, start)
        self._planner = Planner(self._belief, self._rings)

    def run(self) -> Finding:
        """Ask until the possible places fit into a circle of tau, or something is wrong."""
        if not self._ask_first():
            return self._give_up()
        while len(self._inquiry.steps) < self._attack.most_queries:
            sentinel = self._wants_sentinel()
            place, radii = self._planner.next_question(len(self._accounts) - sentinel, sentinel=sentinel)
            if not self._ask(place, radii, sentinel=sentinel):
                return self._give_up()
            centre, radius = self._belief.enclosing_circle()
            if radius <= self._attack.tau_m and self._holds_without_assumption():
                return self._certify(centre)
            self._planner.heed(place)
        return self._give_up(Outcome.OUT_OF_QUERIES)

    def _ask_first(self) -> bool:
        """Put a sentinel at the start; with accounts to spare, learn how far it is to the target at once."""
        radii = self._planner.first_radii(len(self._accounts) - 1)
        return self._ask(self._start, radii, sentinel=True)

    def _wants_sentinel(self) -> bool:
        """A single account is worth more as a ruler: its second turn as a sentinel comes at the end."""
        return len(self._accounts) > 1 and self._rings.sentinels < _SENTINELS_NEEDED

    def _ask(self, place: Spot, radii: FloatArray, *, sentinel: bool) -> bool:
        """Put the accounts at their distances, in different directions, ask and learn; False if it makes no sense."""
        distances = [0.0] * sentinel + radii.tolist()
        for number, account in enumerate(self._accounts):
            if number < len(distances):
                angle = math.atan2(-place[1], -place[0]) + 0.3 * number
                self._inquiry.put(account, step_from(place, angle, distances[number]))
            else:
                self._inquiry.put(account, None)
        answer = self._inquiry.ask(place)
        return self._learn(place, dict(zip(self._accounts, distances, strict=False)), answer)

    def _learn(self, place: Spot, radius_of: dict[Person, float], answer: Sequence[Person]) -> bool:
        rings = self._rings
        makes_sense = rings.learn(place, radius_of, answer) and self._belief.learn(rings)
        self._inquiry.note_cells(self._belief.cells)
        return makes_sense

    def _holds_without_assumption(self) -> bool:
        """Whether the circle is as small without believing that the target is listed at the start."""
        if not self._rings.relies_on_start:
            return True
        belief = Belief(self._start, self._attack.half_extent_m, self._inquiry.oracle.k, self._attack.tau_m)
        if belief.learn(self._rings.without_assumption()) and belief.enclosing_circle()[1] <= self._attack.tau_m:
            return True
        # Look: without accounts in the way the target must be there.
        self._inquiry.withdraw_all()
        return self._learn(self._start, {}, self._inquiry.ask(self._start)) and not self._rings.relies_on_start

    def _certify(self, centre: Spot) -> Finding:
        """A last sentinel at the estimate if there were too few: closer to it than the target, so surely first."""
        if self._rings.sentinels < _SENTINELS_NEEDED:
            if len(self._inquiry.steps) >= self._attack.most_queries:
                return Finding(Outcome.OUT_OF_QUERIES, centre)
            if not self._ask(centre, self._planner.no_radii, sentinel=True):
                return Finding(Outcome.CONTRADICTION, centre)
            centre = self._belief.enclosing_circle()[0]
        return Finding(Outcome.FOUND, centre, certified=True)

    def _give_up(self, outcome: Outcome = Outcome.CONTRADICTION) -> Finding:
        """Say what is wrong: a target that was never seen may not be listed at the start at all."""
        if self._rings.never_seen:
            self._inquiry.withdraw_all()
            if self._inquiry.rank(self._start) is None:
                return Finding(Outcome.NOT_LISTED)
        return Finding(outcome, self._belief.mean())
