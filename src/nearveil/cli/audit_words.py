"""What ``nearveil audit`` prints: a verdict, what led to it, and what it does and does not mean."""

from __future__ import annotations

import json
import math
import textwrap
from typing import Any

from nearveil.audit.auditor import AuditReport, PairSummary, Verdict
from nearveil.audit.claims import Claim
from nearveil.report.tables import text_table

MEANING = {
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

COUNTED = {Verdict.VIOLATED: "Witness", Verdict.CONSISTENT: "The nearest to a witness"}
"""What to call the pair and the event that were counted."""

_WIDTH = 110
_MOST_ROWS = 8


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
        facts(
            audited=words,
            claim=report.claim.text,
            found=f"{found}, at a confidence of {confidence_words(report.confidence)}",
            samples=f"{report.samples:,} outputs in {report.seconds:.1f} s, seed {report.seed}",
        ),
        paragraph(f"{COUNTED[report.verdict]}: {report.witness.explain()}" if report.witness else report.explanation),
    ]
    table = _pairs_table(report)
    return "\n\n".join([*parts, *([table] if table else []), paragraph(MEANING[report.verdict])])


def report_document(report: AuditReport, words: str) -> dict[str, Any]:
    """Return the report for machines."""
    witness = None if report.witness is None else json.loads(report.witness.to_json())
    return {**report.to_dict(), "audited": words, "witness": witness}


def facts(**lines: str) -> str:
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


def paragraph(text: str) -> str:
    """Return text in lines of readable length."""
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def confidence_words(confidence: float) -> str:
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
