"""The audit: a mechanism and what it is said to promise in, a lower bound on its loss and a verdict out.

Why the confidence holds. The samples come in two parts from independent streams. On the first, the audit searches the
region, looks at all pairs and settles on one pair and a few events for it (each a score, a threshold and a direction);
how it does so is of no consequence. On the second, drawn afterwards, it counts these events and nothing else, once.
Given the first part the events are fixed and each count is binomial, so `loss_bounds` applies to each. The events, six
at most, share the error (Bonferroni); for everything else that was tried while exploring, no correction is due. A
mechanism whose claim is true is called a violator with probability at most 1 - confidence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Any

from nearveil.auditing.bounds import largest_loss_bound
from nearveil.auditing.claims import Claim, as_claim
from nearveil.auditing.explore import MOST_EVENTS, Aim, Suspect, explore, search_places
from nearveil.auditing.external import CallableSubject, CommandSubject, ExternalSubject, Publish, closed_after
from nearveil.auditing.pair_search import audit_pairs, mechanism_pairs, place_pairs
from nearveil.auditing.pairs import Pair
from nearveil.auditing.subjects import (
    CONFIRM_STREAM,
    Place,
    Sampler,
    Subject,
    audited_region,
    chosen_seed,
    own_mechanism,
    own_subject,
    subject_to_dict,
)
from nearveil.auditing.witness import Witness, count_events, shared_confidence
from nearveil.errors import UsageError, without_context
from nearveil.html_card import html_card
from nearveil.mechanisms.base import Learned, Mechanism, is_mechanism
from nearveil.mechanisms.cells import Cells
from nearveil.privacy.guarantee import Guarantee, PrivacyDefinition
from nearveil.region import Region, as_region
from nearveil.types import Progress

LEAST_SAMPLES = 2_000
DEFAULT_SAMPLES = 2_000_000
DEFAULT_EXTERNAL_SAMPLES = 400_000
DEFAULT_CONFIDENCE = 1 - 1e-6

_EXPLORING_SHARE = 0.25
# With a search over the region the rounds that follow get less, and exploring as a whole more.
_SEARCH_SHARE, _ROUNDS_SHARE = 0.12, 0.18
_FIRST_ROUND_SHARE = 0.45
_FINALISTS = 3
_LITTLE = 1.1
_MOST_PER_PLACE = (40_000, 250_000)


class Verdict(StrEnum):
    """What the samples say about a claim."""

    CONSISTENT = "consistent"
    """No violation was found. That is not a proof: the guarantee must come from a theorem or a certificate."""
    VIOLATED = "violated"
    """The loss exceeds the claim, with the stated confidence."""
    INCONCLUSIVE = "inconclusive"
    """Nothing could have been found: no pair is covered, or the samples are too few."""


@dataclass(frozen=True, slots=True)
class PairSummary:
    """What exploring made of a pair: the bound to expect there, or why it was left out."""

    pair: Pair
    claimed_loss: float | None
    estimated_loss: float | None
    remark: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **self.pair.to_dict(),
            "claimed_loss": self.claimed_loss,
            "estimated_loss": self.estimated_loss,
            "remark": self.remark,
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditReport:
    """A verdict, and everything that led to it.

    Attributes
    ----------
    verdict : Verdict
        Consistent, violated or inconclusive.
    claim : Claim
        What was put to the test.
    confidence : float
        Probability that the bound holds.
    witness : Witness or None
        The pair and the event that were confirmed, with their counts; also where they break nothing.
    samples, seed : int
        Outputs drawn in all, and the seed to draw them again.
    attainable_loss : float
        The largest bound that this number of samples can give.
    pairs : tuple of PairSummary
        Every pair that was given.
    seconds : float
        Time taken.
    """

    verdict: Verdict
    claim: Claim
    confidence: float
    witness: Witness | None
    samples: int
    seed: int
    attainable_loss: float
    pairs: tuple[PairSummary, ...]
    seconds: float = 0.0

    @property
    def epsilon_lower(self) -> float:
        """What epsilon is at least, with the stated confidence, in the unit of the claim; 0 if nothing was found."""
        if self.witness is None:
            return 0.0
        return self.claim.epsilon_of(max(self.witness.bound, 0.0), self.witness.pair)

    @property
    def explanation(self) -> str:
        """The verdict in a few sentences."""
        if self.witness is None:
            return self._why_inconclusive()
        if self.verdict is Verdict.VIOLATED:
            return f"The claim is violated. {self.witness.explain()}"
        return (
            f"No violation was found: {self.claim.shown(self.epsilon_lower)} is shown, and {self.claim.amount} is "
            "claimed. This does not prove the claim."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the witness, which is a document of its own."""
        return {
            "verdict": str(self.verdict),
            "explanation": self.explanation,
            "claim": self.claim.to_dict(),
            # JSON has no infinity; null says that no epsilon allows the loss.
            "epsilon_lower": self.epsilon_lower if math.isfinite(self.epsilon_lower) else None,
            "epsilon_claimed": self.claim.epsilon,
            "unit": self.claim.unit,
            "delta": self.claim.delta,
            "confidence": self.confidence,
            "samples": self.samples,
            "seed": self.seed,
            "attainable_loss": self.attainable_loss if math.isfinite(self.attainable_loss) else None,
            "pair": None if self.witness is None else self.witness.pair.to_dict(),
            "pairs": [summary.to_dict() for summary in self.pairs],
            "seconds": round(self.seconds, 3),
        }

    def _repr_html_(self) -> str:
        """The verdict, for a notebook: no place is in it."""
        said = {
            Verdict.VIOLATED: "The loss exceeds the claim. print(report.explanation) says between which places.",
            Verdict.CONSISTENT: "No violation was found. This does not prove the claim.",
        }
        facts = [
            ("Verdict", str(self.verdict)),
            ("Claimed", self.claim.amount),
            ("Shown", "nothing" if self.witness is None else self.claim.shown(self.epsilon_lower)),
            ("Confidence", f"{self.confidence:.6g}"),
            ("Samples", f"{self.samples:,}, in {len(self.pairs):,} pairs of places"),
        ]
        return html_card("Audit", facts, notes=[said.get(self.verdict) or self._why_inconclusive()])

    def _why_inconclusive(self) -> str:
        losses = [summary.claimed_loss for summary in self.pairs if summary.claimed_loss is not None]
        if not losses:
            return (
                "None of the pairs is one that the claim speaks of, so nothing was tested; an interval claim needs the "
                "intervals, an elastic one the cells, and a central one is tested by auditing the fit."
            )
        # The bound grows with the logarithm of the samples.
        times = math.exp(min(losses) - self.attainable_loss) if math.isfinite(self.attainable_loss) else math.inf
        many = f"at least {times:,.0f} times as many samples" if times < 1e6 else "a claim of less loss"
        return (
            f"Losses of {min(losses):.3g} and more are claimed, and this number of samples can show at most "
            f"{self.attainable_loss:.3g}: nothing could have been found. Testing the claim needs {many}."
        )


