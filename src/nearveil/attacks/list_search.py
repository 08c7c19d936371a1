"""Search in ranked lists of a service that does nothing to them: bounds are exact, and certificates are confirmed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nearveil.attacks.base import Answered, Finding, Inquiry, Outcome, inward_angle, rank_of, step_from
from nearveil.attacks.belief import Belief, Prior, distances_m
from nearveil.attacks.lists import ListQuery, RankedLists
from nearveil.attacks.oracle import Point
from nearveil.attacks.planner import best_query
from nearveil.nearby.index import Person
from nearveil.types import FloatArray

if TYPE_CHECKING:
    from nearveil.attacks.adaptive import Adaptive

# Points of the belief that queries are tried on: more choose better, and take longer.
SAMPLES = 200
# In units of tau: accounts that confirm an estimate are this far from it, so that a small error of theirs does not make
# a certificate false.
_CONFIRM_AT = 0.65
# Probability that the target is that near from which on it is worth trying to confirm it.
_LIKELY = 0.8
# Four sides at right angles: wherever a wide grid has the estimate, one account stays at the same point of the grid.
_SIDES = 4
# In units of the radius: accounts that were nearer than this do not move visibly, and where a user is at the very point
# of an estimate, another estimate is this far beside it.
_ASIDE = 0.5
# A guess of what is listed at a point that proved wrong makes others this much less trusted, down to the second: less
# trust goes back to points that are known, where fewer answers tell much.
_DOUBT, _LEAST_TRUST = 0.8, 0.3
# Probability that the target is near from which on a query that can end the attack is asked in place of the best one.
_MAY_END = 0.35


class ListSearch:
    """What searches in lists share: the attacker's accounts, the belief, and asking."""

    def __init__(self, attack: Adaptive, inquiry: Inquiry, start: Point) -> None:
        self._attack, self._inquiry, self._start = attack, inquiry, start
        self._accounts = inquiry.accounts[: attack.accounts]
        self._rng = np.random.default_rng(1)
        self._stale: Point | None = None
        self._prior = Prior(attack.half_extent_m, attack.tau_m, start)

    @property
    def _left(self) -> int:
        return self._attack.most_queries - len(self._inquiry.steps) - self._inquiry.waits

    def _ask(self, point: Point, placed: Mapping[Person, tuple[float, float]]) -> Answered:
        """Put accounts at distances in directions, take the others off the map, and ask."""
        for account in self._accounts:
            radius_m, angle = placed.get(account, (0.0, 0.0))
            self._inquiry.put(account, step_from(point, angle, radius_m) if account in placed else None)
        self._inquiry.ask(point)
        return self._inquiry.history[-1]

    def _best_query(self, lists: RankedLists, belief: Belief) -> ListQuery:
        tau_m = belief.prior.tau_m
        # What is unlikely must be ruled out as well, where that can be; the more so as nothing else is left to do.
        tilt = 0.1 + 0.6 * belief.share_within(belief.mean(), tau_m) if lists.hypotheses.are_plain else 0.0
        sample = belief.sample(SAMPLES, self._rng, tilt=tilt)
        queries = lists.queries(belief, sample, len(self._accounts), self._rng)
        queries = [query for query in queries if query.point != self._stale]
        return best_query(queries, lists.chances, sample, tau_m)


