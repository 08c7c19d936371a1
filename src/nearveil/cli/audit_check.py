"""``nearveil audit --check``: does a witness stand on fresh samples. Nothing that it says of itself is believed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from nearveil.audit.auditor import Verdict
from nearveil.audit.bounds import largest_loss_bound, loss_bounds
from nearveil.audit.claims import Claim, own_claim
from nearveil.audit.fit import FORMAT as FIT_FORMAT
from nearveil.audit.fit import (
    LEAST_FITS,
    AnswersFit,
    DataPair,
    Fit,
    FitReport,
    FitWitness,
    KnowingFit,
    audit_fit,
    fit_witness_from_json,
    recheck_fit,
    worst_case_data,
)
from nearveil.audit.pair_search import with_intervals
from nearveil.audit.subjects import Subject, chosen_seed, own_subject
from nearveil.audit.witness import Witness, recheck, witness_from_json
from nearveil.cli._audit_parts import (
    COUNTED,
    MEANING,
    OWN,
    Asked,
    AuditFiles,
    Effort,
    External,
    confidence_words,
    facts,
    headline,
    mechanism_words,
    paragraph,
    stated_claim,
)
from nearveil.cli._options import FitMethodName, ReleaseName, build_mechanism
from nearveil.cli._output import progress_bar, read_text, say, say_json
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.intervals import Intervals
from nearveil.mechanisms.registry import mechanism_from_spec
from nearveil.region import Region
from nearveil.types import FloatArray

LEAST_SAMPLES = 2_000_000
_MOST_SAMPLES = 50_000_000
_MOST_FITS = 200_000


def check_witness(
    path: Path, external: External, effort: Effort, files: AuditFiles, *, trusted: str | None = None
) -> Verdict:
    """Count a witness's event again on fresh samples, and say what that shows."""
    text = read_text(path, "witness")
    if _is_fit_witness(text):
        return _check_fit(text, effort, files)
    return _check_places(text, external, effort, files, trusted)


def _check_places(text: str, external: External, effort: Effort, files: AuditFiles, trusted: str | None) -> Verdict:
    witness = replace(witness_from_json(text), confidence=effort.confidence)
    witness = replace(witness, claim=_in_numbers(witness.claim))
    with _found_again(witness.subject, external, trusted) as (subject, intervals, words):
        witness = _with_pair_looked_up(witness, subject, intervals)
        samples = effort.samples or min(max(LEAST_SAMPLES, 2 * witness.counts.trials), _MOST_SAMPLES)
        seed = chosen_seed(effort.seed)
        with progress_bar("checking", samples) as advance:
            counted = recheck(witness, subject, samples=samples, seed=seed, progress=advance)
        fresh = replace(witness, counts=counted.counts, events_counted=1, seed=seed)
        verdict = _verdict(witness, fresh)
        lower = fresh.claim.epsilon_of(max(fresh.bound, 0.0), fresh.pair)
        document = {"pair": fresh.pair.to_dict(), "witness": json.loads(fresh.to_json())}
        _report(verdict, fresh, lower, words, effort, document)
        files.write_witness(fresh.to_json())
        files.draw(fresh, subject, intervals, _printable(headline(verdict, fresh.claim, lower)))
    return verdict


def _check_fit(text: str, effort: Effort, files: AuditFiles) -> Verdict:
    if files.picture is not None:
        raise UsageError("--picture draws places, and this witness is about a fit; leave it out")
    witness = replace(fit_witness_from_json(text), confidence=effort.confidence)
    witness = replace(witness, claim=_in_numbers(witness.claim))
    mechanism, view = mechanism_of_fit(json.loads(text).get("subject"))
    fits = effort.samples or min(max(DEFAULT_FITS, 2 * witness.counts.trials), _MOST_FITS)
    with progress_bar("fitting", fits) as advance:
        fresh = recheck_fit(witness, fit_of(mechanism, view, advance), fits=fits, seed=effort.seed)
    verdict = _verdict(witness, fresh)
    document = fit_witness_document(fresh, mechanism, view)
    words = f"the fit of dprs by {mechanism.fit_plan.method}, {mechanism.centres} centres: {VIEWS[view]}"
    _report(verdict, fresh, max(fresh.bound, 0.0), words, effort, {"witness": document})
    files.write_witness(json.dumps(document, indent=1, allow_nan=False))
    return verdict


