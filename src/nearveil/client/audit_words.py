"""What an audit found, for people."""

from __future__ import annotations

from nearveil.client.audit_result import AttackAudit, ServiceAudit
from nearveil.report.tables import text_table

_HEADERS = (
    "attack", "colluders", "attacked", "found", "95 % interval", "median error (m)", "mean error (m)", "questions",
    "refused", "first refused at", "stopped",
)  # fmt: skip


def audit_table(found: ServiceAudit) -> str:
    """One row per attack."""
    return text_table(_HEADERS, [_cells(row) for row in found.rows])


def audit_notes(found: ServiceAudit) -> str:
    """What the columns mean, whether the service noticed, and what the audit did to it."""
    lines = [
        f"The service's protection: {found.protection or 'it does not say'}. Lists of {found.k}.",
        f"found: share within {found.tau_m:g} m of where the target truly is. A guess at the start, without any "
        f"question: {found.rows[0].starts_within:.3f}.",
        "refused: attacks that were told 'too many' at least once, and at which question, as a median; stopped: had to "
        "end for it.",
    ]
    if found.not_listed:
        lines.append(
            f"{found.not_listed} of {found.targets} targets are listed from no place near their own and were not "
            "attacked."
        )
    lines.append(_suspicions(found))
    if found.epochs:
        lines.append(
            f"The test hook took the service {found.epochs:,} epochs ahead, which can begin new windows for everybody."
        )
    lines.append(f"All {found.accounts:,} accounts of the audit are removed again.")
    return "\n".join(lines)


def _cells(row: AttackAudit) -> list[str]:
    low, high = row.share_interval
    return [
        row.attack,
        str(row.colluders),
        str(len(row.attempts)),
        f"{row.share_found:.3f}",
        f"{low:.3f} to {high:.3f}",
        _metres(row.median_error_m),
        _metres(row.mean_error_m),
        f"{row.mean_questions:.1f}",
        str(row.refused),
        "–" if row.first_refusal is None else f"{row.first_refusal:g}",
        str(row.stopped),
    ]


def _suspicions(found: ServiceAudit) -> str:
    if found.suspects is None:
        return "Whether the service suspected the attacker is not known: its metrics are not to be read."
    seen = found.suspects[1] - found.suspects[0]
    if seen <= 0:
        return "The service suspected nobody meanwhile."
    return f"The service's count of suspicious questions and moves rose by {seen:,} meanwhile."


def _metres(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
