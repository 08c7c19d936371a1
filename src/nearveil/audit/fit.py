"""The audit of what is learned from everybody's data together: with and without one person.

>>> from nearveil.audit.claims import Claim
>>> from nearveil.mechanisms.fitting import FitPlan
>>> from nearveil.privacy.guarantee import Notion
>>> from nearveil.region import named_region
>>> region = named_region("san-francisco")
>>> fit = AnswersFit(region, FitPlan(centres=2, rounds=1), budget=3.0)
>>> claim = Claim(Notion.CENTRAL, epsilon=1.0, delta=0.0, text="three answers with noise of scale 3")
>>> audit_fit(fit, claim, worst_case_data(region, 4), region, fits=1000, seed=1).verdict
<Verdict.CONSISTENT: 'consistent'>
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nearveil.audit._fit_statistics import Event, event_from_dict, statistics_for
from nearveil.audit.auditor import Verdict
from nearveil.audit.bounds import expected_loss_bounds, largest_loss_bound
from nearveil.audit.claims import Claim, claim_from_dict
from nearveil.audit.subjects import CONFIRM_STREAM, EXPLORE_STREAM, RECHECK_STREAM, AuditError, chosen_seed
from nearveil.audit.witness import Counts, bound_of, shared_confidence
from nearveil.errors import DataError, UsageError
from nearveil.geodesy import wrap_longitude
from nearveil.mechanisms.fit_pic import FIXED_POINT, PlacesInMemory, Question
from nearveil.mechanisms.fitting import FitPlan, build_intervals
from nearveil.privacy.guarantee import Notion
from nearveil.region import Region
from nearveil.types import FloatArray, IntArray

# Fit many times, and take nothing for an output that is none.


Fit = Callable[[FloatArray, np.random.Generator], object]
"""Learns from people's places in degrees. Gives an array of one shape, whoever the people are: rows of two columns are
taken for centres in the square of the region."""


@runtime_checkable
class KnowingFit(Protocol):
    """A fit seen by somebody who knows everybody but one person, such as `AnswersFit`."""

    def about(self, data: DataPair) -> Fit:
        """Return what they see of a fit on either of the two data sets, whichever it is made on."""


def fit_both(
    fit: Fit | KnowingFit, data: DataPair, fits: int, seed: int, stream: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Fit so many times with the person and so many times without; shape (fits, rows, columns) each.

    Each call names its stream, which no other call may use: generators of different streams are independent.
    """
    outputs = []
    seen = fit.about(data) if isinstance(fit, KnowingFit) else fit
    for side, people in enumerate((data.with_person, data.without)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(*stream, side)))
        outputs.append(_fit_often(seen, people, fits, data.name, rng))
    if outputs[0].shape != outputs[1].shape:
        raise AuditError(f"with one person more ({data.name}) the fit gives another shape; the shape must be public")
    return outputs[0], outputs[1]


def _fit_often(fit: Fit, people: FloatArray, fits: int, name: str, rng: np.random.Generator) -> FloatArray:
    """Fit again and again; one that draws no fresh noise each time is judged as what it is, a fit without noise."""
    first = _fit_once(fit, people, name, rng)
    outputs = np.empty((fits, *first.shape))
    outputs[0] = first
    for number in range(1, fits):
        output = _fit_once(fit, people, name, rng)
        if output.shape != first.shape:
            raise AuditError(f"fitted again on the same people ({name}) the fit gives another shape; it must not")
        outputs[number] = output
    return outputs


def _fit_once(fit: Fit, people: FloatArray, name: str, rng: np.random.Generator) -> FloatArray:
    try:
        output = np.array(fit(people.copy(), rng), dtype=np.float64)
    except Exception as error:
        # The error's own words may quote the data.
        raise AuditError(
            f"the fit failed with {type(error).__name__} on {len(people)} people ({name}); there is no verdict on what "
            "fails"
        ) from None
    if output.ndim not in (1, 2) or output.size == 0:
        raise AuditError("the fit gives no numbers, or in more than two dimensions; it must give rows of numbers")
    if not np.isfinite(output).all():
        raise AuditError(f"the fit gives something that is not a number on {len(people)} people ({name})")
    return output if output.ndim == 2 else output[:, None]


# Data with and without one person, chosen so that the person shows as much as they can.