def _in_numbers(claim: Claim) -> Claim:
    """The claim with words made of its numbers: those in the file may say something else."""
    return replace(claim, text=f"as the witness states it: {claim.notion}, {claim.amount}")


def _is_fit_witness(text: str) -> bool:
    try:
        return bool(json.loads(text)["format"] == FIT_FORMAT)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


@contextmanager
def _found_again(
    document: dict[str, Any], external: External, trusted: str | None
) -> Iterator[tuple[Subject, Intervals | None, str]]:
    """Give what the witness is about; run no code that the file names and the user does not."""
    kind = document.get("kind")
    if kind == "mechanism":
        if external.is_given:
            raise UsageError("the witness is about a mechanism of Nearveil; leave --callable and --command out")
        mechanism = mechanism_from_spec(document, trusted=trusted)
        intervals = mechanism.current_intervals if isinstance(mechanism, DPRS) else None
        yield own_subject(mechanism), intervals, mechanism_words(mechanism, document["mechanism"])
        return
    if kind not in ("callable", "command"):
        raise DataError("the witness does not say what it is about, or is damaged; make it again")
    named = document.get(kind)
    if not external.is_given or external.document.get(kind) != named:
        raise UsageError(
            f"the witness is about a {kind}, which is not run because a file says so; if you trust it, repeat it: "
            f"--{kind} {_printable(str(named))!r}"
        )
    with external.subject(_region(document)) as subject:
        yield subject, None, str(named)


def _region(document: dict[str, Any]) -> Region:
    try:
        return Region(**document["region"])
    except (KeyError, TypeError, ValueError):
        raise DataError("the witness names no region, or is damaged; make it again") from None


def _with_pair_looked_up(witness: Witness, subject: Subject, intervals: Intervals | None) -> Witness:
    """Return the witness with its pair as it truly lies: in the region, and in one interval or not."""
    if not subject.region.contains([witness.pair.first, witness.pair.second]).all():
        raise DataError("the witness speaks of places outside the mechanism's region; audit again")
    return witness if intervals is None else replace(witness, pair=with_intervals([witness.pair], intervals)[0])


def _verdict(witness: Witness | FitWitness, fresh: Witness | FitWitness) -> Verdict:
    """Violated if the fresh counts break the claim; inconclusive if so few could not have."""
    if fresh.violates:
        return Verdict.VIOLATED
    claimed = witness.claimed_loss if isinstance(witness, Witness) else witness.claim.epsilon
    trials, delta = fresh.counts.trials, witness.claim.delta
    if witness.violates:
        # What the counts on record, were they true, would give on so many samples.
        hits, false_hits = (
            trials * count / of
            for count, of in (
                (witness.counts.hits, witness.counts.trials),
                (witness.counts.false_hits, witness.counts.false_trials),
            )
        )
        shown = float(loss_bounds(hits, trials, false_hits, trials, delta=delta, confidence=witness.confidence))
    else:
        shown = largest_loss_bound(trials, delta=delta, confidence=witness.confidence)
    return Verdict.CONSISTENT if shown > claimed else Verdict.INCONCLUSIVE


_SHOWN = {
    Verdict.VIOLATED: "The witness stands: on fresh samples too, more is lost than is claimed.",
    Verdict.CONSISTENT: (
        "The witness does not stand: this event does not break the claim on fresh samples. That is no proof that the "
        "claim is true."
    ),
    Verdict.INCONCLUSIVE: (
        "So few samples could not have shown a violation by this event, or the claim does not speak of these places."
    ),
}