@without_context()
def audit(
    mechanism: Mechanism | Publish | str | Sequence[str] | Subject,
    claim: Claim | Guarantee | str | None = None,
    pairs: Sequence[Pair] | None = None,
    *,
    region: Region | str | None = None,
    places: Sequence[Place] = (),
    learned: Learned | None = None,
    samples: int | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int | None = None,
    search: bool = True,
    progress: Progress | None = None,
) -> AuditReport:
    """Look for a pair of places between which a mechanism loses more than is claimed.

    Parameters
    ----------
    mechanism : Mechanism, callable, str, sequence of str or Subject
        What to audit: one of Nearveil's mechanisms or your own; a function ``points, rng -> points`` in degrees; a
        command that reads and writes CSV, such as ``"program {input} {output}"``; or a subject that is set up already.
    claim : Claim, Guarantee or str, optional
        What it is said to promise, also as text: ``"metric:4/km"``, ``"elastic:1.5"``, ``"local:1"``; ``"paper"`` for
        what the paper claims. By default what the mechanism itself states.
    pairs : sequence of Pair, optional
        Where to look, instead of pairs made for the mechanism; those that the claim does not cover are left out.
    region : Region or str, optional
        Public region of a function or a command, or of a mechanism that has none: where made-up places lie.
    places : sequence of (float, float)
        Try pairs around these places as well; the region is then not searched. They are written into the witness.
    learned : Intervals or Cells, optional
        Of a mechanism from outside: the intervals that it works with, which tell where to look, or the cells that an
        elastic claim is about, which say how many steps apart places are.
    samples : int, optional
        Number of outputs to draw in all, 2,000,000 by default and 400,000 from a function or a command. Three tenths of
        them at most serve to find the event, the rest to count it.
    confidence : float
        Probability that the bound holds; one minus the probability that a true claim is called violated.
    seed : int, optional
        Makes the audit repeatable; by default a fresh one, which the report names.
    search : bool
        Whether to search the region for places with little noise first, and to try pairs around them. An eighth of
        the samples goes into it. Too few samples, or a claim about one interval, make it pointless and it is left out.
    progress : callable, optional
        Called with the number of samples just drawn.

    Examples
    --------
    >>> import nearveil as nv
    >>> nv.audit(nv.PlanarLaplace(noise_m=500), samples=100_000, seed=1).verdict.value
    'consistent'
    >>> report = nv.audit(nv.PlanarLaplace(noise_m=500), "metric:2/km", samples=100_000, seed=1)
    >>> report.verdict.value, report.epsilon_lower > report.claim.epsilon
    ('violated', True)
    """
    started = time.monotonic()
    subject = _subject(mechanism, region, learned, places)
    if samples is None:
        samples = DEFAULT_EXTERNAL_SAMPLES if isinstance(subject, ExternalSubject) else DEFAULT_SAMPLES
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < LEAST_SAMPLES:
        raise UsageError(f"an audit needs at least {LEAST_SAMPLES:,} samples")
    if not 0.5 <= confidence < 1:
        raise UsageError("the confidence must lie between 0.5 and 1, 1 excluded")
    if places and not subject.region.contains(places).all():
        raise UsageError(f"a place to look at lies outside the region {subject.region}; choose one in it")
    own = own_mechanism(subject)
    stated = as_claim(claim, own)
    if own is not None:
        learned = own.learned
    if isinstance(learned, Cells) and learned.region != subject.region:
        raise UsageError("the cells are of another region than the mechanism's; give those of its region")
    if pairs is None:
        if own is None:
            pairs = audit_pairs(subject.region, stated, learned)
        else:
            pairs = mechanism_pairs(own, stated, subject.region)
    around = [place_pairs(subject.region, place, stated, learned) for place in places]
    seed = chosen_seed(seed)
    with closed_after(subject):
        sampler = Sampler(subject, seed, progress)
        search = search and not places
        cells = learned if stated.definition is PrivacyDefinition.ELASTIC and isinstance(learned, Cells) else None
        report = _audit(
            sampler, stated, [*pairs, *chain(*around)], samples, confidence, seed, search=search, cells=cells
        )
    return replace(report, seconds=time.monotonic() - started)