class PlainSearch(ListSearch):
    """Search in lists of a service that does nothing to them, with bounds that are exact.

    ``replayed`` are answers with accounts where they were then, if moves of accounts show late.
    """

    def __init__(
        self, attack: Adaptive, inquiry: Inquiry, start: Point, *, is_trusting: bool = False,
        replayed: Sequence[Answered] = (),
    ) -> None:  # fmt: skip
        super().__init__(attack, inquiry, start)
        self._is_trusting, self._is_late = is_trusting, bool(replayed)
        self._aim_m = attack.tau_m if is_trusting else _CONFIRM_AT * attack.tau_m
        self._prior = replace(self._prior, tau_m=self._aim_m)
        self._belief = Belief(self._prior, np.zeros(1))
        k = inquiry.oracle.k
        self._lists = RankedLists(inquiry.target, k, start, self._aim_m)
        # Those that confirm an estimate; all of them must fit into a list.
        self._guards = self._accounts[: min(_SIDES, k)]
        self._confirmed = Confirmations(inquiry.target, k, self._aim_m, self._guards)
        self._tried: set[Point] = set()
        self._shared: set[Point] = set()
        self._makes_sense = all(self._learn(one) for one in replayed)

    def run(self) -> Finding | None:
        """Ask until an estimate is confirmed; None if the answers make no sense for a plain service."""
        if not self._is_late:
            self._ask_first()
        # The last query is for a look without accounts, if the target was never seen.
        while self._makes_sense and self._left > (not self._lists.seen_at):
            if self._is_trusting:
                center, radius_m = self._belief.enclosing_circle()
                if radius_m <= self._aim_m:
                    is_proof = bool(self._lists.seen_at)
                    return Finding(Outcome.FOUND, center, certified=is_proof, radius_m=radius_m if is_proof else None)
                self._ask_next()
                continue
            center, is_likely = self._estimate()
            if self._confirmed.is_complete(center):
                return Finding(Outcome.FOUND, center, certified=not self._is_late, radius_m=self._aim_m)
            if is_likely:
                self._ask_around(center)
            else:
                self._ask_next()
        return self._ended()

    def _ended(self) -> Finding | None:
        """A target that was never seen may not be listed at the start at all: look there without accounts."""
        if self._lists.seen_at:
            return None if not self._makes_sense else Finding(Outcome.OUT_OF_QUERIES, self._belief.mean())
        if self._left <= 0:
            return Finding(Outcome.OUT_OF_QUERIES)
        self._inquiry.withdraw_all()
        if self._inquiry.target in self._inquiry.ask(self._start):
            return None if not self._makes_sense else Finding(Outcome.OUT_OF_QUERIES, self._belief.mean())
        is_silent = not self._inquiry.has_seen_others()
        return Finding(Outcome.NOT_LISTED) if is_silent or self._makes_sense or self._left <= 0 else None

    def _ask_first(self) -> None:
        """Nothing is known but that the target is listed: spread the accounts over the prior."""
        count = len(self._accounts)
        away_m = np.sort(distances_m(self._belief.sample(SAMPLES, self._rng).points, self._start))
        shares = np.arange(1, count + 1) / (count + 1)
        self._ask_with(self._start, away_m[(shares * len(away_m)).astype(int)])
        is_full = len(self._inquiry.history[-1].answer) >= self._inquiry.oracle.k
        self._makes_sense &= is_full or self._inquiry.has_seen_others() or bool(self._lists.seen_at)

    def _ask_next(self) -> None:
        """Ask the best query; if the target may be near, with accounts on all sides, so that it can end the attack."""
        query = self._best_query(self._lists, self._belief)
        radii_m = query.radii_m
        if not self._is_trusting and len(self._accounts) >= _SIDES and radii_m[0] <= self._aim_m:
            near = distances_m(self._belief.cells, query.point) <= radii_m[0]
            if self._belief.mass[near].sum() >= _MAY_END:
                radii_m = np.concatenate([np.full(_SIDES, radii_m[0]), radii_m[1:]])[: len(self._accounts)]
        before, is_guess = self._extent(), query.point not in self._lists.ahead
        self._ask_with(query.point, radii_m)
        after = self._extent()
        # Leave a point after an answer that told nearly nothing.
        is_stale = after[0] > 0.97 * before[0] and after[1] > 0.9 * before[1]
        self._stale = query.point if is_stale else None
        if is_guess:
            self._lists.trust = min(max(self._lists.trust * (_DOUBT if is_stale else 1.5), _LEAST_TRUST), 1.0)

    def _extent(self) -> tuple[float, int]:
        return self._belief.enclosing_circle()[1], len(self._belief.cells)

    def _ask_with(
        self, point: Point, radii_m: FloatArray, *, sides: Sequence[int] = (), are_sentinels: bool = False
    ) -> None:
        turns = [*sides, *range(len(sides), len(radii_m))]
        placed = {
            account: (radius_m, inward_angle(point) + 2 * math.pi / _SIDES * turn)
            for account, radius_m, turn in zip(self._accounts, radii_m.tolist(), turns, strict=False)
        }
        if are_sentinels:
            placed = dict.fromkeys(self._guards, (0.0, 0.0))
        answered = self._ask(point, placed)
        if are_sentinels and set(answered.answer[: len(self._guards)]) != set(self._guards):
            self._step_aside(point, answered.answer)
            return
        self._confirmed.learn(point, placed, answered.answer)
        self._makes_sense = self._learn(answered)

    def _learn(self, answered: Answered) -> bool:
        evidence = self._lists.read(answered)
        makes_sense = evidence is not None and self._belief.learn(evidence, hint=self._lists.hint)
        if self._inquiry.steps:
            self._inquiry.note_cells(self._belief.cells)
        return makes_sense

    # -- confirming an estimate

    def _estimate(self) -> tuple[Point, bool]:
        """The center of a circle that can be confirmed, and whether that is worth trying."""
        point = self._confirmed.best_point()
        if point is not None:
            return point, True
        center, radius_m = self._belief.enclosing_circle()
        if radius_m <= self._aim_m:
            center = self._beside_others(center)
            return center, center not in self._tried
        mean = self._beside_others(self._lists.known_point(self._belief.mean()))
        return mean, mean not in self._tried and self._belief.share_within(mean, self._aim_m) >= _LIKELY

    def _beside_others(self, point: Point) -> Point:
        """Right beside a point, if another user is at the very point."""
        return step_from(point, inward_angle(point), _ASIDE * self._aim_m) if point in self._shared else point

    def _ask_around(self, center: Point) -> None:
        """Ask from the estimate for what is not confirmed yet; spare accounts are farther away, in case it is wrong."""
        self._tried.add(center)
        missing = self._confirmed.missing_sides(center)
        may_be_sentinels = all(self._confirmed.moves_visibly(account, center) for account in self._guards)
        if len(missing) < _SIDES and not self._confirmed.has_sentinels(center) and may_be_sentinels:
            self._ask_with(center, np.empty(0), are_sentinels=True)
            return
        # Accounts that were too near to move there visibly take their sides again, farther away.
        around = (missing or [*range(_SIDES)])[: len(self._guards)]
        near_m = float(np.clip(self._belief.radius_at(center), _ASIDE * self._aim_m, self._aim_m))
        spare = len(self._accounts) - len(around)
        inside = self._belief.share_within(center, near_m)
        beyond = [
            self._belief.radius_at(center, inside + (1 - inside) * number / (spare + 1))
            for number in range(1, spare + 1)
        ]
        farther_m = np.maximum(beyond, 1.2 * near_m)
        self._ask_with(center, np.concatenate([np.full(len(around), near_m), farther_m]), sides=around)

    def _step_aside(self, point: Point, answer: Sequence[Person]) -> None:
        """A user may be at that very point, and come first by chance: confirm the estimate from beside it, once.

        It makes no sense if that cannot be: the target itself is not at the very point of a guess.
        """
        was_beside = any(math.dist(point, other) <= self._aim_m for other in self._shared)
        self._shared.add(point)
        self._confirmed.forget(point)
        self._makes_sense = not was_beside and self._inquiry.target not in answer[:1]