def _report(
    verdict: Verdict,
    fresh: Witness | FitWitness,
    epsilon_lower: float,
    words: str,
    effort: Effort,
    document: dict[str, Any],
) -> None:
    counts, claim = fresh.counts, fresh.claim
    samples = counts.trials + counts.false_trials
    if effort.as_json:
        say_json(
            {
                "verdict": str(verdict),
                "explanation": _SHOWN[verdict],
                "claim": claim.to_dict(),
                "epsilon_lower": epsilon_lower,
                "epsilon_claimed": claim.epsilon,
                "unit": claim.unit,
                "delta": claim.delta,
                "confidence": fresh.confidence,
                "samples": samples,
                "seed": fresh.seed,
                "audited": words,
                **document,
            }
        )
        return
    found = f"{claim.shown(epsilon_lower)}, at a confidence of {confidence_words(fresh.confidence)}"
    lines = facts(checked=words, claim=claim.text, found=found, samples=f"{samples:,} fresh ones, seed {fresh.seed}")
    parts = [headline(verdict, claim, epsilon_lower), lines, paragraph(fresh.explain()), paragraph(_SHOWN[verdict])]
    say(_printable("\n\n".join(parts)))


def _printable(text: str) -> str:
    """A file from a stranger must not steer the terminal."""
    return "".join(mark if mark.isprintable() or mark == "\n" else " " for mark in text)


# ``nearveil audit --stage fit``: does what is learned from everybody show whether one person was among them.


DEFAULT_FITS = 40_000
VIEWS = {"answers": "the noisy answers that the fit is made from", "centres": "the centres that it publishes"}
"""What of a fit is looked at."""

# Few centres and few people, so that one person shows; one round, so that thousands of fits take seconds.
_CENTRES, _ROUNDS = 2, 1
_PEOPLE_PER_CENTRE = 2
# Centres are made from the answers and show less, but take longer: they get a small part of the fits.
_CENTRES_SHARE = 0.025
_NO_PROOF = (
    "No violation was found with these fits. That is no proof that the claim is true: the smaller the fault and the "
    "claimed epsilon, the more fits it takes to show (--samples)."
)
_NOT_WRITTEN = ("seed", "intervals", "region")


def audit_fit_stage(asked: Asked, effort: Effort, files: AuditFiles) -> Verdict:
    """Audit a fit, print the report, write the witness."""
    started = time.monotonic()
    if files.picture is not None:
        raise UsageError("--picture draws places, and a fit has none; leave it out")
    fits = effort.samples or DEFAULT_FITS
    mechanism = _mechanism(asked)
    data = _data(mechanism)
    claim = _claim(asked.claim, mechanism, data[0])
    seed = chosen_seed(effort.seed)
    of_centres = max(int(_CENTRES_SHARE * fits), LEAST_FITS * len(data))
    reports = {}
    with progress_bar("fitting", fits) as advance:
        for view, number in (("answers", fits - of_centres), ("centres", of_centres)):
            reports[view] = audit_fit(
                fit_of(mechanism, view, advance),
                claim,
                data,
                mechanism.resolved_region,
                fits=number,
                confidence=effort.confidence,
                seed=seed,
                audits=len(VIEWS),
            )
    # The first that is violated, or else the answers, which show most.
    view = next((name for name, found in reports.items() if found.verdict is Verdict.VIOLATED), "answers")
    report = replace(reports[view], fits=fits)
    words = _words(mechanism)
    document = fit_witness_document(report.witness, mechanism, view)
    seconds = time.monotonic() - started
    if effort.as_json:
        extra = {"epsilon_claimed": claim.epsilon, "unit": claim.unit, "delta": claim.delta, "seconds": seconds}
        say_json({**report.to_dict(), **extra, "audited": words, "view": view, "witness": document})
    else:
        say(_text(report, words, view, seconds))
    files.write_witness(json.dumps(document, indent=1, allow_nan=False))
    return report.verdict


def fit_of(mechanism: DPRS, view: str, advance: Callable[[int], None]) -> Fit | KnowingFit:
    """Return one view of the mechanism's own fit, as the auditor takes it."""
    if view == "answers":
        return AnswersFit(mechanism.resolved_region, mechanism.fit_plan, mechanism.fit_budget, advance)
    params = mechanism.get_params()

    def fit(points: FloatArray, rng: np.random.Generator) -> FloatArray:
        fitted = DPRS(**{**params, "seed": int(rng.integers(2**63))}).fit(points)
        advance(1)
        return fitted.intervals_.centres

    return fit