def _subject(
    mechanism: Mechanism | Publish | str | Sequence[str] | Subject,
    region: Region | str | None,
    learned: Learned | None,
    places: Sequence[Place],
) -> Subject:
    box = as_region(region) if region is not None else None if learned is None else learned.region
    if is_mechanism(mechanism):
        if box is not None and mechanism.has_region and not box.same_edges(mechanism.resolved_region):
            raise UsageError("the mechanism has a region of its own; leave region= out")
        if box is None and places:
            box = audited_region(mechanism, places[0])
        return own_subject(mechanism, box)
    if not isinstance(mechanism, Sequence) and not callable(mechanism):
        return mechanism
    if box is None:
        raise UsageError("say where made-up places may lie: region='berlin', a box, or a GeoJSON file")
    return CommandSubject(mechanism, box) if isinstance(mechanism, Sequence) else CallableSubject(mechanism, box)


def _audit(
    sampler: Sampler,
    claim: Claim,
    pairs: list[Pair],
    samples: int,
    confidence: float,
    seed: int,
    *,
    search: bool,
    cells: Cells | None,
) -> AuditReport:
    # What is left over from exploring goes to confirming, so this many at least.
    searches = search and (claim.definition in (PrivacyDefinition.LOCAL, PrivacyDefinition.METRIC) or cells is not None)
    exploring = _SEARCH_SHARE + _ROUNDS_SHARE if searches else _EXPLORING_SHARE
    per_place = int(samples * (1 - exploring)) // 2
    aim = Aim(per_place, claim.delta, shared_confidence(confidence, MOST_EVENTS))
    attainable = largest_loss_bound(aim.trials, delta=aim.delta, confidence=aim.confidence)
    if searches and _within_reach(pairs, claim, attainable):
        pairs = [*pairs, *_found_by_search(sampler, claim, int(samples * _SEARCH_SHARE), cells)]
    covered = _within_reach(pairs, claim, attainable)
    suspects = _two_rounds(sampler, covered, int(samples * (_ROUNDS_SHARE if searches else _EXPLORING_SHARE)), aim)
    witness = _confirmed(sampler, suspects[0], claim, confidence, samples, seed) if suspects else None
    if witness is not None and cells is not None:
        witness = replace(witness, cells=cells.digest)
    verdict = Verdict.INCONCLUSIVE
    if witness is not None:
        verdict = Verdict.VIOLATED if witness.violates else Verdict.CONSISTENT
    return AuditReport(
        verdict=verdict,
        claim=claim,
        confidence=confidence,
        witness=witness,
        samples=sampler.drawn,
        seed=seed,
        attainable_loss=attainable,
        pairs=tuple(_summary(pair, claim, suspects) for pair in pairs),
    )


