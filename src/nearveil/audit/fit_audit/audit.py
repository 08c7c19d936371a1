"""The audit of a fit: how well does what was learned tell whether one person was in the data.

Why the confidence holds. On the first fits the audit looks at all pairs of data sets and settles on one pair and a few
events, each with a direction, in whatever way. On the others, made afterwards, it counts these events, once. Given the
first fits the counts are binomial, and the events share the error (Bonferroni), so a claim that is true is called
violated with probability at most 1 - confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from nearveil.audit.claim import Claim
from nearveil.audit.fit_audit.data_pairs import DataPair
from nearveil.audit.fit_audit.fitting import Fit, KnowingFit, fit_both
from nearveil.audit.fit_audit.statistics import Event, statistics_for
from nearveil.audit.fit_audit.witness import FitWitness, count_events
from nearveil.audit.lower_bound import expected_loss_bounds, largest_loss_bound
from nearveil.audit.report import Verdict
from nearveil.audit.sampling import CONFIRM_STREAM, EXPLORE_STREAM, chosen_seed
from nearveil.audit.witness import Counts, shared_confidence
from nearveil.errors import UsageError
from nearveil.privacy.guarantee import Notion
from nearveil.region import Region
from nearveil.types import FloatArray

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