def fit_witness_document(witness: FitWitness, mechanism: DPRS, view: str) -> dict[str, Any]:
    """Return a witness against a fit with how to find the fit again."""
    params = {
        name: value for name, value in mechanism.get_params().items() if name not in _NOT_WRITTEN and value is not None
    }
    subject = {"kind": "fit", "view": view, "params": params, "region": asdict(mechanism.resolved_region)}
    return {**json.loads(witness.to_json()), "subject": subject}


def mechanism_of_fit(subject: Any) -> tuple[DPRS, str]:
    """Rebuild the mechanism that `fit_witness_document` described; say what of its fit was looked at."""
    try:
        # Witnesses that name no view are from when there was only one.
        view = subject.get("view", "centres")
        if subject["kind"] != "fit" or view not in VIEWS or not isinstance(subject["params"], dict):
            raise KeyError("kind")
        params = {name: value for name, value in subject["params"].items() if name not in _NOT_WRITTEN}
        return DPRS(**params, region=Region(**subject["region"])), view
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError("the witness does not say which fit it is about, or is damaged; audit the fit again") from None


def _mechanism(asked: Asked) -> DPRS:
    wish = asked.wish
    if asked.external.is_given or wish.mechanism not in (None, "dprs"):
        raise UsageError("--stage fit goes with dprs, which alone learns from people; leave it out")
    if wish.intervals is not None:
        raise UsageError("--intervals are fitted already; leave them out to audit the fit")
    if wish.least_radius is not None:
        raise UsageError("--least-radius comes after the fit and cannot change its verdict; leave it out")
    by_default = FitMethodName.PIC if wish.chosen_release is ReleaseName.PAPER else FitMethodName.PRIVATE_GRID
    method = wish.fit_method or by_default
    rounds = _ROUNDS if method is FitMethodName.PIC and wish.rounds is None else wish.rounds
    mechanism = build_mechanism(replace(wish, centres=wish.centres or _CENTRES, rounds=rounds), asked.region)
    if not isinstance(mechanism, DPRS):
        raise TypeError("a wish for dprs gave something else")
    return mechanism


def _data(mechanism: DPRS) -> tuple[DataPair, ...]:
    """The two hardest of the worst cases: every pair costs fits."""
    alone, _, corner, _ = worst_case_data(
        mechanism.resolved_region, _PEOPLE_PER_CENTRE * (mechanism.centres or _CENTRES)
    )
    return alone, corner


def _claim(text: str | None, mechanism: DPRS, data: DataPair) -> Claim:
    if text is not None and text != OWN:
        return stated_claim(text)
    fitted = DPRS(**{**mechanism.get_params(), "seed": 0}).fit(data.without)
    return own_claim(fitted.intervals_.guarantee(mechanism.delta))


def _words(mechanism: DPRS) -> str:
    plan = mechanism.fit_plan
    rounds = f", rounds: {plan.rounds}" if plan.method == "pic" else ""
    return (
        f"the fit of dprs by {plan.method} (centres: {plan.centres}{rounds}; others with --centres and --rounds), on "
        f"{_PEOPLE_PER_CENTRE * (plan.centres or _CENTRES)} made-up people with and without one more: "
        f"{' and '.join(VIEWS.values())}"
    )


def _text(report: FitReport, words: str, view: str, seconds: float) -> str:
    found = f"{report.claim.shown(report.epsilon_lower)}, at a confidence of {confidence_words(report.confidence)}"
    lines = facts(
        audited=words,
        claim=report.claim.text,
        found=found,
        fits=f"{report.fits:,} in {seconds:.1f} s, seed {report.seed}",
    )
    told = (
        report.explanation
        if report.verdict is Verdict.INCONCLUSIVE
        else f"{COUNTED[report.verdict]}, in {VIEWS[view]}: {report.witness.explain()}"
    )
    meaning = _NO_PROOF if report.verdict is Verdict.CONSISTENT else MEANING[report.verdict]
    title = headline(report.verdict, report.claim, report.epsilon_lower)
    return "\n\n".join([title, lines, paragraph(told), paragraph(meaning)])
