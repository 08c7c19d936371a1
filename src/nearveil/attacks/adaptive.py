"""Adaptive attack: asks the most informative question next, and certifies its estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from nearveil.attacks._belief import Belief, Rings
from nearveil.attacks._planner import Planner
from nearveil.attacks._policy_search import PolicySearch
from nearveil.attacks.adaptive_rings import Prior, RingSearch
from nearveil.attacks.base import Attack, AttackResult, Finding, Inquiry, Outcome, inward_angle, rank_of, step_from
from nearveil.attacks.oracle import PersonOracle, Point
from nearveil.errors import UsageError
from nearveil.nearby.index import Person
from nearveil.region import Region
from nearveil.types import FloatArray

# In units of tau: accounts that confirm an estimate are this far from it, so that some displacement of theirs does
# not make a certificate false.
_CONFIRM_AT = 0.65
# Probability that the target is that near from which on it is worth trying to confirm it.
_LIKELY = 0.8
# Sides of an estimate that accounts confirm it from. Four, at right angles: wherever a grid with wide spacing has the
# estimate, one of them stays at the same point of the grid.
_SIDES = 4
_APART = 2 * math.pi / _SIDES
# In units of the radius: accounts that were nearer than this to a place do not move there visibly, and where somebody
# is at the very place of an estimate, another estimate is this far beside it.
_ASIDE = 0.5
# Probabilities: that the target is nearer than the accounts that confirm an estimate, as far as that can be chosen, and
# from which on a question that can end the attack is preferred to one that tells most.
_NEARLY_SURE = 0.97
_MAY_END = 0.35


@dataclass(frozen=True, kw_only=True)
class Adaptive(Attack):
    """Ask where the expected information is largest, until only one place is left.

    A service may have the attacker's accounts elsewhere than they were put, leave people out or disturb the order,
    which would make bounds worthless. So nothing is certified before it was confirmed: asked from the estimate, the
    target is listed before accounts at 0.65 tau from it on four sides, which have the same people before them, and the
    same accounts put right there, as sentinels, are listed first. The last questions are chosen so that they tell where
    the target is and confirm it as well. Where an oracle says that it has exact lists (``has_exact_lists``), nothing is
    to be confirmed: bounds are proofs. Where moves of accounts show late, the attack waits for them. Other answers that
    make no sense lead to a search by likelihood, which gives an estimate with a radius and certifies nothing.

    Parameters
    ----------
    half_extent_m : (float, float)
        Half width and half height of the public region.
    tau_m : float
        The estimate is certified when everything possible lies within this distance of it.
    accounts : int
        How many accounts to use at most.
    most_queries : int
        Number of questions after which the best guess is returned.
    checks : int, optional
        With answers about one person: how many answers that are certain by then must come true. By default one if the
        oracle says that it has a fixed rule, else four. Nothing is certified about others, however many there are.
    """

    name: ClassVar[str] = "adaptive"
    seconds_each: ClassVar[float] = 0.13
    takes_more_accounts: ClassVar[bool] = True

    half_extent_m: tuple[float, float]
    tau_m: float = 100.0
    accounts: int = 1
    most_queries: int = 60
    checks: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.tau_m < math.inf:
            raise UsageError("tau must be a distance greater than 0")
        if self.accounts < 1:
            raise UsageError("the adaptive attack needs at least one account")
        if self.checks is not None and self.checks < 0:
            raise UsageError("the number of checks cannot be negative")

    @classmethod
    def for_region(cls, region: Region, *, tau_m: float, accounts: int) -> Self:
        """Return the attack for a region."""
        return cls(half_extent_m=region.half_extent_m, tau_m=tau_m, accounts=accounts)

    def locate(self, oracle: PersonOracle, start: Point | None = None) -> AttackResult:
        """Find the one person whom an oracle answers about, without accounts."""
        prior = Prior(self.half_extent_m, self.tau_m, start)
        return RingSearch(oracle, prior, most_queries=self.most_queries, checks=self.checks).run(self.name)

    def _run(self, inquiry: Inquiry, start: Point) -> Finding:
        return _Search(self, inquiry, start).run()


class _Search:
    """State of one attack."""

    def __init__(self, attack: Adaptive, inquiry: Inquiry, start: Point, *, is_patient: bool = False) -> None:
        self._attack, self._inquiry, self._start, self._is_patient = attack, inquiry, start, is_patient
        self._accounts = inquiry.accounts[: attack.accounts]
        self._has_exact_lists = bool(getattr(inquiry.oracle, "has_exact_lists", False))
        self._confirms = not self._has_exact_lists
        self._aim_m = _CONFIRM_AT * attack.tau_m if self._confirms else attack.tau_m
        k = inquiry.oracle.k
        # Those that confirm an estimate; all of them must fit into a list.
        self._guards = self._accounts[: min(_SIDES, k)]
        self._belief = Belief(start, attack.half_extent_m, k, self._aim_m)
        self._rings = Rings(inquiry.target, k, start)
        self._planner = Planner(self._belief, self._rings)
        self._shared_places: set[Point] = set()
        self._tried: set[Point] = set()
        self._confirmations = _Confirmations(inquiry.target, k, self._aim_m, self._guards)
        self._misled = False

    def run(self) -> Finding:
        """Ask until an estimate is confirmed, or something is wrong."""
        makes_sense = self._ask(self._start, self._planner.first_radii(len(self._accounts)))
        # Silence at the start is no list to learn from.
        makes_sense &= bool(self._inquiry.listed) or not self._rings.never_seen
        while makes_sense and self._may_ask:
            if not self._confirms:
                centre, radius_m = self._belief.enclosing_circle()
                if radius_m <= self._attack.tau_m:
                    return self._found_by_bounds(centre, radius_m)
                makes_sense = self._ask_next()
                continue
            centre, is_likely = self._estimate()
            if self._confirmations.are_complete(centre):
                return Finding(Outcome.FOUND, centre, certified=True, radius_m=self._aim_m)
            makes_sense = self._ask_around(centre) if is_likely else self._ask_next()
        return self._give_up(Outcome.OUT_OF_QUERIES if makes_sense else Outcome.CONTRADICTION)

    def _found_by_bounds(self, centre: Point, radius_m: float) -> Finding:
        """All that is possible is near: a proof where lists are exact and the target was seen."""
        is_proof = self._has_exact_lists and not self._rings.never_seen
        return Finding(Outcome.FOUND, centre, certified=is_proof, radius_m=radius_m if is_proof else None)

    @property
    def _may_ask(self) -> bool:
        return len(self._inquiry.steps) + self._inquiry.waits < self._attack.most_queries

    def _estimate(self) -> tuple[Point, bool]:
        """The centre of a circle that can be confirmed, and whether that is worth trying."""
        place = self._confirmations.best_place()
        if place is not None:
            return place, True
        centre, radius_m = self._belief.enclosing_circle()
        if radius_m <= self._aim_m:
            centre = self._beside_others(centre)
            return centre, centre not in self._tried
        mean, belief = self._beside_others(self._known_place(self._belief.mean())), self._belief
        near = np.hypot(*(belief.cells[:, :2] - mean).T) + 0.5 * belief.cells[:, 2] <= self._aim_m
        return mean, mean not in self._tried and bool(belief.weights[near].sum() >= _LIKELY)

    def _beside_others(self, place: Point) -> Point:
        """Right beside a place, if somebody is at the very place."""
        return step_from(place, inward_angle(place), _ASIDE * self._aim_m) if place in self._shared_places else place

    def _known_place(self, place: Point) -> Point:
        """The nearest place where the target was seen, if it is about the same: more is known there."""
        nearest = min(self._rings.ahead(), key=lambda other: math.dist(place, other))
        return nearest if math.dist(place, nearest) < 0.2 * self._aim_m else place

    def _ask_next(self) -> bool:
        """Ask the question with the highest score; False if the answer makes no sense."""
        place, radii = self._planner.next_question(len(self._accounts))
        if self._may_end(place, radii):
            # Then this very question is on all sides, if the target is near the place.
            radii = np.concatenate([np.full(_SIDES, radii[0]), radii[1:]])[: len(self._accounts)]
        makes_sense = self._ask(place, radii)
        if makes_sense:
            self._planner.observe(place)
        return makes_sense

    def _may_end(self, place: Point, radii: FloatArray) -> bool:
        """Whether accounts should be on all sides at once: there are enough, and the target may be near."""
        if len(self._accounts) < _SIDES or not self._confirms or radii[0] > self._aim_m:
            return False
        belief = self._belief
        near = np.hypot(*(belief.cells[:, :2] - place).T) <= radii[0]
        return bool(belief.weights[near].sum() >= _MAY_END)

    def _ask_around(self, centre: Point) -> bool:
        """Ask from the estimate for what is not confirmed yet; spare accounts are farther away, in case it is wrong.

        Sentinels come after the first sides, which tell more, and before the last ones: where moves show late, a
        sentinel is then still listed first when it should be on a side.
        """
        self._tried.add(centre)
        known = self._confirmations
        missing = known.missing_sides(centre)
        may_be_sentinels = all(known.moves_visibly(account, centre) for account in self._guards)
        if len(missing) < _SIDES and not known.has_sentinels(centre) and may_be_sentinels:
            return self._ask(centre, self._planner.no_radii, sentinels=True)
        # Accounts that were too near to move there visibly take their sides again, farther away.
        around = (missing or [*range(_SIDES)])[: len(self._guards)]
        near_m, farther_m = self._distances_around(centre, len(self._accounts) - len(around))
        return self._ask(centre, np.concatenate([np.full(len(around), near_m), farther_m]), sides=around)

    def _distances_around(self, centre: Point, spare: int) -> tuple[float, FloatArray]:
        """A distance that the target is hardly beyond, so that accounts are rather listed, and others in case it is."""
        cells = self._belief.cells
        gaps_m = np.hypot(*(cells[:, :2] - centre).T) + cells[:, 2]
        order = np.argsort(gaps_m)
        shares = np.cumsum(self._belief.weights[order])
        near_m = float(np.clip(np.interp(_NEARLY_SURE, shares, gaps_m[order]), _ASIDE * self._aim_m, self._aim_m))
        inside = float(np.interp(near_m, gaps_m[order], shares))
        beyond = inside + (1 - inside) * np.arange(1, spare + 1) / (spare + 1)
        return near_m, np.maximum(np.interp(beyond, shares, gaps_m[order]), 1.2 * near_m)

    def _ask(self, place: Point, radii: FloatArray, *, sentinels: bool = False, sides: Sequence[int] = ()) -> bool:
        """Put the accounts at their distances, in different directions, ask and learn; False if it makes no sense."""
        turns = [*sides, *range(len(sides), len(radii))]
        placed = {
            account: (radius, inward_angle(place) + _APART * turn)
            for account, radius, turn in zip(self._accounts, radii.tolist(), turns, strict=False)
        }
        if sentinels:
            placed |= dict.fromkeys(self._guards, (0.0, 0.0))
        for account in self._accounts:
            radius, angle = placed.get(account, (0.0, 0.0))
            self._inquiry.put(account, step_from(place, angle, radius) if account in placed else None)
        answer = self._inquiry.ask(place)
        if sentinels and set(answer[: len(self._guards)]) != set(self._guards):
            return self._step_aside(place, answer)
        self._confirmations.learn(place, placed, answer)
        return self._learn(place, {account: radius for account, (radius, _) in placed.items()}, answer)

    def _step_aside(self, place: Point, answer: Sequence[Person]) -> bool:
        """Somebody may be at that very place, and come first by chance: confirm the estimate from beside it, once.

        False if that cannot be: the target itself is not at the very place of a guess.
        """
        was_beside = any(math.dist(place, other) <= self._aim_m for other in self._shared_places)
        self._shared_places.add(place)
        self._confirmations.forget(place)
        return not was_beside and self._inquiry.target not in answer[:1]

    def _learn(self, place: Point, radius_of: dict[Person, float], answer: Sequence[Person]) -> bool:
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
        is_silent = self._misled and not self._inquiry.listed
        if outcome is Outcome.CONTRADICTION and self._may_ask and not self._is_patient and not is_silent:
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
        calibration = search.calibrate()
        if calibration is None:
            return Finding(Outcome.NOT_LISTED)
        if calibration.only_delays:
            # Whoever waits until moves show has a plain service.
            found = _Search(attack, self._inquiry, self._start, is_patient=True).run()
            return Finding(found.outcome, found.estimate, radius_m=found.radius_m)
        return search.search(calibration)


class _Confirmations:
    """What accounts near a place, and right there, say about a target that is near it.

    On a grid an account may be at the very point where the target is, and come before or after it by chance, but always
    in the same order. So the same accounts that come after the target on the sides come before it as sentinels.
    """

    def __init__(self, target: Person, k: int, radius_m: float, accounts: Sequence[Person]) -> None:
        self._target, self._k, self._most_m = target, k, radius_m * (1 + 1e-9)
        self._accounts = frozenset(accounts)
        self._sides: dict[Point, set[int]] = {}
        self._sentinels: dict[Point, frozenset[Person]] = {}
        self._last_spots: dict[Person, Point] = {}

    def learn(self, place: Point, account_at: Mapping[Person, tuple[float, float]], answer: Sequence[Person]) -> None:
        """Take in an answer, with the distance and direction of each account."""
        rank = rank_of(answer, self._target)
        for account, (distance_m, direction) in account_at.items():
            at = rank_of(answer, account)
            spot = step_from(place, direction, distance_m)
            visible = self.moves_visibly(account, place)
            self._last_spots[account] = spot
            if account not in self._accounts:
                continue
            if distance_m == 0 and visible:
                self._sentinels[place] = self._sentinels.get(place, frozenset()) | {account}
            elif rank is not None and 0 < distance_m <= self._most_m and (at > rank if at else len(answer) >= self._k):
                side = round((direction - inward_angle(place)) / _APART) % _SIDES
                self._sides.setdefault(place, set()).add(side)

    def missing_sides(self, place: Point) -> list[int]:
        """On which sides of a place no account was listed after the target, nor the list full before it."""
        return [side for side in range(_SIDES) if side not in self._sides.get(place, ())]

    def has_sentinels(self, place: Point) -> bool:
        """Whether all accounts were listed first when they were put right there."""
        return self._sentinels.get(place) == self._accounts

    def forget(self, place: Point) -> None:
        """Take back what was confirmed there."""
        self._sides.pop(place, None)

    def are_complete(self, place: Point) -> bool:
        """Whether an estimate is confirmed."""
        return not self.missing_sides(place) and self.has_sentinels(place)

    def moves_visibly(self, account: Person, place: Point) -> bool:
        """Whether an account that is moved to a place now was not near it before: where moves show late, that shows."""
        before = self._last_spots.get(account)
        return before is None or math.dist(before, place) >= 0.99 * _ASIDE * self._most_m

    def best_place(self) -> Point | None:
        """The place about which most is known, if the target is near one."""
        return max(self._sides, key=lambda place: len(self._sides[place]), default=None)