class Confirmations:
    """What accounts near a point, and right there, say about a target that is near it.

    On a grid an account may be at the very point where the target is, and come before or after it by chance, but always
    in the same order. So the same accounts that come after the target on the sides come before it as sentinels.
    """

    def __init__(self, target: Person, k: int, radius_m: float, accounts: Sequence[Person]) -> None:
        self._target, self._k, self._most_m = target, k, radius_m * (1 + 1e-9)
        self._accounts = frozenset(accounts)
        self._sides: dict[Point, set[int]] = {}
        self._sentinels: dict[Point, frozenset[Person]] = {}
        self._last_at: dict[Person, Point] = {}

    def learn(self, point: Point, placed: Mapping[Person, tuple[float, float]], answer: Sequence[Person]) -> None:
        """Take in an answer, with the distance and direction of each account."""
        rank = rank_of(answer, self._target)
        for account, (distance_m, direction) in placed.items():
            at = rank_of(answer, account)
            is_visible = self.moves_visibly(account, point)
            self._last_at[account] = step_from(point, direction, distance_m)
            if account not in self._accounts:
                continue
            if distance_m == 0 and is_visible:
                self._sentinels[point] = self._sentinels.get(point, frozenset()) | {account}
            elif rank is not None and 0 < distance_m <= self._most_m and (at > rank if at else len(answer) >= self._k):
                side = round((direction - inward_angle(point)) * _SIDES / (2 * math.pi)) % _SIDES
                self._sides.setdefault(point, set()).add(side)

    def missing_sides(self, point: Point) -> list[int]:
        """On which sides of a point no account was listed after the target, nor the list full before it."""
        return [side for side in range(_SIDES) if side not in self._sides.get(point, ())]

    def has_sentinels(self, point: Point) -> bool:
        """Whether all accounts were listed first when they were put right there."""
        return self._sentinels.get(point) == self._accounts

    def forget(self, point: Point) -> None:
        """Take back what was confirmed there."""
        self._sides.pop(point, None)

    def is_complete(self, point: Point) -> bool:
        """Whether an estimate is confirmed."""
        return not self.missing_sides(point) and self.has_sentinels(point)

    def moves_visibly(self, account: Person, point: Point) -> bool:
        """Whether an account that is moved to a point now was not near it before: where moves show late, that shows."""
        before = self._last_at.get(account)
        return before is None or math.dist(before, point) >= 0.99 * _ASIDE * self._most_m

    def best_point(self) -> Point | None:
        """The point about which most is known, if the target is near one."""
        return max(self._sides, key=lambda point: len(self._sides[point]), default=None)
