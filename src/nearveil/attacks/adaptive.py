"""Adaptive attack: asks the most informative question next, and certifies its estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from nearveil.attacks._belief import Belief, Rings
from nearveil.attacks._planner import Planner
from nearveil.attacks._policy_search import PolicySearch
from nearveil.attacks.adaptive_rings import Prior, RingSearch
from nearveil.attacks.base import Attack, AttackResult, Finding, Inquiry, Outcome, inward_angle, step_from
from nearveil.attacks.oracle import PersonOracle, Spot
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

# Number of places where an account put right there must have been listed first before anything is certified.
_SENTINELS_NEEDED = 2
_FEW_ANSWERS = 8
_ASIDE_M = 1.5
# Radians: far from the first direction, and rarely out of the region.
_OTHER_WAY = 1.6


@dataclass(frozen=True, kw_only=True)
class Adaptive(Attack):
    """Ask where the expected information is largest, until only one place is left.

    A service may publish the attacker's accounts elsewhere than they were put, which would make every bound worthless.
    So an account is put at the very place that is asked from, a sentinel: it must come first. Nothing is certified
    before sentinels came first at two places. The region is trusted as well: all people are in it.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        The estimate is certified when everything possible lies within this distance of it.
    colluders : int
        How many accounts to use at most.
    most_queries : int
        Number of questions after which the best guess is returned.
    checks : int
        With answers about one person: how many answers that are certain by then must come true before anything is
        certified. Each halves the number of false certificates, roughly, at services that have no fixed rule.
    certifies : bool
        Without it no account is a sentinel: all are rulers, and the estimate is only as good as they are.
    """

    name: ClassVar[str] = "adaptive"
    seconds_each: ClassVar[float] = 0.2
    takes_more_colluders: ClassVar[bool] = True

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    colluders: int = 1
    most_queries: int = 60
    checks: int = 1
    certifies: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.tau_m < math.inf:
            raise UsageError("tau must be a distance greater than 0")
        if self.colluders < 1:
            raise UsageError("the adaptive attack needs at least one colluder")
        if self.checks < 0:
            raise UsageError("the number of checks cannot be negative")

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, colluders: int) -> Self:
        """Return the attack for a region."""
        return cls(half_extent_m=region.half_extent_m, tau_m=tau_m, colluders=colluders)

    def locate(self, oracle: PersonOracle, start: Spot | None = None) -> AttackResult:
        """Find the one person whom an oracle answers about, without accounts."""
        prior = Prior(self.half_extent_m, self.tau_m, start)
        return RingSearch(oracle, prior, most_queries=self.most_queries, checks=self.checks).run(self.name)

    def uncertified(self) -> Self | None:
        """Return the same attack without sentinels."""
        return replace(self, certifies=False) if self.certifies else None

    def _run(self, inquiry: Inquiry, start: Spot) -> Finding:
        return _Search(self, inquiry, start).run()


class _Search:
    """State of one attack."""

    def __init__(self, attack: Adaptive, inquiry: Inquiry, start: Spot) -> None:
        self._attack, self._inquiry, self._start = attack, inquiry, start
        self._accounts = inquiry.colluders[: attack.colluders]
        k = inquiry.oracle.k
        self._belief = Belief(start, attack.half_extent_m, k, attack.tau_m)
        self._rings = Rings(inquiry.target, k, start)
        self._planner = Planner(self._belief, self._rings)
        self._crowded_places: set[Spot] = set()
        self._misled = self._turned = self._looked = False
        self._sentinels_needed = _SENTINELS_NEEDED

    def run(self) -> Finding:
        """Ask until the possible places fit into a circle of tau, or something is wrong."""
        if not self._ask_first():
            return self._give_up()
        while len(self._inquiry.steps) < self._attack.most_queries:
            centre, radius = self._belief.enclosing_circle()
            if radius > self._attack.tau_m:
                makes_sense = self._ask_next()
            elif not self._attack.certifies:
                return Finding(Outcome.FOUND, centre)
            elif not self._holds_without_assumption():
                makes_sense = self._look_at_start()
            elif self._rings.sentinels < self._needed_at_the_end() or self._wants_repeat():
                makes_sense = self._ask_last(centre)
            else:
                return Finding(Outcome.FOUND, centre, certified=True, radius_m=radius)
            if not makes_sense:
                return self._give_up()
        return self._give_up(Outcome.OUT_OF_QUERIES)

    def _ask_next(self) -> bool:
        """Ask the question with the highest score."""
        sentinel = self._wants_sentinel()
        place, radii = self._planner.next_question(len(self._accounts) - sentinel, sentinel=sentinel)
        if sentinel and not self._turned and not self._crowded_places:
            # A twin of the farthest account instead: it tells more than a second sentinel.
            self._turned = True
            makes_sense = self._ask(place, np.append(radii, radii[-1]), sentinel=False)
        else:
            makes_sense = self._ask(place, radii, sentinel=sentinel)
        if makes_sense:
            self._planner.observe(place)
        return makes_sense

    def _ask_first(self) -> bool:
        """Put a sentinel at the start; with accounts to spare, learn how far it is to the target at once."""
        sentinel = self._attack.certifies
        radii = self._planner.first_radii(len(self._accounts) - sentinel)
        return self._ask(self._start, radii, sentinel=sentinel)

    def _needed_at_the_end(self) -> int:
        """Few answers of a single account agree by luck more easily than many, or those of several: one more then."""
        few = len(self._accounts) == 1 and len(self._inquiry.steps) < _FEW_ANSWERS
        return self._sentinels_needed + few

    def _wants_repeat(self) -> bool:
        """Nothing is certified before some list was seen twice, once at least: it may be another one each time."""
        return not self._rings.repeats.asked_twice and not self._looked

    def _wants_sentinel(self) -> bool:
        """A single account is worth more as a ruler: its second turn as a sentinel comes at the end."""
        wanted = self._attack.certifies and len(self._accounts) > 1
        return wanted and self._rings.sentinels < self._sentinels_needed

    def _ask(self, place: Spot, radii: FloatArray, *, sentinel: bool, turn: float = 0.0) -> bool:
        """Put the accounts at their distances, in different directions, ask and learn; False if it makes no sense."""
        distances = [0.0] * sentinel + radii.tolist()
        for number, account in enumerate(self._accounts):
            if number < len(distances):
                angle = inward_angle(place) + 0.3 * number + turn
                self._inquiry.put(account, step_from(place, angle, distances[number]))
            else:
                self._inquiry.put(account, None)
        answer = self._inquiry.ask(place)
        if sentinel and answer and answer[0] != self._accounts[0] and place not in self._crowded_places:
            return self._step_aside(place)
        return self._learn(place, dict(zip(self._accounts, distances, strict=False)), answer)

    def _step_aside(self, place: Spot) -> bool:
        """Somebody may be at that very place, and come first by chance: forget the answer, and try right beside.

        Twice, and on top of the sentinels that are needed anyway: an account that is moved may pass once by luck.
        """
        beside = [step_from(place, inward_angle(place) + turn, _ASIDE_M) for turn in (1.0, 3.0)]
        self._crowded_places.update((place, *beside))
        self._sentinels_needed += len(beside)
        return all(self._ask(spot, self._planner.no_radii, sentinel=True) for spot in beside)

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
        certain = belief.learn(self._rings.without_assumption())
        return certain and belief.enclosing_circle()[1] <= self._attack.tau_m

    def _look_at_start(self) -> bool:
        """Without accounts in the way the target must be listed at the start."""
        self._inquiry.withdraw_all()
        answer = self._inquiry.ask(self._start)
        self._misled = self._inquiry.target not in answer
        return not self._misled and self._learn(self._start, {}, answer)

    def _ask_last(self, centre: Spot) -> bool:
        """Repeat a question with the account in another direction; else put a sentinel at or beside the estimate."""
        ruler = self._rings.repeats.ruler()
        if ruler is not None and not self._turned:
            self._turned = True
            return self._ask(ruler[0], np.array([ruler[1]]), sentinel=False, turn=_OTHER_WAY)
        if self._wants_repeat():
            self._looked = True
            return self._look_at_start()
        place, turn = centre, 0
        while self._rings.had_sentinel(place):
            place = step_from(centre, inward_angle(centre) + turn, self._attack.tau_m / 2)
            turn += 1
        return self._ask(place, self._planner.no_radii, sentinel=True)

    def _give_up(self, outcome: Outcome = Outcome.CONTRADICTION) -> Finding:
        """Say what is wrong, or search on as for a service that does something to its lists.

        A target that was never seen may not be listed at the start at all.
        """
        if self._rings.never_seen and not self._misled:
            self._look_at_start()
        if outcome is Outcome.CONTRADICTION and len(self._inquiry.steps) < self._attack.most_queries:
            return self._search_by_likelihood()
        if self._misled:
            return Finding(Outcome.NOT_LISTED)
        return Finding(outcome, self._belief.mean())

    def _search_by_likelihood(self) -> Finding:
        attack = self._attack
        search = PolicySearch(
            self._inquiry,
            self._start,
            self._accounts,
            half_extent_m=attack.half_extent_m,
            tau_m=attack.tau_m,
            most_queries=attack.most_queries,
        )
        return search.run()
