"""The audit: a mechanism and what it is said to promise in, a lower bound on its loss and a verdict out.

Why the confidence holds. The samples come in two parts from independent streams. On the first, the audit searches the
region, looks at all pairs and settles on one pair and a few events for it (each a score, a threshold and a direction);
how it does so is of no consequence. On the second, drawn afterwards, it counts these events and nothing else, once.
Given the first part the events are fixed and each count is binomial, so `lower_bound` applies to each. The events, six
at most, share the error (Bonferroni); for everything else that was tried while exploring, no correction is due. A
mechanism whose claim is true is called a violator with probability at most 1 - confidence.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from nearveil.audit.claim import Claim
from nearveil.audit.counting import count_events
from nearveil.audit.explore import MOST_EVENTS, Aim, Suspect, explore
from nearveil.audit.lower_bound import largest_loss_bound
from nearveil.audit.pairs import Pair
from nearveil.audit.region_pairs import pairs_around
from nearveil.audit.region_search import search_places
from nearveil.audit.report import AuditReport, PairSummary, Verdict
from nearveil.audit.sampling import CONFIRM_STREAM, Sampler, chosen_seed
from nearveil.audit.subject import Subject
from nearveil.audit.witness import Witness, shared_confidence
from nearveil.errors import UsageError
from nearveil.privacy.guarantee import Notion
from nearveil.types import Progress

LEAST_SAMPLES = 2_000
DEFAULT_CONFIDENCE = 1 - 1e-6

_EXPLORING_SHARE = 0.25
# With a search over the region the rounds that follow get less, and exploring as a whole more.
_SEARCH_SHARE, _ROUNDS_SHARE = 0.12, 0.18
_FIRST_ROUND_SHARE = 0.45
_FINALISTS = 3
_LITTLE = 1.1
_MOST_PER_PLACE = (40_000, 250_000)


def audit(
    subject: Subject,
    claim: Claim,
    pairs: Sequence[Pair],
    *,
    samples: int = 1_000_000,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int | None = None,
    search: bool = True,
    progress: Progress | None = None,
) -> AuditReport:
    """Look for a pair of places between which the mechanism loses more than is claimed.

    Parameters
    ----------
    subject : Subject
        What to audit.
    claim : Claim
        What it is said to promise.
    pairs : sequence of Pair
        Where to look; pairs that the claim does not cover are left out.
    samples : int
        Number of outputs to draw in all. Three tenths of them at most serve to find the event, the rest to count it.
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
    >>> from nearveil import PlanarLaplace
    >>> from nearveil.audit.claim import own_claim
    >>> from nearveil.audit.pair_choice import mechanism_pairs
    >>> from nearveil.audit.subject import MechanismSubject
    >>> mechanism = PlanarLaplace(hide_within_m=500)
    >>> claim = own_claim(mechanism.guarantee)
    >>> narrow = MechanismSubject(mechanism.rescaled(0.5))
    >>> report = audit(narrow, claim, mechanism_pairs(mechanism, claim), samples=100_000, seed=1)
    >>> report.verdict.value, report.epsilon_lower > claim.epsilon
    ('violated', True)
    """
    started = time.monotonic()
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < LEAST_SAMPLES:
        raise UsageError(f"an audit needs at least {LEAST_SAMPLES:,} samples")
    if not 0.5 <= confidence < 1:
        raise UsageError("the confidence must lie between 0.5 and 1, 1 excluded")
    seed = chosen_seed(seed)
    sampler = Sampler(subject, seed, progress)
    # What is left over from exploring goes to confirming, so this many at least.
    searches = search and claim.notion in (Notion.LOCAL, Notion.METRIC)
    exploring = _SEARCH_SHARE + _ROUNDS_SHARE if searches else _EXPLORING_SHARE
    per_place = int(samples * (1 - exploring)) // 2
    aim = Aim(per_place, claim.delta, shared_confidence(confidence, MOST_EVENTS))
    attainable = largest_loss_bound(aim.trials, delta=aim.delta, confidence=aim.confidence)
    if searches and _within_reach(pairs, claim, attainable):
        pairs = [*pairs, *_found_by_search(sampler, claim, int(samples * _SEARCH_SHARE))]
    covered = _within_reach(pairs, claim, attainable)
    suspects = _two_rounds(sampler, covered, int(samples * (_ROUNDS_SHARE if searches else _EXPLORING_SHARE)), aim)
    witness = _confirmed(sampler, suspects[0], claim, confidence, samples, seed) if suspects else None
    return AuditReport(
        verdict=_verdict(witness),
        claim=claim,
        confidence=confidence,
        witness=witness,
        samples=sampler.drawn,
        seed=seed,
        attainable_loss=attainable,
        pairs=tuple(_summary(pair, claim, suspects) for pair in pairs),
        seconds=time.monotonic() - started,
    )


def _within_reach(pairs: Sequence[Pair], claim: Claim, attainable: float) -> list[tuple[Pair, float]]:
    """Covered pairs, with their claimed losses, on which even the clearest event could exceed the claim."""
    losses = ((pair, claim.claimed_loss(pair)) for pair in pairs)
    return [(pair, loss) for pair, loss in losses if loss is not None and loss < attainable]


def _found_by_search(sampler: Sampler, claim: Claim, budget: int) -> list[Pair]:
    """Pairs around the places where the noise is least."""
    per_metre = claim.epsilon if claim.notion is Notion.METRIC else None
    kind = "around a place with little noise, found by a search over the region"
    region = sampler.subject.region
    return [pair for place in search_places(sampler, budget) for pair in pairs_around(region, place, per_metre, kind)]


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
    witnesses = [
        Witness(
            claim=claim,
            pair=suspect.pair,
            event=event,
            counts=counts,
            confidence=confidence,
            events_counted=len(counted),
            seed=seed,
        )
        for event, counts in zip(suspect.events, counted, strict=True)
    ]
    return max(witnesses, key=lambda witness: witness.bound)


def _verdict(witness: Witness | None) -> Verdict:
    if witness is None:
        return Verdict.INCONCLUSIVE
    return Verdict.VIOLATED if witness.violates else Verdict.CONSISTENT


def _summary(pair: Pair, claim: Claim, suspects: list[Suspect]) -> PairSummary:
    loss = claim.claimed_loss(pair)
    if loss is None:
        return PairSummary(pair, None, None, "the claim does not speak of it")
    for suspect in suspects:
        if suspect.pair is pair:
            return PairSummary(pair, loss, max(suspect.expected_bound, 0.0), "explored")
    return PairSummary(pair, loss, None, "more samples are needed to test it")
