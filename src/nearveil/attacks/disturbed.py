"""Search where lists are not those of a plain service: weigh points and what the service does to lists together.

Answers so far are read again, with errors of unknown size. What remains is to say nothing false: an estimate is called
found only if predicted answers came true, and its radius allows for what no average gets rid of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from nearveil.attacks.banded_lists import BandedLists, Bands, find_bands
from nearveil.attacks.base import Answered, Finding, Inquiry, Outcome, inward_angle, step_from
from nearveil.attacks.belief import NONSENSE, Belief
from nearveil.attacks.list_search import SAMPLES, ListSearch, PlainSearch
from nearveil.attacks.lists import ERROR_SHARES, ERRORS_M, Hypotheses, RankedLists, share_left_out
from nearveil.attacks.oracle import OutOfQueriesError, Point
from nearveil.attacks.planner import best_query
from nearveil.nearby.index import Person

if TYPE_CHECKING:
    from nearveil.attacks.adaptive import Adaptive

# Moves of accounts show this many queries later, at most: more would take as many queries to notice.
_MOST_DELAY = 5
# Answers that a result needs at least: fewer agree with each other by chance.
_LEAST_ANSWERS = 6
# So many predicted answers must come true, at least two of them of accounts that come before the target and two of such
# that come after it, and more for each that did not. More checks make fewer results wrong, and cost queries.
_CHECKS, _LEAST_OF_EACH, _MORE_CHECKS, _MOST_CONTRADICTIONS = 6, 2, 4, 2
# The target is hardly farther away than so many times the error of accounts: more makes more radii hold, and fewer of
# them small enough.
_ERRORS = 2.8
# An account so many times the noise farther away than the target hardly comes before it.
_NOISE_TIMES = 4.3
# A look from this part of the region away, unless so many answers were without the target: a service that shows the
# target everywhere does not go by distance.
_AFAR, _ABSENT = 0.5, 3
# Errors below the first hardly contradict a plain service; from the second on they may be bands, which cost queries to
# look for.
_NOTICEABLE_M, _LARGE_M = 20.0, 35.0
# How much less likely each larger error is (as a logarithm), where lists leave users out, and where they do not.
_STEEP, _FLAT = 1.0, 0.3
_GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


class DisturbedSearch(ListSearch):
    """State of one search, after some answers that made no sense for a plain service."""

    def __init__(self, attack: Adaptive, inquiry: Inquiry, start: Point) -> None:
        super().__init__(attack, inquiry, start)
        self._answers, self._contradictions, self._looked = 0, 0, False
        self._has_tried_bands = False
        self._belief, self._lists = Belief(self._prior, np.zeros(1)), self._new_lists(self._hypotheses())

    def run(self) -> Finding:
        """Ask until predicted answers confirm an estimate, or queries run out."""
        delay = self._delay()
        if delay:
            # Who waits until moves show has a plain service.
            self._inquiry.waits = delay
        if delay and self._is_plain(self._shifted(delay)):
            found = PlainSearch(self._attack, self._inquiry, self._start, replayed=self._shifted(delay)).run()
            if found is not None:
                return found
        if self._left > 0 and not self._is_asked_twice():
            self._inquiry.ask(self._inquiry.history[-1].place)
        self._read_again()
        if self._may_be_banded() and self._error_m > _LARGE_M and (found := self._try_bands()):
            return found
        found = self._search()
        if found.outcome is Outcome.CONTRADICTION and self._may_be_banded():
            return self._try_bands() or found
        return found

    def _search(self) -> Finding:
        estimate, radius_m = self._estimate()
        while self._left > self._cost_of_checks:
            query = self._best_query(self._lists, self._belief)
            self._ask_with(query.point, query.radii_m.tolist())
            estimate, radius_m = self._estimate()
            if radius_m > self._attack.tau_m or self._answers < _LEAST_ANSWERS:
                continue
            is_confirmed = self._is_confirmed(estimate, radius_m)
            estimate, radius_m = self._estimate()
            if is_confirmed and radius_m <= self._attack.tau_m:
                return self._result(Outcome.FOUND, estimate, radius_m)
            if self._contradictions > _MOST_CONTRADICTIONS:
                return Finding(Outcome.CONTRADICTION, estimate)
            if not is_confirmed:
                self._read_again()
        is_confirmed = self._is_confirmed(estimate, radius_m)
        estimate, radius_m = self._estimate()
        if not is_confirmed:
            return Finding(Outcome.CONTRADICTION, estimate)
        return self._result(Outcome.OUT_OF_QUERIES, estimate, radius_m)

    def _result(self, outcome: Outcome, estimate: Point, radius_m: float) -> Finding:
        """An estimate, with its radius if it is known what the service does and most answers are as it should give."""
        rows, at = self._lists.hypotheses, self._belief.likeliest
        if rows.error_share[at] == ERROR_SHARES[-1] or not self._belief.explains_most():
            return Finding(Outcome.CONTRADICTION, estimate)
        return Finding(outcome, estimate, radius_m=radius_m)

    # -- lists in bands

    def _may_be_banded(self) -> bool:
        """Whether the order is stable, nobody is left out, moves show at once, and bands were not looked for before."""
        is_stable = not self._lists.hypotheses.error_share.any() and self._lists.drop <= NONSENSE
        return is_stable and not self._inquiry.waits and not self._has_tried_bands

    @property
    def _error_m(self) -> float:
        """The error of accounts to expect: its geometric mean, as errors that are hardly possible are large."""
        errors_m = self._lists.hypotheses.error_m
        if not errors_m.any():
            return 0.0
        return float(np.exp(self._belief.weights.sum(axis=0) @ np.log(errors_m)))

    def _try_bands(self) -> Finding | None:
        """Measure bands, and search by them; None if there are none, with all answers read again."""
        self._has_tried_bands = True
        try:
            bands = find_bands(self._answer_at, self._accounts, [self._start, *self._quiet_points()])
            found = self._search_in_bands(bands) if bands else None
        except OutOfQueriesError:
            found = Finding(Outcome.OUT_OF_QUERIES, self._belief.mean())
        if found is None:
            self._read_again()
        return found

    def _quiet_points(self) -> list[Point]:
        """Points where few users may be: the corners of the region."""
        (x, y) = self._attack.half_extent_m
        return [(0.98 * x * east, 0.98 * y * north) for east in (-1, 1) for north in (-1, 1)]

    def _answer_at(self, point: Point, radius_of: Mapping[Person, float]) -> Sequence[Person]:
        if self._left <= 0:
            raise OutOfQueriesError("the attack has asked as often as it may")
        angle = self._rng.uniform(0, 2 * math.pi)
        return self._ask(point, {
            account: (radius_m, self._inside(point, radius_m, angle + _GOLDEN_ANGLE * number))
            for number, (account, radius_m) in enumerate(radius_of.items())
        }).answer  # fmt: skip

    def _search_in_bands(self, bands: Bands) -> Finding | None:
        """Search by edges of bands; None if no point agrees with them."""
        lists = BandedLists(self._inquiry.target, self._inquiry.oracle.k, self._start, bands)
        belief = Belief(self._prior, lists.log_chances)
        known = 0
        while True:
            for answered in self._inquiry.history[known:]:
                lists.add(answered)
            known = len(self._inquiry.history)
            for cells in (None, belief.cells):
                if not lists.compare(cells) or not belief.learn(lists.evidence(), again=True):
                    return None
            self._inquiry.note_cells(belief.cells)
            center, radius_m = belief.enclosing_circle()
            if radius_m <= self._attack.tau_m or self._left <= 0:
                break
            sample = belief.sample(SAMPLES, self._rng)
            query = best_query(lists.queries(belief, sample, self._rng), lists.chances, sample, self._attack.tau_m)
            radius_of = {account: radius for account, radius in zip(bands.accounts, query.radii_m.tolist(), strict=True)
                         if not math.isnan(radius)}  # fmt: skip
            self._answer_at(query.point, radius_of)
        if radius_m > self._attack.tau_m:
            mean = belief.mean()
            center, radius_m = mean, belief.radius_at(mean)
        is_confirmed = self._is_seen_by_distance(center) and self._comes_in_bands(
            center, radius_m, bands.width_m, is_cut_off=lists.is_cut_off
        )
        if not is_confirmed:
            return Finding(Outcome.OUT_OF_QUERIES if self._left <= 0 else Outcome.CONTRADICTION, center)
        outcome = Outcome.FOUND if radius_m <= self._attack.tau_m else Outcome.OUT_OF_QUERIES
        return Finding(outcome, center, radius_m=radius_m)

    def _comes_in_bands(self, estimate: Point, radius_m: float, width_m: float, *, is_cut_off: bool) -> bool:
        """Whether the target is in the first band from a little nearer than its edge, and not from a little beyond it.

        An account in the next band comes after it, or one in the first band before it, whatever the order in a band.
        """
        turn, told = self._rng.uniform(0, 2 * math.pi), 0
        gap_m = radius_m + 0.02 * width_m
        farther_m = (math.floor(radius_m / width_m) + 1.5) * width_m
        number = 0
        while self._left > 0 and (number < _CHECKS or told < _LEAST_OF_EACH):
            is_inside = number % 2 == 0
            away_m = max(width_m - gap_m, 0.0) if is_inside else width_m + gap_m
            expected = (farther_m, False) if is_inside else (width_m / 2, True)
            came_true = self._try(step_from(estimate, turn + _GOLDEN_ANGLE * number, away_m), [expected])
            last = self._inquiry.history[-1].answer
            if not all(one for _, one in came_true) or (is_cut_off and (self._inquiry.target in last) != is_inside):
                return False
            told += max(len(came_true), is_cut_off)
            number += 1
        # In a band that is full, some are never listed.
        return number >= _CHECKS and told >= _LEAST_OF_EACH

    # -- what the service does to lists

    def _is_asked_twice(self) -> bool:
        points = [one.place for one in self._inquiry.history]
        return len(set(points)) < len(points)

    def _hypotheses(self) -> Hypotheses:
        """Errors that a service may have: in meters if lists from one point are in one order, else as a share."""
        history = self._inquiry.history
        is_stable = all(
            is_same_order(
                *([each for each in answer if each not in self._accounts] for answer in (one.answer, other.answer))
            )
            for one, other in combinations(history, 2)
            if one.place == other.place
        )
        table = np.array(
            [(error_m, 0.0) for error_m in ERRORS_M] if is_stable else [(0.0, share) for share in ERROR_SHARES]
        )
        # Rather small errors, and hardly any where lists leave users out, which explains the answers as well.
        steep = _STEEP if share_left_out(history) > NONSENSE else _FLAT
        return Hypotheses(table[:, 0], table[:, 1], (-steep * np.arange(len(table))).astype(np.float64))

    def _delay(self) -> int:
        """After how many queries a move of an account shows: put one right at the start, and ask until it comes first.

        Not where an account was listed in the first answer, nor where users are left out, as an account may be.
        """
        inquiry, first = self._inquiry, self._inquiry.history[0].answer
        if any(account in first for account in self._accounts):
            return 0
        # The order of several accounts tells it without asking.
        if len(self._accounts) > 1:
            plain = [delay for delay in range(1, _MOST_DELAY + 1) if self._is_plain(self._shifted(delay))]
            return min(plain, default=0)
        inquiry.withdraw_all()
        inquiry.put(self._accounts[0], self._start)
        before: list[Person] = []
        for delay in range(_MOST_DELAY + 1):
            if self._left <= 0:
                break
            answer = inquiry.ask(self._start)
            users = [one for one in answer if one not in self._accounts]
            same = 4 * min(len(users), len(before)) // 5
            if users[:same] != before[:same]:
                break
            if list(answer[:1]) == [self._accounts[0]]:
                return delay
            before = users
        return 0

    def _is_plain(self, answers: Sequence[Answered]) -> bool:
        lists = self._new_lists(None)
        are_placed = all(one in each.accounts for each in answers for one in self._accounts if one in each.answer)
        return are_placed and all(lists.read(one) is not None for one in answers)

    def _shifted(self, delay: int) -> list[Answered]:
        """All answers, with accounts where they were so many queries before."""
        history = self._inquiry.history
        before = [*({} for _ in range(delay)), *(one.accounts for one in history)]
        return [Answered(one.place, at, one.answer) for one, at in zip(history, before, strict=False)]

    def _new_lists(self, hypotheses: Hypotheses | None) -> RankedLists:
        made = (self._inquiry.target, self._inquiry.oracle.k, self._start, self._attack.tau_m)
        return RankedLists(*made) if hypotheses is None else RankedLists(*made, hypotheses)

    def _read_again(self) -> None:
        """Begin again with all answers."""
        hypotheses = self._hypotheses()
        self._lists = self._new_lists(hypotheses)
        self._belief = Belief(self._prior, hypotheses.log_chances)
        answers = self._shifted(self._inquiry.waits)
        for number, one in enumerate(answers):
            # The same answer again tells nothing new.
            if one not in answers[:number]:
                self._learn(one)

    def _learn(self, answered: Answered) -> None:
        self._lists.drop = share_left_out(self._shifted(self._inquiry.waits))
        evidence = self._lists.read(answered) or []
        self._answers += len(evidence)
        self._belief.learn(evidence, log_chances=self._lists.log_chances(), hint=self._lists.hint)

    def _ask_with(self, point: Point, radii_m: Sequence[float]) -> Answered:
        """Ask with accounts at distances in any directions: errors differ from one to another."""
        angle = self._rng.uniform(0, 2 * math.pi)
        placed = {
            account: (radius_m, self._inside(point, radius_m, angle + _GOLDEN_ANGLE * number))
            for number, (account, radius_m) in enumerate(zip(self._accounts, radii_m, strict=False))
        }
        answered = self._ask(point, placed)
        self._learn(answered)
        self._inquiry.note_cells(self._belief.cells[self._belief.mass > 1e-4])
        return answered

    def _inside(self, point: Point, radius_m: float, angle: float) -> float:
        """A direction in which an account stays in the region."""
        at = step_from(point, angle, radius_m)
        is_inside = all(abs(one) <= half for one, half in zip(at, self._attack.half_extent_m, strict=True))
        return angle if is_inside else inward_angle(point)

    # -- the result, and whether the answers mean what they are taken for

    def _estimate(self) -> tuple[Point, float]:
        """The mean of the belief, and a radius that holds the target in 95 % of cases.

        On a grid accounts are displaced alike from query to query: no average gets rid of it.
        """
        mean = self._belief.mean()
        least_m = _ERRORS * self._error_m
        return mean, max(self._belief.radius_at(mean), least_m)

    @property
    def _checks_needed(self) -> int:
        """How many answers must come true; more after some did not, as some come true by chance."""
        return _CHECKS + _MORE_CHECKS * self._contradictions

    @property
    def _cost_of_checks(self) -> int:
        """Queries that confirm a result, if each tells something."""
        return (self._inquiry.waits + 1) * (2 + -(-self._checks_needed // len(self._accounts)))

    def _is_confirmed(self, estimate: Point, radius_m: float) -> bool:
        """Ask from all sides what has a certain answer if the target is within the radius, and see it come true.

        Queries of the search are those whose answers are open, so that any answer fits some point: a service that
        shuffles its lists, or always has the target first, would never contradict itself.
        """
        is_confirmed = self._is_seen_by_distance(estimate) and self._comes_in_order(estimate, radius_m)
        self._contradictions += is_confirmed is False
        return bool(is_confirmed)

    def _is_seen_by_distance(self, estimate: Point) -> bool:
        """Look from afar: the target is not listed there, or an account half as far away is listed before it."""
        absent = sum(self._inquiry.target not in one.answer for one in self._inquiry.history)
        if self._looked or absent >= _ABSENT:
            return True
        away_m = _AFAR * min(self._attack.half_extent_m)
        angle = inward_angle(estimate)
        came_true = self._try(step_from(estimate, angle, away_m), [(away_m / 2, True)], may_be_missing=False)
        self._looked = all(one for _, one in came_true)
        return self._looked

    def _comes_in_order(self, estimate: Point, radius_m: float) -> bool | None:
        """Whether accounts a little nearer come before the target, and those a little farther away after it.

        None if queries run out before enough of them are listed.
        """
        spread = 1 + _NOISE_TIMES * float(self._lists.hypotheses.error_share[self._belief.likeliest])
        # Nearer to the target, if it is not listed from there.
        reach_m, turn = max(5 * self._attack.tau_m, 3 * radius_m), self._rng.uniform(0, 2 * math.pi)
        told: list[bool] = []
        for number in range(3 * self._checks_needed):
            expected = [((reach_m - 2 * radius_m) / spread, True), (reach_m * spread, False)] * len(self._accounts)
            expected = expected[number % 2 :][: len(self._accounts)]
            place = step_from(estimate, turn + _GOLDEN_ANGLE * number, reach_m - radius_m)
            came_true = self._try(place, expected)
            if not all(one for _, one in came_true):
                return False
            told += [is_before for is_before, _ in came_true]
            if len(told) >= self._checks_needed and min(sum(told), len(told) - sum(told)) >= _LEAST_OF_EACH:
                return True
            if len(came_true) < len(expected):
                reach_m = max(0.75 * reach_m, 3 * radius_m)
            if self._left <= 0:
                return None
        return None

    def _try(
        self, place: Point, expected: Sequence[tuple[float, bool]], *, may_be_missing: bool = True
    ) -> list[tuple[bool, bool]]:
        """Ask with accounts at distances: for those that tell, if they should come before the target, and if it is so.

        Who is not listed tells nothing; unless an account must be, since the target is and nobody is left out.
        """
        if self._left <= 0:
            return []
        answer = self._ask_with(place, [radius_m for radius_m, _ in expected]).answer
        if self._inquiry.target not in answer:
            return []
        before = answer[: answer.index(self._inquiry.target)]
        must_be_listed = not may_be_missing and self._lists.drop <= NONSENSE
        return [
            (is_before, (account in before) == is_before)
            for account, (_, is_before) in zip(self._accounts, expected, strict=False)
            if account in answer or must_be_listed
        ]


def is_same_order(one: Sequence[Person], other: Sequence[Person]) -> bool:
    """Whether users whom two lists have in common are in the same order in both."""
    common = set(one) & set(other)
    return [each for each in one if each in common] == [each for each in other if each in common]
