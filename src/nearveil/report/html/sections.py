"""Parts of the page: contents, findings, facts, and a section for each outcome."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from nearveil.evaluation.outcome import Finding, Outcome
from nearveil.report.html.pictures import picture_figure
from nearveil.report.html.tables import table_figure


def section_id(name: str) -> str:
    """Return the anchor of an outcome's section.

    Examples
    --------
    >>> section_id("Table 1")
    'part-table-1'
    """
    return "part-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def contents_list(findings: Sequence[Finding], outcomes: Sequence[Outcome], facts: Sequence[tuple[str, str]]) -> str:
    """Return links to everything on the page."""
    below = [_entry(f"finding-{number}", finding.headline) for number, finding in enumerate(findings, 1)]
    entries = []
    if findings:
        entries.append(_entry("findings", "Findings", f"\n<ol>\n{_lines(below)}\n</ol>\n"))
    if facts:
        entries.append(_entry("facts", "How this was made"))
    entries += [_entry(section_id(outcome.name), outcome.title) for outcome in outcomes]
    return f'<ul class="contents">\n{_lines(entries)}\n</ul>'


def warning_note(warnings: Sequence[str]) -> str:
    """Return what must be known first."""
    if not warnings:
        return ""
    items = _lines(f"<li>{escape(warning)}</li>" for warning in warnings)
    return (
        f'<aside class="warnings" aria-label="Warnings">\n<strong>Please note</strong>\n<ul>\n{items}\n</ul>\n</aside>'
    )


def findings_section(findings: Sequence[Finding], outcomes: Sequence[Outcome]) -> str:
    """Return the findings as cards, each with links to what shows it."""
    if not findings:
        return ""
    titles = {outcome.name: outcome.title for outcome in outcomes}
    cards = _lines(_card(number, finding, titles) for number, finding in enumerate(findings, 1))
    return (
        '<section id="findings" aria-labelledby="findings-title">\n<h2 id="findings-title">Findings</h2>\n'
        f'<div class="cards">\n{cards}\n</div>\n</section>'
    )


def facts_section(facts: Sequence[tuple[str, str]]) -> str:
    """Return what the report was made with."""
    if not facts:
        return ""
    rows = _lines(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in facts)
    return (
        '<section id="facts" aria-labelledby="facts-title">\n<h2 id="facts-title">How this was made</h2>\n'
        f'<table class="facts">\n<tbody>\n{rows}\n</tbody>\n</table>\n</section>'
    )


def outcome_section(outcome: Outcome, figures: Mapping[str, str] | None = None) -> str:
    """Return the section of an outcome: question, pictures, what came out, tables."""
    anchor = section_id(outcome.name)
    parts = [
        f'<section class="outcome" id="{anchor}" aria-labelledby="{anchor}--title">',
        f'<h2 id="{anchor}--title">{escape(outcome.title)}</h2>',
        f'<p class="question">{escape(outcome.question)}</p>' if outcome.question else "",
        *(figures[one.name] if figures else picture_figure(one) for one in outcome.pictures),
        _remarks(outcome.remarks),
        *(table_figure(table, f"{anchor}--table-{number}") for number, table in enumerate(outcome.tables, 1)),
        "</section>",
    ]
    return _lines(part for part in parts if part)


def _entry(anchor: str, words: str, below: str = "") -> str:
    return f'<li><a href="#{anchor}">{escape(words)}</a>{below}</li>'


def _card(number: int, finding: Finding, titles: dict[str, str]) -> str:
    evidence = [
        f'<a href="#{section_id(name)}">{escape(titles[name])}</a>' if name in titles else _missing(name)
        for name in finding.evidence
    ]
    items = "".join(f"<li>{each}</li>" for each in evidence)
    shown = f'<div class="evidence">Evidence<ul>{items}</ul>\n</div>' if evidence else ""
    return (
        f'<article class="card" id="finding-{number}">\n<h3>{escape(finding.headline)}</h3>\n'
        f"<p>{escape(finding.words)}</p>\n{shown}\n</article>"
    )


def _missing(name: str) -> str:
    return f"{escape(name)} (not in this report)"


def _remarks(remarks: Sequence[str]) -> str:
    if not remarks:
        return ""
    items = _lines(f"<li>{escape(remark)}</li>" for remark in remarks)
    return f'<h3>What came out</h3>\n<ul class="remarks">\n{items}\n</ul>'


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(parts)
