"""Text and JSON of ``nearveil audit``: the verdict, the evidence, and what the verdict means."""

from __future__ import annotations

import json
import math
import textwrap
from typing import Any

from nearveil.audit.auditor import AuditReport, PairSummary, Verdict
from nearveil.audit.check import WitnessCheck, printable
from nearveil.audit.claims import Claim
from nearveil.audit.fit import PEOPLE_PER_CENTRE, VIEWS, FitReport, describe_fit, fit_to_audit
from nearveil.audit.witness import Witness
from nearveil.mechanisms.dprs import DPRS
from nearveil.mechanisms.hide_among import HideAmong
from nearveil.privacy.guarantee import Notion
from nearveil.report.tables import text_table

_MEANING = {
    Verdict.VIOLATED: (
        "At the stated confidence the privacy loss is larger than claimed. Anyone can check the witness on fresh "
        "samples: save it with --witness FILE.json, then run 'nearveil audit --check FILE.json'."
    ),
    Verdict.CONSISTENT: (
        "No violation was found with these samples at these locations. This does not prove that the claim is true; "
        "'nearveil certify' gives a proof, for mechanisms that have one."
    ),
    Verdict.INCONCLUSIVE: "Nothing was tested, so this is evidence neither for the claim nor against it.",
}

# Name of the pair and event that were counted.
_COUNTED = {Verdict.VIOLATED: "Witness", Verdict.CONSISTENT: "Closest to a violation"}

_WIDTH = 110
_MOST_ROWS = 8
_NO_PROOF = (
    "No violation was found with these fits. This does not prove that the claim is true: the smaller the excess loss "
    "and the claimed epsilon, the more fits are needed to show a violation (--samples)."
)
_SHOWN = {
    Verdict.VIOLATED: "The witness is confirmed: the loss is larger than claimed on fresh samples too.",
    Verdict.CONSISTENT: (
        "The witness is not confirmed: this event does not violate the claim on fresh samples. This does not prove "
        "that the claim is true."
    ),
    Verdict.INCONCLUSIVE: (
        "There are too few samples to show a violation with this event, or the claim does not cover these locations."
    ),
}


def headline(verdict: Verdict, claim: Claim, epsilon_lower: float) -> str:
    """Return the verdict in one line."""
    claimed = f"{claim.amount} is claimed"
    if verdict is Verdict.INCONCLUSIVE:
        return f"INCONCLUSIVE: {claimed}, and could not be tested"
    if claim.offset:
        # A number alone would not say whether it includes the offset.
        return f"{verdict.upper()}: {claimed}; shown is {claim.shown(epsilon_lower)}"
    if math.isinf(epsilon_lower):
        return f"{verdict.upper()}: {claimed}, and there is {claim.shown(epsilon_lower)}"
    if verdict is Verdict.VIOLATED:
        return f"VIOLATED: {claimed}, and it is at least {epsilon_lower:.4g}"
    return f"CONSISTENT: {claimed}, and no more than {epsilon_lower:.4g} could be shown"


def report_text(report: AuditReport, audited: str) -> str:
    """Return an audit report as text."""
    found = report.claim.shown(report.epsilon_lower) if report.witness else "nothing"
    parts = [
        headline(report.verdict, report.claim, report.epsilon_lower),
        _labelled(
            audited=audited,
            claim=report.claim.text,
            found=f"{found}, at a confidence of {_confidence_text(report.confidence)}",
            samples=f"{report.samples:,} outputs in {report.seconds:.1f} s, seed {report.seed}",
        ),
        _paragraph(f"{_COUNTED[report.verdict]}: {report.witness.explain()}" if report.witness else report.explanation),
    ]
    table = _pairs_table(report)
    return "\n\n".join([*parts, *([table] if table else []), _paragraph(_MEANING[report.verdict])])


def report_document(report: AuditReport, audited: str) -> dict[str, Any]:
    """Return an audit report as a JSON document."""
    witness = None if report.witness is None else json.loads(report.witness.to_json())
    return {**report.to_dict(), "audited": audited, "witness": witness}


def fit_and_people(mechanism: DPRS | HideAmong) -> str:
    """Describe the audited fit and the people it was run on."""
    if isinstance(mechanism, HideAmong):
        return (
            f"{describe_fit(fit_to_audit(mechanism))}, on made-up crowds with and without one person more: "
            f"{VIEWS['cells']} and {VIEWS['answers']}"
        )
    plan = mechanism.fit_plan
    rounds = f", rounds: {plan.rounds}" if plan.method == "pic" else ""
    return (
        f"the fit of dprs by {plan.method} (centres: {plan.centres}{rounds}; change with --set centres=N and "
        "--set rounds=N), on "
        f"{PEOPLE_PER_CENTRE * (plan.centres or 0)} made-up people with and without one more: "
        f"{VIEWS['answers']} and {VIEWS['centres']}"
    )