@dataclass(frozen=True, slots=True, eq=False)
class DataPair:
    """Two data sets that differ in one person.

    Attributes
    ----------
    name : str
        What makes the pair a hard one.
    without : ndarray of shape (n, 2)
        Everybody but the person, in degrees.
    person : ndarray of shape (2,)
        The person's place, in degrees.
    """

    name: str
    without: FloatArray
    person: FloatArray

    @property
    def with_person(self) -> FloatArray:
        """The larger of the two data sets; the person comes last."""
        return np.vstack([self.without, self.person])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, from which `data_from_dict` makes the pair again. The people are made up."""
        return {"name": self.name, "without": self.without.tolist(), "person": self.person.tolist()}


def data_from_dict(document: dict[str, Any]) -> DataPair:
    """Make a pair of data sets again from `DataPair.to_dict`."""
    without, person = (np.array(document[part], dtype=np.float64) for part in ("without", "person"))
    if without.ndim != 2 or without.shape[1] != 2 or person.shape != (2,):
        raise ValueError("data")
    return DataPair(str(document["name"]), without, person)


def worst_case_data(region: Region, people: int) -> tuple[DataPair, ...]:
    """Return pairs in which one person moves something learned from the data as far as they can.

    Somebody far from all others has a cluster of their own, along one diagonal of the region or the other, wherever
    the clusters begin; at a corner the sums of coordinates change most; where all are at one place, they change along
    with the count only. No data set has all its people at one place: a fit
    may refuse those, and what it refuses tells nothing apart.

    Parameters
    ----------
    people : int
        How many there are without the person: few, so that one counts, and at least as many as the fit needs.
    """
    if people < 2:
        raise UsageError("a fit is audited on at least 2 people besides the one; give more people")
    crowd = np.linspace(-0.01, 0.01, people)
    corner = _widest_corner(region)
    middle = np.full(2, 0.5)
    south_west, north_west = np.array([0.1, 0.1]), np.array([0.9, 0.1])
    settings = (
        ("alone in the north-east", south_west + crowd[:, None], 1 - south_west),
        ("alone in the south-east", north_west + crowd[:, None], 1 - north_west),
        ("at a corner", middle + np.outer(crowd, [1.0, -1.0]), corner),
        ("at the place of all others but one", np.vstack([np.tile(south_west, (people - 1, 1)), middle]), south_west),
    )
    return tuple(DataPair(name, _places(region, others), _places(region, place)) for name, others, place in settings)


def _places(region: Region, shares: FloatArray) -> FloatArray:
    """Degrees of places given as shares of the region's height and width, from the south and the west."""
    latitude = region.south + shares[..., 0] * region.height_deg
    longitude = wrap_longitude(region.west + shares[..., 1] * region.width_deg)
    return np.stack([latitude, longitude], axis=-1)


def _widest_corner(region: Region) -> FloatArray:
    """Of the eastern corners, as shares, the one that lies farther out: sums of coordinates change most there."""
    corners = np.array([[0.0, 1.0], [1.0, 1.0]])
    reach = np.abs(region.to_square(_places(region, corners))).sum(axis=1)
    widest: FloatArray = corners[int(np.argmax(reach))]
    return widest


# A witness against a fit: data with and without one person, an event, and its counts on fresh fits.


FORMAT = "nearveil-fit-witness"
FORMAT_VERSION = 1

