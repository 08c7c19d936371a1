"""The audit of a fit: how well does what is learned from everybody tell whether one person was among them.

Why the confidence holds. On the first fits the audit looks at all pairs of data sets and settles on one pair and a few
events, each with a direction, in whatever way. On the others, made afterwards, it counts these events, once. Given the
first fits the counts are binomial, and the events share the error (Bonferroni), so a claim that is true is called
violated with probability at most 1 - confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, TypeVar

import numpy as np

from nearveil.auditing._fit_statistics import FitEvent, statistics_for
from nearveil.auditing.auditor import Verdict
from nearveil.auditing.bounds import expected_loss_bounds, largest_loss_bound
from nearveil.auditing.claims import Claim, as_claim, own_claim
from nearveil.auditing.fit_witness import (
    DataPair,
    Fit,
    FitWitness,
    KnowingFit,
    count_events,
    fit_both,
    tree_data,
    worst_case_data,
)
from nearveil.auditing.subjects import CONFIRM_STREAM, EXPLORE_STREAM, chosen_seed
from nearveil.auditing.witness import Counts, shared_confidence
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.base import Mechanism, is_mechanism
from nearveil.mechanisms.fit_cells import CellPlan, build_private_cells, tree_noise
from nearveil.mechanisms.fit_pic import FIXED_POINT, ExactAnswers, Question, Watch
from nearveil.mechanisms.fitting import FitPlan, build_intervals
from nearveil.mechanisms.registry import MECHANISMS, has_own_fit, mechanism_name
from nearveil.privacy.guarantee import Guarantee, PrivacyDefinition
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray, Progress

Fitted = TypeVar("Fitted", bound=Mechanism)

LEAST_FITS = 200
DEFAULT_FITS = 40_000
DEFAULT_CONFIDENCE = 0.999
VIEWS = {
    "answers": "the noisy answers that the fit is made from",
    "centres": "the centres that it publishes",
    "cells": "the cells that it publishes",
}
"""What of a fit is looked at."""
PEOPLE_PER_CENTRE = 2
"""Few people, so that one person shows."""

# Centres are made from the answers and show less, but take longer: they get a small part of the fits.
_CENTRES_SHARE = 0.025
# What the cells show is what is claimed. The noisy counts that they are made from show sooner that noise is missing.
_COUNTS_SHARE = 0.5
TREE_LEVELS = 6
"""How often a largest box may be halved in the audit of cells: a tree whose bias is missing loses with every level."""
COUNTED_LEVELS = 2
"""The same in the audit of the noisy counts, whose claim grows with every level: the smaller it is, the sooner less
noise shows."""
_NOT_WRITTEN = ("seed", "intervals", "cells", "calibration", "region")

_EXPLORING_SHARE = 0.25
_THRESHOLDS = 64
# One event is chosen for each: the error rates at which counts are taken for worse than they are. Thousands of events
# are tried, so that some look better than they are by chance; but a rare event may be what gives a person away.
_CAUTIONS = (1e-3, 0.1, 0.5)
_RANKING = 1
# One more event is an output that is exactly some number: noise that is missing now and then is rarer than the first
# fits can make sure of.
_EVENTS = len(_CAUTIONS) + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitReport:
    """A verdict on a fit, and what led to it.

    Attributes
    ----------
    attainable_loss : float
        The largest bound that this number of fits can give; a claim beyond it cannot be tested.
    witness : FitWitness
        The data and the event that were counted, also where they break nothing.
    fits, seed : int
        How many fits were made in all, and the seed to make them again.
    view : str
        Of `VIEWS`, what the witness looks at; empty for a fit that is not Nearveil's own.
    """

    verdict: Verdict
    claim: Claim
    confidence: float
    witness: FitWitness
    fits: int
    seed: int
    attainable_loss: float
    view: str = ""

    @property
    def epsilon_lower(self) -> float:
        """What epsilon is at least, with the stated confidence; 0 if nothing was found."""
        return max(self.witness.bound, 0.0)

    @property
    def explanation(self) -> str:
        """The verdict in a few sentences."""
        if self.verdict is Verdict.VIOLATED:
            return f"The claim is violated. {self.witness.explain()}"
        if self.verdict is Verdict.INCONCLUSIVE:
            return (
                f"A loss of {self.claim.epsilon:.3g} is claimed, and this number of fits can show at most "
                f"{self.attainable_loss:.3g}: nothing could have been found. Testing the claim needs more fits."
            )
        return (
            f"No violation was found: epsilon is at least {self.epsilon_lower:.4g}, and {self.claim.epsilon:.4g} is "
            "claimed. This does not prove the claim."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the witness, which is a document of its own."""
        return {
            "verdict": str(self.verdict),
            "explanation": self.explanation,
            "claim": self.claim.to_dict(),
            "epsilon_lower": self.epsilon_lower,
            "confidence": self.confidence,
            "fits": self.fits,
            "seed": self.seed,
            "attainable_loss": self.attainable_loss,
            "data": self.witness.data.name,
        }


