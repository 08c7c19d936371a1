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
from nearveil.attacks.base import Attack, AttackResult, Finding, Inquiry, Outcome, inward_angle, rank_of, step_from
from nearveil.attacks.oracle import PersonOracle, Spot
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

# In units of tau: accounts that confirm an estimate are this far from it, so that some displacement of theirs does
# not make a certificate false.
_CONFIRM_AT = 0.75
# Probability that the target is that near from which on it is worth trying to confirm it.
_LIKELY = 0.8
# Radians between the directions of accounts at the same distance.
_APART = 2.1
_ASIDE_M = 1.5


@dataclass(frozen=True, kw_only=True)
class Adaptive(Attack):
    """Ask where the expected information is largest, until only one place is left.

    A service may have the attacker's accounts elsewhere than they were put, leave people out or disturb the order,
    which would make bounds worthless. So nothing is certified by what is missing from lists, and nothing before it was
    confirmed: asked from the estimate, the target is listed before accounts at 0.75 tau from it in two directions,
    which have the same people before them, and an account put right there, a sentinel, is listed first. Answers that
    make no sense lead to a search by likelihood, which gives an estimate with a radius and certifies nothing.

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
    checks : int, optional
        With answers about one person: how many answers that are certain by then must come true before anything is
        certified. By default one if the oracle says that it has a fixed rule, else more: see `RingSearch`.
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
    checks: int | None = None
    certifies: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.tau_m < math.inf:
            raise UsageError("tau must be a distance greater than 0")
        if self.colluders < 1:
            raise UsageError("the adaptive attack needs at least one colluder")
        if self.checks is not None and self.checks < 0:
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
        self._aim_m = _CONFIRM_AT * attack.tau_m
        k = inquiry.oracle.k
        self._belief = Belief(start, attack.half_extent_m, k, self._aim_m)
        self._rings = Rings(inquiry.target, k, start)
        self._planner = Planner(self._belief, self._rings)
        self._crowded_places: set[Spot] = set()
        self._tried: set[Spot] = set()
        self._misled = False
        self._answer: Sequence[Person] = ()

    def run(self) -> Finding:
        """Ask until an estimate is confirmed, or something is wrong."""
        # A sentinel at the start also tells how many people are before the target there.
        sentinel = self._attack.certifies
        radii = self._planner.first_radii(len(self._accounts) - sentinel)
        if not self._ask(self._start, radii, sentinel=sentinel):
            return self._give_up()
        while len(self._inquiry.steps) < self._attack.most_queries:
            centre, is_likely = self._estimate()
            if is_likely and not self._attack.certifies:
                return Finding(Outcome.FOUND, centre)
            tries = is_likely and centre not in self._tried
            confirmed = self._confirm(centre) if tries else self._ask_next()
            if tries:
                # The same questions once more would tell nothing new.
                self._tried.add(centre)
            if confirmed is None:
                return self._give_up()
            if confirmed:
                return Finding(Outcome.FOUND, centre, certified=True, radius_m=self._aim_m)
        return self._give_up(Outcome.OUT_OF_QUERIES)

    def _estimate(self) -> tuple[Spot, bool]:
        """The centre of a circle that can be confirmed, and whether the target is likely within it."""
        centre, radius_m = self._belief.enclosing_circle()
        if radius_m <= self._aim_m:
            return centre, True
        mean, belief = self._belief.mean(), self._belief
        near = np.hypot(*(belief.cells[:, :2] - mean).T) + 0.5 * belief.cells[:, 2] <= self._aim_m
        return mean, bool(belief.weights[near].sum() >= _LIKELY)

    def _ask_next(self) -> bool | None:
        """Ask the question with the highest score; None if the answer makes no sense."""
        place, radii = self._planner.next_question(len(self._accounts), sentinel=False)
        if not self._ask(place, radii):
            return None
        self._planner.observe(place)
        return False

    def _confirm(self, centre: Spot) -> bool | None:
        """Whether accounts all around the estimate, and one at it, confirm it; None if an answer makes no sense."""
        for turn, twins, sentinel in _confirming_questions(len(self._accounts)):
            if not self._ask(centre, np.full(twins, self._aim_m), sentinel=sentinel, turn=turn):
                return None
            before = self._answer[: max((rank_of(self._answer, self._inquiry.target) or 0) - 1, 0)]
            if self._inquiry.target not in self._answer and twins:
                return False
            rulers = self._accounts[int(sentinel) : int(sentinel) + twins]
            if any(account in before for account in rulers):
                return False
            if any(account not in self._answer for account in rulers):
                return self._confirm_in_crowd(centre)
        return True

    def _confirm_in_crowd(self, centre: Spot) -> bool | None:
        """Where k people are nearer than the accounts, sentinels tell most: they must be first at two places."""
        if self._belief.enclosing_circle()[1] > self._aim_m:
            return False if self._ask_next() is not None else None
        beside = step_from(centre, inward_angle(centre), self._aim_m / 2)
        passed = all(self._ask(place, self._planner.no_radii, sentinel=True) for place in (centre, beside))
        return True if passed else None

    def _ask(self, place: Spot, radii: FloatArray, *, sentinel: bool = False, turn: float = 0.0) -> bool:
        """Put the accounts at their distances, in different directions, ask and learn; False if it makes no sense."""
        distances = [0.0] * sentinel + radii.tolist()
        for number, account in enumerate(self._accounts):
            if number < len(distances):
                angle = inward_angle(place) + _APART * number + turn
                self._inquiry.put(account, step_from(place, angle, distances[number]))
            else:
                self._inquiry.put(account, None)
        self._answer = answer = self._inquiry.ask(place)
        if sentinel and answer and answer[0] != self._accounts[0] and place not in self._crowded_places:
            return self._step_aside(place)
        return self._learn(place, dict(zip(self._accounts, distances, strict=False)), answer)

    def _step_aside(self, place: Spot) -> bool:
        """Somebody may be at that very place, and come first by chance: try right beside, twice.

        An account that is moved may pass once by luck.
        """
        beside = [step_from(place, inward_angle(place) + turn, _ASIDE_M) for turn in (1.0, 3.0)]
        self._crowded_places.update((place, *beside))
        answer = self._answer
        passed = all(self._ask(spot, self._planner.no_radii, sentinel=True) for spot in beside)
        self._answer = answer
        return passed

    def _learn(self, place: Spot, radius_of: dict[Person, float], answer: Sequence[Person]) -> bool:
        rings = self._rings
        makes_sense = rings.learn(place, radius_of, answer) and self._belief.learn(rings)
        self._inquiry.note_cells(self._belief.cells)
        return makes_sense

    def _look_at_start(self) -> None:
        """Without accounts in the way the target must be listed at the start."""
        self._inquiry.withdraw_all()
        self._misled = self._inquiry.target not in self._inquiry.ask(self._start)

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


def _confirming_questions(accounts: int) -> list[tuple[float, int, bool]]:
    """Questions that confirm an estimate: a turn, the number of accounts around it, and whether one is right there."""
    if accounts == 1:
        return [(0.0, 1, False), (_APART, 1, False), (0.0, 0, True)]
    if accounts == 2:
        return [(0.0, 2, False), (0.0, 1, True)]
    return [(0.0, min(accounts - 1, 3), True)]