def fit_text(report: FitReport, audited: str, seconds: float) -> str:
    """Return the report on a fit as text."""
    evidence = (
        report.explanation
        if report.verdict is Verdict.INCONCLUSIVE
        else f"{_COUNTED[report.verdict]}, in {VIEWS[report.view]}: {report.witness.explain()}"
    )
    meaning = _NO_PROOF if report.verdict is Verdict.CONSISTENT else _MEANING[report.verdict]
    lines = _labelled(
        audited=audited,
        claim=report.claim.text,
        found=_found(report.claim, report.epsilon_lower, report.confidence),
        fits=f"{report.fits:,} in {seconds:.1f} s, seed {report.seed}",
    )
    title = headline(report.verdict, report.claim, report.epsilon_lower)
    return "\n\n".join([title, lines, _paragraph(evidence), _paragraph(meaning)])


def fit_document(report: FitReport, audited: str, seconds: float) -> dict[str, Any]:
    """Return the report on a fit as a JSON document."""
    claim = report.claim
    return {
        **report.to_dict(),
        "epsilon_claimed": claim.epsilon,
        "unit": claim.unit,
        "delta": claim.delta,
        "seconds": seconds,
        "audited": audited,
        "view": report.view,
        "witness": json.loads(report.witness.to_json()),
    }


def check_text(check: WitnessCheck) -> str:
    """Return the result of a check as text, without control characters: the witness is not trusted."""
    witness, claim = check.witness, check.witness.claim
    lines = _labelled(
        checked=check.audited,
        claim=claim.text,
        found=_found(claim, check.epsilon_lower, witness.confidence),
        samples=f"{check.samples:,} fresh samples, seed {witness.seed}",
    )
    title = headline(check.verdict, claim, check.epsilon_lower)
    parts = [title, lines, _paragraph(witness.explain()), _paragraph(_SHOWN[check.verdict])]
    return printable("\n\n".join(parts))


def check_document(check: WitnessCheck) -> dict[str, Any]:
    """Return the result of a check as a JSON document."""
    witness, claim = check.witness, check.witness.claim
    return {
        "verdict": str(check.verdict),
        "explanation": _SHOWN[check.verdict],
        "claim": claim.to_dict(),
        "epsilon_lower": check.epsilon_lower if math.isfinite(check.epsilon_lower) else None,
        "epsilon_claimed": claim.epsilon,
        "unit": claim.unit,
        "delta": claim.delta,
        "confidence": witness.confidence,
        "samples": check.samples,
        "seed": witness.seed,
        "audited": check.audited,
        **({"pair": witness.pair.to_dict()} if isinstance(witness, Witness) else {}),
        "witness": json.loads(witness.to_json()),
    }


def _found(claim: Claim, epsilon_lower: float, confidence: float) -> str:
    return f"{claim.shown(epsilon_lower)}, at a confidence of {_confidence_text(confidence)}"


def _labelled(**lines: str) -> str:
    """Return one labelled line per keyword."""
    width = max(map(len, lines)) + 4
    return "\n".join(
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=f"  {label:<{width}}",
            subsequent_indent=" " * (width + 2),
            break_on_hyphens=False,
        )
        for label, text in lines.items()
    )


def _paragraph(text: str) -> str:
    """Return text in lines of readable length."""
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def _confidence_text(confidence: float) -> str:
    """Return a confidence as a number, or as 1 minus its error rate if that is small."""
    return f"{confidence:.4g}" if confidence < 0.9995 else f"1 - {1 - confidence:.2g}"


def _pairs_table(report: AuditReport) -> str:
    """Return a table of the pairs closest to violating the claim; the counted pair comes first."""
    explored = [summary for summary in report.pairs if summary.estimated_loss is not None]
    if not explored:
        return ""
    chosen = report.witness.pair if report.witness else None
    explored.sort(key=lambda summary: (summary.pair is not chosen, -_share(summary)))
    by_steps = report.claim.notion is Notion.ELASTIC
    rows = [
        [
            _length(summary.pair.distance_m),
            *([f"{summary.pair.steps:.3g}"] if by_steps and summary.pair.steps is not None else []),
            f"{summary.claimed_loss or 0.0:.3g}",
            f"{summary.estimated_loss or 0.0:.3g}",
            summary.pair.kind + (" (counted)" if summary.pair is chosen else ""),
        ]
        for summary in explored[:_MOST_ROWS]
    ]
    not_covered = sum(summary.claimed_loss is None for summary in report.pairs)
    not_reached = len(report.pairs) - len(explored) - not_covered
    left_out = [
        f"{number:,} {reason}"
        for number, reason in (
            (len(explored) - len(rows), "were also examined"),
            (not_reached, "would need more samples"),
            (not_covered, "are not covered by the claim"),
        )
        if number
    ]
    title = "Pairs of locations examined, to choose the one to count (estimates, not bounds):"
    after = f"\nOf the other pairs, {', '.join(left_out)}; all are in --json." if left_out else ""
    headings = ["apart", *(["steps"] if by_steps else []), "claimed loss", "estimated loss", "where"]
    return f"{title}\n{text_table(headings, rows)}{after}"


def _share(summary: PairSummary) -> float:
    return (summary.estimated_loss or 0.0) / max(summary.claimed_loss or 0.0, 1e-300)


def _length(metres: float) -> str:
    if not math.isfinite(metres):
        return "-"
    return f"{metres:,.0f} m" if metres < 10_000 else f"{metres / 1000:,.1f} km"