def audit_fit(
    mechanism: Mechanism | Fit | KnowingFit,
    claim: Claim | Guarantee | str | None = None,
    data: Sequence[DataPair] | None = None,
    region: Region | None = None,
    *,
    fits: int | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int | None = None,
    progress: Progress | None = None,
) -> FitReport:
    """Look for one person whose presence shows in what is learned more than is claimed.

    Parameters
    ----------
    mechanism : DPRS, HideAmong, callable or KnowingFit
        DPRS or HideAmong, whose fit is looked at in two ways (`VIEWS`). Few centres and rounds make many fits in a
        second, and so do few cells, which are taken in any case (`fit_to_audit`). Or any other fit, ``fit(points,
        rng)`` with points in degrees; see `Fit`.
    claim : Claim, Guarantee or str, optional
        Central: what is promised between data with and without one person. By default what the mechanism states of its
        fit. The noisy counts behind cells are only looked at then, against what that statement counts for them.
    data : sequence of DataPair, optional
        Where to look; by default the worst cases for the mechanism. `worst_case_data` gives some for other fits.
    region : Region, optional
        Public, of a fit that is not Nearveil's own: takes the person's place to the coordinates of centres.
    fits : int, optional
        How many fits to make in all, 40,000 by default. A quarter serves to find the events, the rest to count them.
    confidence : float
        Probability that the bound holds.
    seed : int, optional
        Makes the audit repeatable; by default a fresh one, which the report names.
    progress : callable, optional
        Called with 1 after each fit of Nearveil's own.

    Examples
    --------
    >>> from nearveil import DPRS
    >>> audit_fit(DPRS(centres=2, region="berlin"), fits=1000, seed=1).verdict.value
    'consistent'
    """
    fits = DEFAULT_FITS if fits is None else fits
    seed = chosen_seed(seed)
    if not is_mechanism(mechanism):
        if claim is None or data is None or region is None:
            raise UsageError("a fit that is not of DPRS is audited on a claim, data and a region; give all three")
        return _audit_view(mechanism, as_claim(claim, None), data, region, fits, confidence, seed)
    mechanism = fit_to_audit(mechanism)
    stated = None if claim is None or claim == "own" else as_claim(claim, None)
    looks = (_looks_at_cells if _has_cells(mechanism) else _looks_at_intervals)(mechanism, stated, data, fits)
    reports = []
    for look in looks:
        fit = fit_of(look.mechanism, look.view, progress)
        found = _audit_view(
            fit, look.claim, look.data, mechanism.resolved_region, look.fits, confidence, seed, audits=len(looks)
        )
        witness = replace(found.witness, subject=fit_to_dict(look.mechanism, look.view))
        reports.append(replace(found, witness=witness, view=look.view, fits=fits))
    # The first that is violated, or else the first, which shows most.
    return next((found for found in reports if found.verdict is Verdict.VIOLATED), reports[0])


def fit_to_audit(mechanism: Fitted, levels: int = TREE_LEVELS) -> Fitted:
    """Return a mechanism whose fit takes little time, so that thousands can be made: few centres, or few cells.

    ``levels`` is how often a largest box of cells may be halved.
    """
    if mechanism.given_learned is not None:
        raise UsageError(f"the {mechanism.learns} are given, so that there is no fit to audit; leave them out")
    quick: Fitted = _few_cells(mechanism, levels) if _has_cells(mechanism) else _few_centres(mechanism)
    return quick


