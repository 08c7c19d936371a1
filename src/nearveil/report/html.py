"""The report of a reproduction as a page: a single file that asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from nearveil.evaluation.attack_experiment import Mean, Share
from nearveil.evaluation.results import Column, Finding, Outcome, Picture, Table, Value
from nearveil.evaluation.workers import map_in_processes
from nearveil.io.atomic import replacing
from nearveil.report.charts import Format
from nearveil.report.files import draw_picture, format_value, full_name, table_csv
from nearveil.types import Progress

# Pictures inside the page, for light and for dark.


# A drawing is sharp at any size; beyond this, an image is the smaller evil.
_LARGEST_SVG_BYTES = 400_000
_KINDS = {"svg": "image/svg+xml", "png": "image/png"}
# Images have 150 dots per inch; a page has 96.
_PAGE_SCALE = 96 / 150
# A picture wider than this is scrolled on a phone rather than shrunk to its width.
_PHONE_PX = 700


def picture_figure(picture: Picture) -> str:
    """Return a picture in both variants, of which the page shows one, with its caption."""
    format: Format = "svg"
    light = _drawn(picture, dark=False, format=format)
    if len(light) > _LARGEST_SVG_BYTES:
        format = "png"
        light = _drawn(picture, dark=False, format=format)
    dark = _drawn(picture, dark=True, format=format)
    images = "\n".join(_image(picture, data, format, theme) for data, theme in ((light, "light"), (dark, "dark")))
    return (
        f'<figure class="picture">\n<div class="scroll">\n{images}\n</div>\n'
        f"<figcaption>{escape(picture.title)}</figcaption>\n</figure>"
    )


def _image(picture: Picture, data: bytes, format: Format, theme: str) -> str:
    width, height = _svg_size(data) if format == "svg" else _png_size(data)
    natural = f' style="--natural: {width}px"' if width > _PHONE_PX else ""
    source = f"data:{_KINDS[format]};base64,{base64.b64encode(data).decode()}"
    return (
        f'<img class="{theme}" alt="{escape(picture.words)}" width="{width}" height="{height}"{natural} '
        f'decoding="async" src="{source}">'
    )


def _drawn(picture: Picture, *, dark: bool, format: Format) -> bytes:
    stream = io.BytesIO()
    draw_picture(picture, stream, dark=dark, format=format, titled=False)
    return stream.getvalue()


def _svg_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels of the page, from points."""
    width, height = (re.search(rb' %s="([\d.]+)pt"' % side, data) for side in (b"width", b"height"))
    if width is None or height is None:
        raise ValueError("a drawing without a size")
    return round(float(width[1]) * 4 / 3), round(float(height[1]) * 4 / 3)


def _png_size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", data[16:24])
    return round(width * _PAGE_SCALE), round(height * _PAGE_SCALE)


# Tables inside the page: sortable, and to be had as CSV.


# More of them take two lines each on paper.
_WIDE_COLUMNS = 7
# Few enough not to be torn apart by the end of a page.
_SHORT_ROWS = 20


def table_figure(table: Table, anchor: str) -> str:
    """Return a table with its caption, its protocol and a link to its numbers."""
    kinds = {"wide": len(table.columns) > _WIDE_COLUMNS, "short": len(table.rows) <= _SHORT_ROWS}
    classes = " ".join(["table", *(kind for kind, holds in kinds.items() if holds)])
    body = "\n".join(_row(row, table.columns) for row in table.rows)
    link = f'<a class="csv" download="{escape(table.name)}.csv" href="{_csv_address(table)}">Save as CSV</a>'
    return (
        f'<figure class="{classes}">\n<figcaption id="{anchor}">{escape(table.caption)}</figcaption>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{anchor}">\n<table>\n'
        f"<thead>\n{_head(table)}\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
        f'<p class="protocol">{escape(table.protocol)} {link}</p>\n</figure>'
    )


def sort_value(value: Value) -> str:
    """Return what a cell is sorted by: all digits of a number, a text as it is, nothing for None."""
    if isinstance(value, Mean | Share):
        value = value.value
    if value is None:
        return ""
    return value if isinstance(value, str) else repr(float(value))


def _csv_address(table: Table) -> str:
    return "data:text/csv;charset=utf-8," + quote(table_csv(table))


