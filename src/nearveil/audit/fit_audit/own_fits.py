"""Our own fits, as the auditor takes them: what they publish, and the noisy answers that it is made from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from nearveil.audit.fit_audit.data_pairs import DataPair
from nearveil.audit.fit_audit.fitting import Fit
from nearveil.mechanisms.centres import FIXED_POINT
from nearveil.mechanisms.exact_answers import PlacesInMemory, Question
from nearveil.mechanisms.fitting import FitPlan, build_intervals
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray


def intervals_fit(region: Region, plan: FitPlan, budget: float) -> Fit:
    """Return the whole fit as it is published: the centres of the intervals, in the square.

    ``budget`` as in `FitPlan.budget`.
    """
    return lambda points, rng: build_intervals(points, region, plan, budget, rng=rng).centres


@dataclass(frozen=True, slots=True)
class AnswersFit:
    """The noisy answers of a fit, as somebody sees them who knows everybody but one person.

    What a fit publishes is made from these answers, and its cost is stated for them: they show at least as much, and
    far more clearly. Of each question, only the answers that the person has a part in tell anything: the sums and the
    count of their cluster in each round, the count of their cell. What the others add is taken off, and the person's
    own part is the unit. So each of these numbers is 0 and noise without the person, and 1 and noise with them.

    The output has a row for each such number. The second column is the same less the corresponding answer about
    somewhere else, which shows noise that answers share.

    Parameters
    ----------
    plan, budget
        As `build_intervals` takes them.
    advance : callable, optional
        Called with 1 after each fit.
    """

    region: Region
    plan: FitPlan
    budget: float
    advance: Callable[[int], None] | None = None

    def about(self, data: DataPair) -> Fit:
        """Return the fit as somebody sees it who knows the others."""
        others, person = (
            _FewPlaces(self.region.check(places), self.region) for places in (data.without, data.person[None])
        )

        def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
            heard: list[FloatArray] = []

            def watch(question: Question, noisy: FloatArray) -> None:
                heard.append(_persons_part(question, noisy, others, person))
                if len(heard) == self._questions:
                    raise _AllHeardError

            # What comes after the last answer is made from the answers alone, and takes longer than they do.
            with suppress(_AllHeardError):
                build_intervals(points, self.region, self.plan, self.budget, rng=rng, watch=watch)
            if self.advance is not None:
                self.advance(1)
            return np.vstack(heard)

        return fit

    @property
    def _questions(self) -> int:
        plan = self.plan
        if plan.method == "pic":
            return plan.rounds + (plan.centres is None and plan.population is None)
        return 2 if plan.population is None else 1


class _FewPlaces(PlacesInMemory):
    """Answers about a few places, by comparing each with every centre: no table to build for each fit."""

    def sums_around(self, centres: FloatArray) -> IntArray:
        """Sums and numbers of the people nearest to each centre."""
        whole = self._whole
        apart = np.linalg.norm((whole / FIXED_POINT)[:, None] - centres, axis=2)
        sums = np.zeros((len(centres), 3), dtype=np.int64)
        np.add.at(sums, apart.argmin(axis=1), np.column_stack([whole, np.ones(len(whole), dtype=np.int64)]))
        return sums


class _AllHeardError(Exception):
    """Ends a fit whose answers have all been given."""


def _persons_part(question: Question, noisy: FloatArray, others: PlacesInMemory, person: PlacesInMemory) -> FloatArray:
    """The answers that the person has a part in, in units of that part; and the same less the next row's answers."""
    noise = (noisy - question(others).reshape(noisy.shape) / FIXED_POINT).reshape(len(noisy), -1)
    part = (question(person) / FIXED_POINT).reshape(noise.shape)
    row = int(np.flatnonzero(part.any(axis=1))[0])
    unit = np.where(part[row] == 0, 1.0, part[row])
    own = noise[row] / unit
    # One answer alone has none beside it.
    beside = noise[(row + 1) % len(noise)] / unit if len(noise) > 1 else 0.0
    return np.column_stack([own, own - beside])