def describe_fit(mechanism: Any) -> str:
    """Say which fit is audited."""
    if _has_cells(mechanism):
        levels = mechanism.cell_plan.layout(mechanism.resolved_region).levels
        return f"the fit of hide-among by a private quadtree of {levels} levels, fit epsilon {mechanism.fit_epsilon:g}"
    plan = mechanism.fit_plan
    rounds = f" in {plan.rounds} rounds" if plan.method == "pic" else ""
    return f"the fit of dprs by {plan.method}{rounds}, {plan.centres} centres"


def views_of(mechanism: Mechanism) -> tuple[str, ...]:
    """Return what of a mechanism's fit is looked at (`VIEWS`)."""
    return ("cells", "answers") if _has_cells(mechanism) else ("answers", "centres")


def fit_of(mechanism: Mechanism, view: str, progress: Progress | None = None) -> Fit | KnowingFit:
    """Return one view of a mechanism's own fit, as the auditor takes it."""
    views: dict[str, Callable[..., Fit | KnowingFit]] = {
        "answers": AnswersFit,
        "centres": centres_fit,
        "cells": CellsFit,
    }
    return views[view](mechanism.resolved_region, *mechanism.fit_settings, progress or (lambda _: None))


# How a fit is audited, by what is learned.


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """One look at a fit: whose, what of it, what is claimed for that, on which data, and how many fits."""

    mechanism: Mechanism
    view: str
    claim: Claim
    data: Sequence[DataPair]
    fits: int


def _has_cells(mechanism: Mechanism) -> bool:
    """Whether a fit makes cells, or else intervals; refuse a mechanism without a fit of Nearveil's own."""
    if mechanism.learns is None or not has_own_fit(mechanism):
        raise UsageError(f"{type(mechanism).__name__} has no fit that can be audited, as DPRS and HideAmong have")
    return mechanism.learns == "cells"


def _few_centres(mechanism: Any) -> Any:
    return mechanism if mechanism.centres is not None else mechanism.with_params(centres=2)


def _looks_at_intervals(
    mechanism: Any, claim: Claim | None, data: Sequence[DataPair] | None, fits: int
) -> tuple[_Look, ...]:
    if data is None:
        # The two hardest of the worst cases: every pair costs fits.
        alone, _, corner, _ = worst_case_data(mechanism.resolved_region, PEOPLE_PER_CENTRE * (mechanism.centres or 2))
        data = (alone, corner)
    if claim is None:
        fitted = mechanism.with_params(seed=0).fit(data[0].without)
        claim = own_claim(fitted.intervals_.guarantee(mechanism.delta))
    of_centres = max(int(_CENTRES_SHARE * fits), LEAST_FITS * len(data))
    return (
        _Look(mechanism, "answers", claim, data, fits - of_centres),
        _Look(mechanism, "centres", claim, data, of_centres),
    )


def _few_cells(mechanism: Any, levels: int) -> Any:
    sides_m = np.array(mechanism.resolved_region.half_extent_m) * 2
    # Two largest boxes at least, because one cell alone is none. A hair more or less, so that rounding changes nothing.
    largest_m = float(sides_m.max()) / 2 * (1 + 1e-9)
    least_m = float((sides_m / np.ceil(sides_m / largest_m)).min()) / 2**levels * (1 - 1e-9)
    return mechanism.with_params(largest_cell_m=largest_m, least_cell_m=least_m)


