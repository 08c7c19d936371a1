"""What ``nearveil audit`` says: a verdict, what led to it, and what it does and does not mean."""

from __future__ import annotations

import json
import math
import textwrap
from typing import Any

from nearveil.audit.auditor import AuditReport, PairSummary, Verdict
from nearveil.audit.check import WitnessCheck, printable
from nearveil.audit.claims import Claim
from nearveil.audit.fit import PEOPLE_PER_CENTRE, VIEWS, FitReport
from nearveil.audit.witness import Witness
from nearveil.mechanisms.dprs import DPRS
from nearveil.report.tables import text_table

_MEANING = {
    Verdict.VIOLATED: (
        "More is lost than is claimed, at the stated confidence, whatever the proof says. Anyone can check the witness "
        "on fresh samples: save it with --witness FILE.json, then nearveil audit --check FILE.json."
    ),
    Verdict.CONSISTENT: (
        "No violation was found with these samples at these places. That is no proof that the claim is true; a proof "
        "is what nearveil certify gives, for mechanisms that have one."
    ),
    Verdict.INCONCLUSIVE: "Nothing was tested, so this speaks neither for the claim nor against it.",
}

# What to call the pair and the event that were counted.
_COUNTED = {Verdict.VIOLATED: "Witness", Verdict.CONSISTENT: "The nearest to a witness"}

_WIDTH = 110
_MOST_ROWS = 8
_NO_PROOF = (
    "No violation was found with these fits. That is no proof that the claim is true: the smaller the fault and the "
    "claimed epsilon, the more fits it takes to show (--samples)."
)
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


def headline(verdict: Verdict, claim: Claim, epsilon_lower: float) -> str:
    """Return the verdict in one line."""
    claimed = f"{claim.amount} is claimed"
    if verdict is Verdict.INCONCLUSIVE:
        return f"INCONCLUSIVE: {claimed}, and could not be put to the test"
    if claim.offset:
        # A number alone would leave open whether the offset is in it.
        return f"{verdict.upper()}: {claimed}; shown is {claim.shown(epsilon_lower)}"
    if verdict is Verdict.VIOLATED:
        return f"VIOLATED: {claimed}, and it is at least {epsilon_lower:.4g}"
    return f"CONSISTENT: {claimed}, and no more than {epsilon_lower:.4g} could be shown"


def report_text(report: AuditReport, words: str) -> str:
    """Return the report for people."""
    found = report.claim.shown(report.epsilon_lower) if report.witness else "nothing"
    parts = [
        headline(report.verdict, report.claim, report.epsilon_lower),
        _facts(
            audited=words,
            claim=report.claim.text,
            found=f"{found}, at a confidence of {_confidence_words(report.confidence)}",
            samples=f"{report.samples:,} outputs in {report.seconds:.1f} s, seed {report.seed}",
        ),
        _paragraph(f"{_COUNTED[report.verdict]}: {report.witness.explain()}" if report.witness else report.explanation),
    ]
    table = _pairs_table(report)
    return "\n\n".join([*parts, *([table] if table else []), _paragraph(_MEANING[report.verdict])])


def report_document(report: AuditReport, words: str) -> dict[str, Any]:
    """Return the report for machines."""
    witness = None if report.witness is None else json.loads(report.witness.to_json())
    return {**report.to_dict(), "audited": words, "witness": witness}


def fit_words(mechanism: DPRS) -> str:
    """Say which fit was audited, and on whom."""
    plan = mechanism.fit_plan
    rounds = f", rounds: {plan.rounds}" if plan.method == "pic" else ""
    return (
        f"the fit of dprs by {plan.method} (centres: {plan.centres}{rounds}; others with --centres and --rounds), on "
        f"{PEOPLE_PER_CENTRE * (plan.centres or 0)} made-up people with and without one more: "
        f"{' and '.join(VIEWS.values())}"
    )