def _head(table: Table) -> str:
    """One line of headers; two where columns have groups."""
    if not any(column.group for column in table.columns):
        return f"<tr>{''.join(_header(table, number) for number in range(len(table.columns)))}</tr>"
    above, below = [], []
    for group, members in groupby(range(len(table.columns)), key=lambda number: table.columns[number].group):
        numbers = list(members)
        if group:
            above.append(f'<th class="group" colspan="{len(numbers)}" scope="colgroup">{escape(group)}</th>')
            below += [_header(table, number, first=number == numbers[0]) for number in numbers]
        else:
            above += [_header(table, number, rows=2) for number in numbers]
    return f"<tr>{''.join(above)}</tr>\n<tr>{''.join(below)}</tr>"


def _header(table: Table, number: int, *, rows: int = 1, first: bool = False) -> str:
    column = table.columns[number]
    kind = "number" if _is_numeric(table, number) else "text"
    classes = kind + (" first" if first else "")
    span = f' rowspan="{rows}"' if rows > 1 else ""
    return (
        f'<th class="{classes}" scope="col" data-column="{number}" data-kind="{kind}"{span}>'
        f'<button type="button" title="{escape(full_name(column))}">{escape(column.name)}</button></th>'
    )


def _is_numeric(table: Table, number: int) -> bool:
    values = [row[number] for row in table.rows if row[number] is not None]
    return bool(values) and not any(isinstance(value, str) for value in values)


def _row(row: tuple[Value, ...], columns: tuple[Column, ...]) -> str:
    cells = [_cell(value, column) for value, column in zip(row, columns, strict=True)]
    if cells:
        cells[0] = cells[0].replace("<td", '<th scope="row"', 1).removesuffix("</td>") + "</th>"
    starts = [
        number for number in range(1, len(columns)) if columns[number].group not in ("", columns[number - 1].group)
    ]
    for number in starts:
        cells[number] = cells[number].replace('class="', 'class="first ', 1)
    return f"<tr>{''.join(cells)}</tr>"


def _cell(value: Value, column: Column) -> str:
    kind = "text" if isinstance(value, str) else "number"
    shown = escape(format_value(value, column.form)) if value is not None else '<span class="none">–</span>'
    if isinstance(value, Mean | Share):
        # A cell may be broken before its interval, not within.
        words, space, interval = shown.replace("± ", "±&nbsp;").partition(" ")
        shown = words + (f' <span class="interval">{interval}</span>' if space else "")
    return f'<td class="{kind}" data-value="{escape(sort_value(value))}">{shown}</td>'


# Parts of the page: contents, findings, facts, and a section for each outcome.


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


# The whole page, from the findings to the last table.


_HERE = resources.files("nearveil.report").joinpath("templates")


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
    script = _file("report.js")
    parts = {
        "TITLE": escape(title),
        "LEAD": f'<p class="lead">{escape(lead)}</p>' if lead else "",
        "STYLE": _file("report.css"),
        "SCRIPT": script,
        "SCRIPTHASH": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "CONTENTS": contents_list(findings, outcomes, facts),
        "WARNINGS": warning_note(warnings),
        "FINDINGS": findings_section(findings, outcomes),
        "FACTS": facts_section(facts),
        "OUTCOMES": "\n".join(outcome_section(outcome, figures) for outcome in outcomes),
    }
    # All at once, so that no text can name another part.
    text = re.sub(r"@@([A-Z]+)@@", lambda found: parts[found[1]], _file("report.html"))
    with replacing(path, force=True) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def _file(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


# All pictures of a report, drawn on all cores: as a file of their own and as a figure of the page.


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture as PNG, and as HTML for light and dark."""

    png: bytes
    figure: str


def draw_pictures(outcomes: Sequence[Outcome], *, cores: int, progress: Progress | None = None) -> dict[str, Drawn]:
    """Draw every picture of a report once; by the picture's name."""
    pictures = [picture for outcome in outcomes for picture in outcome.pictures]
    found = {}
    for index, drawn in map_in_processes(_draw, pictures, cores=cores):
        found[pictures[index].name] = drawn
        if progress:
            progress(1)
    return found


def _draw(picture: Picture) -> Drawn:
    stream = io.BytesIO()
    draw_picture(picture, stream)
    return Drawn(stream.getvalue(), picture_figure(picture))