def _looks_at_cells(
    mechanism: Any, claim: Claim | None, data: Sequence[DataPair] | None, fits: int
) -> tuple[_Look, ...]:
    """The cells, against what is claimed for them; and the noisy counts, against what the own claim counts for them.

    A tree publishes only whether its counts are above a threshold, which loses less than the counts would. These are
    looked at where all of them are far above it: each then costs 1 / scale of its noise, and all together their sum.
    """
    region, plan, epsilon = mechanism.resolved_region, mechanism.cell_plan, mechanism.fit_epsilon
    near = tree_data(region, plan, epsilon)[:-1]
    near_data = data or near
    if claim is not None:
        return (_Look(mechanism, "cells", claim, near_data, fits),)
    stated = own_claim(build_private_cells(near[0].without, region, epsilon=epsilon, plan=plan, rng=0).guarantee())
    counting = _few_cells(mechanism, COUNTED_LEVELS)
    far_data = data or tree_data(region, counting.cell_plan, epsilon)[-1:]
    noise, levels = tree_noise(epsilon, counting.cell_plan), counting.cell_plan.layout(region).levels
    together = levels / noise.scale + 1 / noise.counting_scale
    text = f"the noisy counts of {levels} levels and of people, as they add up to it: epsilon = {together:.4g}"
    counts = replace(stated, epsilon=together, text=f"{stated.text}; {text}")
    of_counts = max(int(_COUNTS_SHARE * fits), LEAST_FITS * len(far_data))
    return (
        _Look(mechanism, "cells", stated, near_data, fits - of_counts),
        _Look(counting, "answers", counts, far_data, of_counts),
    )


# A fit as plain values.


def fit_to_dict(mechanism: Mechanism, view: str) -> dict[str, Any]:
    """Say how to find one view of a fit again, for a witness."""
    params = {
        name: value for name, value in mechanism.get_params().items() if name not in _NOT_WRITTEN and value is not None
    }
    name = mechanism_name(mechanism)
    return {
        "kind": "fit",
        "mechanism": name,
        "view": view,
        "params": params,
        "region": asdict(mechanism.resolved_region),
    }


def fit_from_dict(document: Any) -> tuple[Mechanism, str]:
    """Rebuild the mechanism that `fit_to_dict` described; say what of its fit was looked at."""
    try:
        view = document["view"]
        if document["kind"] != "fit" or view not in VIEWS or not isinstance(document["params"], dict):
            raise KeyError("kind")
        params = {name: value for name, value in document["params"].items() if name not in _NOT_WRITTEN}
        build: Callable[..., Mechanism] = MECHANISMS[document["mechanism"]].mechanism
        mechanism = build(**params, region=Region(**document["region"]))
        views_of(mechanism).index(view)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError("the witness does not say which fit it is about, or is damaged; audit the fit again") from None
    return mechanism, view


