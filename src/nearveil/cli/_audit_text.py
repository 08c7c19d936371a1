"""Results of ``nearveil audit`` as text and as JSON: the verdict, the evidence, and what the verdict means."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import dataclass
from typing import Any

from nearveil.auditing.auditor import AuditReport, PairSummary, Verdict
from nearveil.auditing.check import WitnessCheck, printable
from nearveil.auditing.claims import Claim
from nearveil.auditing.fit import VIEWS, FitReport, describe_fit, fit_to_audit, views_of
from nearveil.auditing.fit_witness import FitWitness
from nearveil.auditing.witness import Witness
from nearveil.mechanisms.base import Mechanism
from nearveil.privacy.guarantee import PrivacyDefinition
from nearveil.report.text_table import text_table

_WIDTH = 110
_MOST_ROWS = 8
_NO_PROOF = "This does not prove that the claim is true"
_MEANING = {
    Verdict.VIOLATED: (
        "At the stated confidence the privacy loss is larger than claimed. Anyone can check the witness on fresh "
        "samples: save it with --witness FILE.json, then run 'nearveil audit --check FILE.json'. --picture FILE.png "
        "draws it."
    ),
    Verdict.CONSISTENT: (
        f"No violation was found with these samples. {_NO_PROOF}; more --samples find smaller violations, and "
        "'nearveil certify' gives a proof, for mechanisms that have one."
    ),
    Verdict.INCONCLUSIVE: "Nothing was tested, so this is evidence neither for the claim nor against it.",
}
_MEANING_OF_CHECK = {
    Verdict.VIOLATED: "The witness is confirmed: the loss is larger than claimed on fresh samples too.",
    Verdict.CONSISTENT: (
        f"The witness is not confirmed: this event does not violate the claim on fresh samples. {_NO_PROOF}."
    ),
    Verdict.INCONCLUSIVE: (
        "There are too few samples to show a violation with this event, or the claim does not cover these locations."
    ),
}
# Name of the pair and event that were counted.
_COUNTED = {Verdict.VIOLATED: "Witness", Verdict.CONSISTENT: "Closest to a violation"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AuditResult:
    """The result of an audit or of a check.

    Attributes
    ----------
    title : str
        The verdict in one line.
    text : str
        All of it, for a terminal.
    document : dict
        All of it, for JSON.
    witness : Witness, FitWitness or None
        The pair and the event that were counted, if any.
    """

    verdict: Verdict
    title: str
    text: str
    document: dict[str, Any]
    witness: Witness | FitWitness | None


def release_result(report: AuditReport, audited: str) -> AuditResult:
    """Return the result of an audit of what is released."""
    witness = report.witness
    return _result(
        report,
        witness,
        f"{_COUNTED[report.verdict]}: {witness.explain()}" if witness else report.explanation,
        _pairs_table(report),
        _MEANING[report.verdict],
        document={**report.to_dict(), "audited": audited},
        audited=audited,
        claim=report.claim.text,
        found=_found(report.claim, report.epsilon_lower, report.confidence) if witness else "nothing",
        samples=f"{report.samples:,} outputs in {report.seconds:.1f} s, seed {report.seed}",
    )


def fit_result(report: FitReport, mechanism: Mechanism, seconds: float) -> AuditResult:
    """Return the result of an audit of a fit."""
    claim, audited = report.claim, _fit_and_users(mechanism)
    is_inconclusive = report.verdict is Verdict.INCONCLUSIVE
    counted = "" if is_inconclusive else f"{_COUNTED[report.verdict]}, in {VIEWS[report.view]}: "
    return _result(
        report,
        report.witness,
        report.explanation if is_inconclusive else counted + report.witness.explain(),
        _MEANING[report.verdict],
        document={
            **report.to_dict(),
            "seconds": seconds,
            "audited": audited,
            "view": report.view,
        },
        audited=audited,
        claim=claim.text,
        found=_found(claim, report.epsilon_lower, report.confidence),
        fits=f"{report.fits:,} in {seconds:.1f} s, seed {report.seed}",
    )


def check_result(check: WitnessCheck) -> AuditResult:
    """Return the result of a check of a witness."""
    witness, claim, meaning = check.witness, check.witness.claim, _MEANING_OF_CHECK[check.verdict]
    return _result(
        check,
        witness,
        witness.explain(),
        meaning,
        document={
            "verdict": str(check.verdict),
            "explanation": meaning,
            "claim": claim.to_dict(),
            "epsilon_lower": check.epsilon_lower if math.isfinite(check.epsilon_lower) else None,
            "confidence": witness.confidence,
            "samples": check.samples,
            "seed": witness.seed,
            "audited": check.audited,
            **({"pair": witness.pair.to_dict()} if isinstance(witness, Witness) else {}),
        },
        checked=check.audited,
        claim=claim.text,
        found=_found(claim, check.epsilon_lower, witness.confidence),
        samples=f"{check.samples:,} fresh samples, seed {witness.seed}",
    )


def _result(
    audit: AuditReport | FitReport | WitnessCheck,
    witness: Witness | FitWitness | None,
    *parts: str,
    document: dict[str, Any],
    **labels: str,
) -> AuditResult:
    claim = audit.witness.claim if isinstance(audit, WitnessCheck) else audit.claim
    title = f"{audit.verdict.upper()}: {claim.amount} is claimed"
    if audit.verdict is Verdict.INCONCLUSIVE:
        title += ", and could not be tested"
    else:
        title += f"; shown is {claim.shown(audit.epsilon_lower)}"
    width = max(map(len, labels)) + 4
    lines = "\n".join(
        _filled(text, initial_indent=f"  {label:<{width}}", subsequent_indent=" " * (width + 2))
        for label, text in labels.items()
    )
    claimed = {"epsilon_claimed": claim.epsilon, "unit": claim.unit, "delta": claim.delta}
    # Tables have line breaks of their own.
    texts = [title, lines, *(part if "\n" in part else _filled(part) for part in parts if part)]
    return AuditResult(
        verdict=audit.verdict,
        # A witness may come from a stranger.
        title=printable(title),
        text=printable("\n\n".join(texts)),
        document={**claimed, **document, "witness": None if witness is None else json.loads(witness.to_json())},
        witness=witness,
    )


def _filled(text: str, **indents: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False, **indents)  # type: ignore[arg-type]


def _found(claim: Claim, epsilon_lower: float, confidence: float) -> str:
    stated = f"{confidence:.4g}" if confidence < 0.9995 else f"1 - {1 - confidence:.2g}"
    return f"{claim.shown(epsilon_lower)}, at a confidence of {stated}"


def _fit_and_users(mechanism: Mechanism) -> str:
    """Describe the audited fit and the users it was run on."""
    seen = " and ".join(VIEWS[view] for view in views_of(mechanism))
    return f"{describe_fit(fit_to_audit(mechanism))}, on a few synthetic users with and without one more: {seen}"


def _pairs_table(report: AuditReport) -> str:
    """Return a table of the pairs closest to violating the claim; the counted pair comes first."""
    explored = [summary for summary in report.pairs if summary.estimated_loss is not None]
    if not explored:
        return ""
    counted = report.witness.pair if report.witness else None
    explored.sort(key=lambda summary: (summary.pair is not counted, -_share(summary)))
    by_steps = report.claim.definition is PrivacyDefinition.ELASTIC
    rows = [
        [
            _length(summary.pair.distance_m),
            *([f"{summary.pair.steps:.3g}"] if by_steps and summary.pair.steps is not None else []),
            f"{summary.claimed_loss or 0.0:.3g}",
            f"{summary.estimated_loss or 0.0:.3g}",
            summary.pair.kind + (" (counted)" if summary.pair is counted else ""),
        ]
        for summary in explored[:_MOST_ROWS]
    ]
    title = (
        f"{len(rows)} of {len(report.pairs):,} pairs of locations examined to choose the one to count (estimates, not "
        "bounds; all are in --json):"
    )
    headings = ["apart", *(["steps"] if by_steps else []), "claimed loss", "estimated loss", "where"]
    return f"{title}\n{text_table(headings, rows)}"


def _share(summary: PairSummary) -> float:
    return (summary.estimated_loss or 0.0) / max(summary.claimed_loss or 0.0, 1e-300)


def _length(meters: float) -> str:
    if not math.isfinite(meters):
        return "-"
    return f"{meters:,.0f} m" if meters < 10_000 else f"{meters / 1000:,.1f} km"