_ROUND_OFF = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitWitness:
    """What was counted, on fits made after data and event were chosen.

    Attributes
    ----------
    claim : Claim
        What the fit is said to promise.
    data : DataPair
        Made-up people, with and without one of them.
    event : Event
        The outputs that were counted.
    speaks_for_person : bool
        Whether the event is likelier with the person (its hits are counted there), or without.
    events_counted : int
        How many events were counted, this one among them; they share the error (Bonferroni).
    """

    claim: Claim
    data: DataPair
    event: Event
    speaks_for_person: bool
    counts: Counts
    confidence: float
    seed: int
    events_counted: int = 1

    @property
    def bound(self) -> float:
        """Lower bound on the loss; -inf if the counts show nothing."""
        return bound_of(self.counts, self.claim, shared_confidence(self.confidence, self.events_counted))

    @property
    def violates(self) -> bool:
        """Whether the counts break the claim."""
        return self.bound > self.claim.epsilon * (1 + _ROUND_OFF) + _ROUND_OFF

    def explain(self) -> str:
        """Say in a sentence or two what was seen."""
        counts = self.counts
        sides = ("with", "without") if self.speaks_for_person else ("without", "with")
        times = (
            f"at least {math.exp(self.bound):,.3g} times as likely" if self.bound > 0 else "not shown to be likelier"
        )
        return (
            f"{len(self.data.without)} people, {sides[0]} and {sides[1]} one person {self.data.name}: outputs "
            f"{self.event.describe()} came {counts.hits:,} times of {counts.trials:,} {sides[0]} and "
            f"{counts.false_hits:,} times of {counts.false_trials:,} {sides[1]}. The claim allows "
            f"{math.exp(min(self.claim.epsilon, 700.0)):,.3g} times as likely; they are {times}."
        )

    def to_json(self) -> str:
        """Write the witness as one JSON document; `fit_witness_from_json` reads it back."""
        document = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "explanation": self.explain(),
            "violates": self.violates,
            "claim": self.claim.to_dict(),
            "data": self.data.to_dict(),
            "event": self.event.to_dict(),
            "speaks_for_person": self.speaks_for_person,
            "counts": {name: getattr(self.counts, name) for name in Counts.__slots__},
            "confidence": self.confidence,
            "events_counted": self.events_counted,
            "bound": self.bound if math.isfinite(self.bound) else None,
            "seed": self.seed,
        }
        return json.dumps(document, indent=1, allow_nan=False)


def fit_witness_from_json(text: str) -> FitWitness:
    """Read a witness that `FitWitness.to_json` wrote. Its bound is computed again from its counts."""
    try:
        document = json.loads(text)
        if document["format"] != FORMAT or document["version"] != FORMAT_VERSION:
            raise KeyError("format")
        return _from_document(document)
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise DataError("this is no witness against a fit, or a damaged one; audit the fit again") from None


def _from_document(document: dict[str, Any]) -> FitWitness:
    confidence = float(document["confidence"])
    events_counted = int(document.get("events_counted", 1))
    if not (0 < confidence < 1 and events_counted >= 1):
        raise ValueError("confidence")
    return FitWitness(
        claim=claim_from_dict(document["claim"]),
        data=data_from_dict(document["data"]),
        event=event_from_dict(document["event"]),
        speaks_for_person=bool(document["speaks_for_person"]),
        counts=Counts(**{name: int(document["counts"][name]) for name in Counts.__slots__}),
        confidence=confidence,
        seed=int(document["seed"]),
        events_counted=events_counted,
    )


def recheck_fit(witness: FitWitness, fit: Fit | KnowingFit, *, fits: int, seed: int | None = None) -> FitWitness:
    """Count the same event again on fresh fits, half of them with the person; return the witness with the new counts.

    The fits draw from a stream that no audit uses. Nothing is chosen again, so the new bound holds with the witness's
    confidence, whatever the witness says.
    """
    seed = chosen_seed(seed)
    return count_events([replace(witness, events_counted=1)], fit, fits, seed, RECHECK_STREAM)[0]