def fit_text(report: FitReport, words: str, seconds: float) -> str:
    """Return the report on a fit for people."""
    told = (
        report.explanation
        if report.verdict is Verdict.INCONCLUSIVE
        else f"{_COUNTED[report.verdict]}, in {VIEWS[report.view]}: {report.witness.explain()}"
    )
    meaning = _NO_PROOF if report.verdict is Verdict.CONSISTENT else _MEANING[report.verdict]
    lines = _facts(
        audited=words,
        claim=report.claim.text,
        found=_found(report.claim, report.epsilon_lower, report.confidence),
        fits=f"{report.fits:,} in {seconds:.1f} s, seed {report.seed}",
    )
    title = headline(report.verdict, report.claim, report.epsilon_lower)
    return "\n\n".join([title, lines, _paragraph(told), _paragraph(meaning)])


def fit_document(report: FitReport, words: str, seconds: float) -> dict[str, Any]:
    """Return the report on a fit for machines."""
    claim = report.claim
    return {
        **report.to_dict(),
        "epsilon_claimed": claim.epsilon,
        "unit": claim.unit,
        "delta": claim.delta,
        "seconds": seconds,
        "audited": words,
        "view": report.view,
        "witness": json.loads(report.witness.to_json()),
    }


def check_text(check: WitnessCheck) -> str:
    """Return what a check found for people; the witness comes from a stranger."""
    witness, claim = check.witness, check.witness.claim
    lines = _facts(
        checked=check.audited,
        claim=claim.text,
        found=_found(claim, check.epsilon_lower, witness.confidence),
        samples=f"{check.samples:,} fresh ones, seed {witness.seed}",
    )
    title = headline(check.verdict, claim, check.epsilon_lower)
    parts = [title, lines, _paragraph(witness.explain()), _paragraph(_SHOWN[check.verdict])]
    return printable("\n\n".join(parts))


def check_document(check: WitnessCheck) -> dict[str, Any]:
    """Return what a check found for machines."""
    witness, claim = check.witness, check.witness.claim
    return {
        "verdict": str(check.verdict),
        "explanation": _SHOWN[check.verdict],
        "claim": claim.to_dict(),
        "epsilon_lower": check.epsilon_lower,
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
    return f"{claim.shown(epsilon_lower)}, at a confidence of {_confidence_words(confidence)}"


def _facts(**lines: str) -> str:
    """Return labelled lines, one below the other."""
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


def _confidence_words(confidence: float) -> str:
    """Return a confidence as people read it: by how seldom it is wrong, where that is seldom."""
    return f"{confidence:.4g}" if confidence < 0.9995 else f"1 - {1 - confidence:.2g}"


def _pairs_table(report: AuditReport) -> str:
    """The pairs that came nearest to breaking the claim, the one that was counted first."""
    explored = [summary for summary in report.pairs if summary.estimated_loss is not None]
    if not explored:
        return ""
    chosen = report.witness.pair if report.witness else None
    explored.sort(key=lambda summary: (summary.pair is not chosen, -_share(summary)))
    rows = [
        [
            _length(summary.pair.distance_m),
            f"{summary.claimed_loss or 0.0:.3g}",
            f"{summary.estimated_loss or 0.0:.3g}",
            summary.pair.kind + (" (counted)" if summary.pair is chosen else ""),
        ]
        for summary in explored[:_MOST_ROWS]
    ]
    untold = sum(summary.claimed_loss is None for summary in report.pairs)
    unreached = len(report.pairs) - len(explored) - untold
    left_out = [
        f"{number:,} {words}"
        for number, words in (
            (len(explored) - len(rows), "more were looked at"),
            (unreached, "would need more samples"),
            (untold, "are not spoken of by the claim"),
        )
        if number
    ]
    title = "A first look at pairs of places, to choose the one to count (estimates, and no bounds):"
    after = f"\nOf the other pairs, {', '.join(left_out)}; all are in --json." if left_out else ""
    return f"{title}\n{text_table(['apart', 'claimed loss', 'estimated loss', 'where'], rows)}{after}"


def _share(summary: PairSummary) -> float:
    return (summary.estimated_loss or 0.0) / max(summary.claimed_loss or 0.0, 1e-300)


def _length(metres: float) -> str:
    if not math.isfinite(metres):
        return "-"
    return f"{metres:,.0f} m" if metres < 10_000 else f"{metres / 1000:,.1f} km"