def _within_reach(pairs: Sequence[Pair], claim: Claim, attainable: float) -> list[tuple[Pair, float]]:
    """Covered pairs, with their claimed losses, on which even the clearest event could exceed the claim."""
    losses = ((pair, claim.claimed_loss(pair)) for pair in pairs)
    return [(pair, loss) for pair, loss in losses if loss is not None and loss < attainable]


def _found_by_search(sampler: Sampler, claim: Claim, budget: int, cells: Cells | None) -> list[Pair]:
    """Pairs around the places where the noise is least."""
    kind = "around a place with little noise, found by a search over the region"
    region = sampler.subject.region
    found = search_places(sampler, budget, cells)
    return [pair for place in found for pair in place_pairs(region, place, claim, cells, kind)]


def _two_rounds(sampler: Sampler, covered: list[tuple[Pair, float]], budget: int, aim: Aim) -> list[Suspect]:
    """Look at every pair briefly, then at the most suspect ones again and closely."""
    if not covered:
        return []
    end = sampler.drawn + budget
    first = min(int(budget * _FIRST_ROUND_SHARE) // (2 * len(covered)), _MOST_PER_PLACE[0])
    suspects = explore(sampler, covered, max(first, 4), aim, 1)
    finalists = _finalists(suspects)
    second = min((end - sampler.drawn) // (2 * len(finalists)), _MOST_PER_PLACE[1])
    closely = explore(sampler, [(suspect.pair, suspect.claimed_loss) for suspect in finalists], max(second, 4), aim, 2)
    return [*closely, *(suspect for suspect in suspects if suspect not in finalists)]


def _finalists(suspects: list[Suspect]) -> list[Suspect]:
    """The most suspect pairs, the one that bad luck may have hidden, and at least one of which little is claimed.

    What comes rarely from the one place and never from the other shows only where little is claimed.
    """
    finalists, others = suspects[: _FINALISTS - 1], suspects[_FINALISTS - 1 :]
    finalists += sorted(others, key=lambda suspect: -suspect.hope)[:1]
    little = [suspect for suspect in suspects if suspect.claimed_loss < _LITTLE]
    if little and little[0] not in finalists and all(suspect.claimed_loss >= _LITTLE for suspect in finalists):
        finalists[-1] = little[0]
    return finalists


def _confirmed(sampler: Sampler, suspect: Suspect, claim: Claim, confidence: float, samples: int, seed: int) -> Witness:
    """Count the suspect's events on all samples that are left; the one with the largest bound is the witness."""
    per_place = (samples - sampler.drawn) // 2
    counted = count_events(sampler, suspect.pair, suspect.events, per_place, CONFIRM_STREAM)
    document = subject_to_dict(sampler.subject)
    witnesses = [
        Witness(
            claim=claim,
            pair=suspect.pair,
            event=event,
            counts=counts,
            confidence=confidence,
            events_counted=len(counted),
            seed=seed,
            subject=document,
        )
        for event, counts in zip(suspect.events, counted, strict=True)
    ]
    return max(witnesses, key=lambda witness: witness.bound)


def _summary(pair: Pair, claim: Claim, suspects: list[Suspect]) -> PairSummary:
    loss = claim.claimed_loss(pair)
    if loss is None:
        return PairSummary(pair, None, None, "the claim does not speak of it")
    for suspect in suspects:
        if suspect.pair is pair:
            return PairSummary(pair, loss, max(suspect.expected_bound, 0.0), "explored")
    return PairSummary(pair, loss, None, "more samples are needed to test it")
