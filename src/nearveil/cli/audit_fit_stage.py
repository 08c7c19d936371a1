"""``nearveil audit --stage fit``: does what is learned from everybody show whether one person was among them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from nearveil.audit.auditor import Verdict
from nearveil.audit.claims import Claim, own_claim
from nearveil.audit.fit import (
    LEAST_FITS,
    AnswersFit,
    DataPair,
    Fit,
    FitReport,
    FitWitness,
    KnowingFit,
    audit_fit,
    worst_case_data,
)
from nearveil.audit.subjects import chosen_seed
from nearveil.cli.audit_claims import OWN, stated_claim
from nearveil.cli.audit_files import AuditFiles
from nearveil.cli.audit_options import Effort
from nearveil.cli.audit_subjects import Asked
from nearveil.cli.audit_words import COUNTED, MEANING, confidence_words, facts, headline, paragraph
from nearveil.cli.console import progress_bar, say, say_json
from nearveil.cli.mechanism_choice import MechanismName, ReleaseName, build_mechanism
from nearveil.cli.options import FitMethodName
from nearveil.errors import DataError, UsageError
from nearveil.mechanisms.dprs import DPRS
from nearveil.region import Region
from nearveil.types import FloatArray

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
    if asked.external.is_given or wish.mechanism not in (None, MechanismName.DPRS):
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