def _audit_view(
    fit: Fit | KnowingFit,
    claim: Claim,
    data: Sequence[DataPair],
    region: Region,
    fits: int,
    confidence: float,
    seed: int,
    audits: int = 1,
) -> FitReport:
    """Audit one fit; ``audits`` is how many audits share the error, this one among them."""
    _check(claim, data, fits, confidence)
    each = int(fits * _EXPLORING_SHARE) // (2 * len(data))
    left = fits - 2 * each * len(data)
    aim = _Aim(left // 2, claim.delta, shared_confidence(confidence, _EVENTS * audits))
    suspects = []
    for number, pair in enumerate(data):
        outputs = fit_both(fit, pair, each, seed, (EXPLORE_STREAM, number))
        place = None if isinstance(fit, KnowingFit) else region.to_square(pair.person[None])[0]
        suspects.append(_suspect(outputs, pair, place, aim))
    suspect = max(suspects, key=lambda suspect: suspect.expected_bound)
    uncounted = [
        FitWitness(
            claim=claim,
            data=suspect.data,
            event=event,
            speaks_for_person=speaks_for_person,
            counts=Counts(hits=0, trials=1, false_hits=0, false_trials=1),
            confidence=confidence,
            seed=seed,
            events_counted=_EVENTS * audits,
        )
        for event, speaks_for_person in suspect.events
    ]
    witness = max(count_events(uncounted, fit, left, seed, CONFIRM_STREAM), key=lambda witness: witness.bound)
    attainable = largest_loss_bound(aim.trials, delta=aim.delta, confidence=aim.confidence)
    unbroken = Verdict.CONSISTENT if attainable > claim.epsilon else Verdict.INCONCLUSIVE
    return FitReport(
        verdict=Verdict.VIOLATED if witness.violates else unbroken,
        claim=claim,
        confidence=confidence,
        witness=witness,
        fits=fits,
        seed=seed,
        attainable_loss=attainable,
    )


@dataclass(frozen=True, slots=True)
class _Aim:
    """The confirming fits: their number on either side, and delta and confidence for each event."""

    trials: int
    delta: float
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class _Suspect:
    """A pair of data sets, its events, each with its direction, and the bound to expect."""

    data: DataPair
    events: tuple[tuple[FitEvent, bool], ...]
    expected_bound: float


def _suspect(outputs: tuple[FloatArray, FloatArray], data: DataPair, place: FloatArray | None, aim: _Aim) -> _Suspect:
    """Learn statistics on one half, choose among them on the other: they flatter the fits that they were learned on."""
    half = len(outputs[0]) // 2
    best: dict[str, tuple[float, FitEvent, bool]] = {}
    for statistic in statistics_for(outputs[0][:half], outputs[1][:half], place):
        with_person, without = (np.sort(statistic(part[half:])) for part in outputs)
        seen = len(with_person)
        thresholds = _thresholds(np.concatenate([with_person, without]))
        at_most = [
            np.searchsorted(part, thresholds, side="right").astype(np.float64) for part in (with_person, without)
        ]
        levels = {str(caution): caution for caution in _CAUTIONS}
        if statistic.kind == "equal":
            levels["equal"] = _CAUTIONS[-1]
        for above, speaks_for_person in product((True, False), repeat=2):
            hits = [seen - part if above else part for part in at_most]
            first, second = hits if speaks_for_person else hits[::-1]
            for level, caution in levels.items():
                bounds = expected_loss_bounds(
                    first, second, seen, caution=caution, trials=aim.trials, delta=aim.delta, confidence=aim.confidence
                )
                top = int(np.argmax(bounds))
                if level not in best or bounds[top] > best[level][0]:
                    event = FitEvent(statistic, float(thresholds[top]), above)
                    best[level] = (float(bounds[top]), event, speaks_for_person)
    events = tuple((event, speaks) for _, event, speaks in best.values())
    return _Suspect(data, events, best[str(_CAUTIONS[_RANKING])][0])


def _thresholds(scores: FloatArray) -> FloatArray:
    # Order statistics, not values between them: an atom must fall on one side.
    shares = np.linspace(0, 1, _THRESHOLDS, endpoint=False)
    thresholds: FloatArray = np.unique(np.quantile(scores, shares, method="lower"))
    return thresholds


def _check(claim: Claim, data: Sequence[DataPair], fits: int, confidence: float) -> None:
    if claim.definition is not PrivacyDefinition.CENTRAL:
        raise UsageError(
            f"a fit is audited on a central claim, and this one is {claim.definition}; audit the release instead"
        )
    if not data:
        raise UsageError("a fit is audited on data; take worst_case_data, or give at least one pair")
    if isinstance(fits, bool) or not isinstance(fits, int) or fits < LEAST_FITS * len(data):
        raise UsageError(
            f"the audit of a fit needs at least {LEAST_FITS} fits for each pair of data sets; give more fits"
        )
    if not 0.5 <= confidence < 1:
        raise UsageError("the confidence must lie between 0.5 and 1, 1 excluded")


# The noisy answers of our own fits, as the auditor takes them.


@dataclass(frozen=True, slots=True)
class AnswersFit:
    """The noisy answers of a fit, as somebody sees them who knows everybody but one person.

    What a fit publishes is made from these answers, and its cost is stated for them: they show at least as much, and
    far more clearly. (Of cells less is published, see `build_private_cells`.) Of each question, only the answers that
    the person has a part in tell anything: the sums and the count of their cluster in each round, the count of their
    box. What the others add is taken off, and the person's own part is the unit. So each of these numbers is 0 and
    noise without the person, and 1 and noise with them.

    The output has a row for each such number. The second column is the same less the corresponding answer about
    somewhere else, which shows noise that answers share.

    Parameters
    ----------
    plan, budget
        As `build_intervals` takes them; or the plan of cells, and what they cost.
    advance : callable, optional
        Called with 1 after each fit.
    """

    region: Region
    plan: FitPlan | CellPlan
    budget: float
    advance: Progress = lambda _: None

    def about(self, data: DataPair) -> Fit:
        """Return the fit as somebody sees it who knows the others."""
        others, everybody = (
            _FewPlaces(self.region.check(places), self.region) for places in (data.without, data.with_person)
        )

        def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
            answers: list[FloatArray] = []

            def watch(question: Question, noisy: FloatArray) -> None:
                answers.append(_persons_part(question, noisy, others, everybody))
                if len(answers) == self._questions:
                    raise _AllAnsweredError

            # What comes after the last answer is made from the answers alone, and takes longer than they do.
            with suppress(_AllAnsweredError):
                self._build(points, rng, watch)
            self.advance(1)
            return np.vstack(answers)

        return fit

    def _build(self, points: FloatArray, rng: np.random.Generator, watch: Watch) -> None:
        if isinstance(self.plan, CellPlan):
            build_private_cells(points, self.region, epsilon=self.budget, plan=self.plan, rng=rng, watch=watch)
        else:
            build_intervals(points, self.region, self.plan, self.budget, rng=rng, watch=watch)

    @property
    def _questions(self) -> int:
        plan = self.plan
        if isinstance(plan, CellPlan):
            return plan.layout(self.region).levels + 1
        if plan.method == "pic":
            return plan.rounds + (plan.centres is None)
        return 2


def centres_fit(region: Region, plan: FitPlan, budget: float, advance: Progress) -> Fit:
    """Return the fit of intervals by the centres that it publishes."""

    def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        found = build_intervals(points, region, plan, budget, rng=rng)
        advance(1)
        return found.centres

    return fit


@dataclass(frozen=True, slots=True)
class CellsFit:
    """Private cells as they are published, seen by somebody who knows everybody but one person.

    The person has a part in the boxes around their place only. The output has one column: for each depth whether the
    box around the place was halved, 0 or 1, and the number of people in the largest box less the others.

    Parameters
    ----------
    plan, epsilon
        As `build_private_cells` takes them.
    advance : callable, optional
        Called with 1 after each fit.
    """

    region: Region
    plan: CellPlan
    epsilon: float
    advance: Progress = lambda _: None

    def about(self, data: DataPair) -> Fit:
        """Return the fit as somebody sees it who knows the others."""
        layout, place = self.plan.layout(self.region), self.region.to_square(data.person[None])
        # Read and counted once, for all fits on either of the two.
        people = [_FewPlaces(self.region.check(places), self.region) for places in (data.without, data.with_person)]
        others, everybody = (known.counts_in_cells(layout.columns, layout.rows) for known in people)
        box = int(np.argmax(everybody - others))

        def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
            known = people[len(points) - len(data.without)]
            cells = build_private_cells(known, self.region, epsilon=self.epsilon, plan=self.plan, rng=rng)
            self.advance(1)
            halved = np.arange(layout.levels) < cells.depths[cells.find(place)[0]]
            return np.append(halved, cells.people[cells.of_largest_box(box)].sum() - others[box])[:, None]

        return fit


class _FewPlaces(ExactAnswers):
    """Answers about a few places, counted once for all fits."""

    def __init__(self, people: FloatArray, region: Region) -> None:
        super().__init__(people, region)
        self._counts: dict[tuple[int, int], IntArray] = {}

    def counts_in_cells(self, columns: int, rows: int) -> IntArray:
        """How many people each cell holds, counted once."""
        if (columns, rows) not in self._counts:
            self._counts[columns, rows] = super().counts_in_cells(columns, rows)
        return self._counts[columns, rows]


class _AllAnsweredError(Exception):
    """Ends a fit whose answers have all been given."""


def _persons_part(question: Question, noisy: FloatArray, others: ExactAnswers, everybody: ExactAnswers) -> FloatArray:
    """The answers that the person has a part in, in units of that part; and the same less the next row's answers."""
    without = question(others).reshape(noisy.shape)
    noise = (noisy - without / FIXED_POINT).reshape(len(noisy), -1)
    part = ((question(everybody).reshape(noisy.shape) - without) / FIXED_POINT).reshape(noise.shape)
    row = int(np.flatnonzero(part.any(axis=1))[0])
    unit = np.where(part[row] == 0, 1.0, part[row])
    own = noise[row] / unit
    # One answer alone has none beside it.
    beside = noise[(row + 1) % len(noise)] / unit if len(noise) > 1 else 0.0
    return np.column_stack([own, own - beside])
