"""The whole page, from the findings to the last table."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from nearveil.evaluation.outcome import Finding, Outcome
from nearveil.io.atomic import replacing
from nearveil.report.html.sections import contents_list, facts_section, findings_section, outcome_section, warning_note

_HERE = resources.files("nearveil.report.html")


def write_report(
    path: Path,
    *,
    title: str,
    findings: Sequence[Finding],
    outcomes: Sequence[Outcome],
    facts: Sequence[tuple[str, str]],
    warnings: Sequence[str],
    figures: Mapping[str, str] | None = None,
    lead: str = "",
) -> None:
    """Write a report that opens in any browser without a network; the same input gives the same bytes.

    Parameters
    ----------
    path : Path
        Replaced if it exists.
    title : str
        Of the page.
    findings : sequence of Finding
        The main findings; their evidence are names of outcomes.
    outcomes : sequence of Outcome
        One section each, in this order.
    facts : sequence of (str, str)
        What it was made with: versions, seed, runs, data.
    warnings : sequence of str
        What a reader must know before anything else.
    figures : mapping, optional
        Pictures by name as `picture_figure` gives them, where they were drawn before.
    lead : str
        What the report is about, below its title.
    """
    script = _file("page.js")
    parts = {
        "TITLE": escape(title),
        "LEAD": f'<p class="lead">{escape(lead)}</p>' if lead else "",
        "STYLE": _file("page.css"),
        "SCRIPT": script,
        "SCRIPTHASH": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "CONTENTS": contents_list(findings, outcomes, facts),
        "WARNINGS": warning_note(warnings),
        "FINDINGS": findings_section(findings, outcomes),
        "FACTS": facts_section(facts),
        "OUTCOMES": "\n".join(outcome_section(outcome, figures) for outcome in outcomes),
    }
    # All at once, so that no text can name another part.
    text = re.sub(r"@@([A-Z]+)@@", lambda found: parts[found[1]], _file("page.html"))
    with replacing(path, force=True) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def _file(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")