def count_events(
    witnesses: Sequence[FitWitness], fit: Fit | KnowingFit, fits: int, seed: int, stream: int
) -> list[FitWitness]:
    """Return witnesses about the same data with what they count on so many fresh fits, half of them with the person."""
    each = max(fits // 2, 1)
    outputs = fit_both(fit, witnesses[0].data, each, seed, (stream,))
    return [replace(witness, counts=_counted(witness, outputs), seed=seed) for witness in witnesses]


def _counted(witness: FitWitness, outputs: tuple[FloatArray, FloatArray]) -> Counts:
    hits = [int(witness.event.happened(part).sum()) for part in outputs]
    likely, unlikely = hits if witness.speaks_for_person else hits[::-1]
    return Counts(hits=likely, trials=len(outputs[0]), false_hits=unlikely, false_trials=len(outputs[1]))


# The audit of a fit: how well does what was learned tell whether one person was in the data.
#
# Why the confidence holds. On the first fits the audit looks at all pairs of data sets and settles on one pair and a
# few events, each with a direction, in whatever way. On the others, made afterwards, it counts these events, once.
# Given the first fits the counts are binomial, and the events share the error (Bonferroni), so a claim that is true
# is called violated with probability at most 1 - confidence.


LEAST_FITS = 200
DEFAULT_CONFIDENCE = 0.999

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
        The largest bound that so many fits can give; a claim beyond it cannot be tested.
    witness : FitWitness
        The data and the event that were counted, also where they break nothing.
    fits, seed : int
        How many fits were made in all, and the seed to make them again.
    """

    verdict: Verdict
    claim: Claim
    confidence: float
    witness: FitWitness
    fits: int
    seed: int
    attainable_loss: float

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
                f"A loss of {self.claim.epsilon:.3g} is claimed, and so many fits can show at most "
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
    fit: Fit | KnowingFit,
    claim: Claim,
    data: Sequence[DataPair],
    region: Region,
    *,
    fits: int = 10_000,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int | None = None,
    audits: int = 1,
) -> FitReport:
    """Look for one person whose presence shows in what is learned more than is claimed.

    Parameters
    ----------
    fit : callable or KnowingFit
        ``fit(points, rng)``, with points in degrees; see `Fit`. `AnswersFit` lays a fit's noisy answers open.
    claim : Claim
        Central: what is promised between data with and without one person. `own_claim(intervals.guarantee(delta))`
        gives our own.
    data : sequence of DataPair
        Where to look; `worst_case_data` gives some.
    region : Region
        Public; takes the person's place to the coordinates of centres.
    fits : int
        How many fits to make in all. A quarter serves to find the events, the rest to count them.
    confidence : float
        Probability that the bound holds.
    seed : int, optional
        Makes the audit repeatable; by default a fresh one, which the report names.
    audits : int
        How many audits share the error, this one among them.
    """
    _check(claim, data, fits, confidence)
    seed = chosen_seed(seed)
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
    return FitReport(
        verdict=_verdict(witness, attainable),
        claim=claim,
        confidence=confidence,
        witness=witness,
        fits=fits,
        seed=seed,
        attainable_loss=attainable,
    )


@dataclass(frozen=True, slots=True)
class _Aim:
    """What the confirming fits will be: so many on either side, at this delta and confidence for each event."""

    trials: int
    delta: float
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class _Suspect:
    """A pair of data sets, at most so many events, each with its direction, and the bound to expect."""

    data: DataPair
    events: tuple[tuple[Event, bool], ...]
    expected_bound: float


def _suspect(outputs: tuple[FloatArray, FloatArray], data: DataPair, place: FloatArray | None, aim: _Aim) -> _Suspect:
    """Learn statistics on one half, choose among them on the other: they flatter the fits that they were learned on."""
    half = len(outputs[0]) // 2
    best: dict[str, tuple[float, Event, bool]] = {}
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
                    event = Event(statistic, float(thresholds[top]), above)
                    best[level] = (float(bounds[top]), event, speaks_for_person)
    events = tuple((event, speaks) for _, event, speaks in best.values())
    return _Suspect(data, events, best[str(_CAUTIONS[_RANKING])][0])


def _thresholds(scores: FloatArray) -> FloatArray:
    # Order statistics, not values between them: an atom must fall on one side.
    shares = np.linspace(0, 1, _THRESHOLDS, endpoint=False)
    thresholds: FloatArray = np.unique(np.quantile(scores, shares, method="lower"))
    return thresholds


def _verdict(witness: FitWitness, attainable: float) -> Verdict:
    if witness.violates:
        return Verdict.VIOLATED
    return Verdict.CONSISTENT if attainable > witness.claim.epsilon else Verdict.INCONCLUSIVE


def _check(claim: Claim, data: Sequence[DataPair], fits: int, confidence: float) -> None:
    if claim.notion is not Notion.CENTRAL:
        raise UsageError(
            f"a fit is audited on a central claim, and this one is {claim.notion}; audit the release instead"
        )
    if not data:
        raise UsageError("a fit is audited on data; take worst_case_data, or give at least one pair")
    if isinstance(fits, bool) or not isinstance(fits, int) or fits < LEAST_FITS * len(data):
        raise UsageError(
            f"the audit of a fit needs at least {LEAST_FITS} fits for each pair of data sets; give more fits"
        )
    if not 0.5 <= confidence < 1:
        raise UsageError("the confidence must lie between 0.5 and 1, 1 excluded")


# Our own fits, as the auditor takes them: what they publish, and the noisy answers that it is made from.


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
