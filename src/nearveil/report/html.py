"""The report of a reproduction as a web page: a single file that loads nothing else."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from markupsafe import Markup

from nearveil.evaluation.results import Chart, Column, ExperimentResult, KeyFinding, Picture, Table, Value
from nearveil.evaluation.stats import Mean, Share
from nearveil.evaluation.workers import map_in_processes
from nearveil.io.atomic import replacing
from nearveil.report.charts import Format
from nearveil.report.exploration import exploration_document, packed_text, plotly_script, script_digest
from nearveil.report.files import draw_picture, format_value, full_name, table_csv
from nearveil.report.pages import filled, verbatim
from nearveil.types import Progress

# Pictures inside the page, for light and for dark.


# A drawing is sharp at any size; beyond this, an image is the smaller evil.
_LARGEST_SVG_BYTES = 400_000
# Images have 150 dots per inch; a page has 96, and the report shall be small enough to be sent by mail.
_DRAWN_PER_INCH, _KEPT_PER_INCH, _PAGE_PER_INCH = 150, 110, 96
_WEBP_QUALITY = 40
# A picture wider than this is scrolled on a phone rather than shrunk to its width.
_PHONE_PX = 700


def picture_figure(picture: Picture) -> Markup:
    """Return a picture in both variants, of which the page shows one, with its caption."""
    format: Format = "svg"
    light = _drawn(picture, dark=False, format=format)
    if len(light) > _LARGEST_SVG_BYTES:
        format = "png"
        light = _drawn(picture, dark=False, format=format)
    dark = _drawn(picture, dark=True, format=format)
    images = [_Image.of(data, format, theme) for data, theme in ((light, "light"), (dark, "dark"))]
    chart = picture if isinstance(picture, Chart) else None
    explored = chart is not None and chart.exploration is not None and plotly_script() is not None
    return filled(
        "picture.html",
        picture=picture,
        images=images,
        caption="" if chart is None else chart.caption,
        exploration=exploration_document(chart.exploration) if explored else None,  # type: ignore[union-attr,arg-type]
    )


@dataclass(frozen=True, slots=True)
class _Image:
    """One variant of a picture, inside the page; sizes in its pixels. A drawing is packed, and the page unpacks it."""

    theme: str
    width: int
    height: int
    is_wide: bool
    address: str = ""
    packed: str = ""

    @classmethod
    def of(cls, data: bytes, format: Format, theme: str) -> _Image:
        if format == "svg":
            width, height = _svg_size(data)
            return cls(theme, width, height, width > _PHONE_PX, packed=packed_text(data))
        width, height, smaller = _smaller_image(data)
        address = f"data:image/webp;base64,{base64.b64encode(smaller).decode()}"
        return cls(theme, width, height, width > _PHONE_PX, address=address)


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


def _smaller_image(png: bytes) -> tuple[int, int, bytes]:
    """Width and height on the page, and the image as WebP, a few times smaller than PNG where there are many dots."""
    from PIL import Image  # noqa: PLC0415 - comes with matplotlib

    with Image.open(io.BytesIO(png)) as image:
        width, height = image.size
        kept = (width * _KEPT_PER_INCH // _DRAWN_PER_INCH, height * _KEPT_PER_INCH // _DRAWN_PER_INCH)
        stream = io.BytesIO()
        image.convert("RGB").resize(kept).save(stream, "webp", quality=_WEBP_QUALITY, method=6)
    scale = _PAGE_PER_INCH / _DRAWN_PER_INCH
    return round(width * scale), round(height * scale), stream.getvalue()


# Tables inside the page: sortable, and to be had as CSV.


# More of them take two lines each on paper.
_WIDE_COLUMNS = 7
# Few enough not to be torn apart by the end of a page.
_SHORT_ROWS = 20


def sort_value(value: Value) -> str:
    """Return what a cell is sorted by: six digits of a number, a text as it is, nothing for None."""
    if isinstance(value, Mean | Share):
        value = value.value
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.6g}"


@dataclass(frozen=True, slots=True)
class _Heading:
    """The header of a column: what it says, and whether a group begins with it."""

    number: int
    name: str
    title: str
    kind: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class _Cell:
    """A value of a table: what it says, apart from its interval, and what it is sorted by."""

    kind: str
    text: str
    interval: str
    sorted_by: str
    is_first: bool


class _TableView:
    """What the template shows of a table."""

    def __init__(self, table: Table) -> None:
        self.name, self.caption, self.protocol = table.name, table.caption, table.protocol
        self.is_wide, self.is_short = len(table.columns) > _WIDE_COLUMNS, len(table.rows) <= _SHORT_ROWS
        self.packed_csv = packed_text(table_csv(table).encode())
        headings = [_heading(table, number) for number in range(len(table.columns))]
        self.groups = [
            (group, list(members))
            for group, members in groupby(headings, lambda each: table.columns[each.number].group)
        ]
        self.has_groups = any(group for group, _ in self.groups)
        self.rows = [
            [
                _cell(value, table.columns[heading.number], is_first=heading.is_first)
                for value, heading in zip(row, headings, strict=True)
            ]
            for row in table.rows
        ]


def _heading(table: Table, number: int) -> _Heading:
    column = table.columns[number]
    before = table.columns[number - 1].group if number else None
    kind = "number" if _is_numeric(table, number) else "text"
    return _Heading(number, column.name, full_name(column), kind, column.group not in ("", before))


def _is_numeric(table: Table, number: int) -> bool:
    values = [row[number] for row in table.rows if row[number] is not None]
    return bool(values) and not any(isinstance(value, str) for value in values)


def _cell(value: Value, column: Column, *, is_first: bool) -> _Cell:
    kind = "text" if isinstance(value, str) else "number"
    text, interval = "" if value is None else format_value(value, column.form), ""
    if isinstance(value, Mean | Share):
        # A cell may be broken before its interval, not within.
        text, _, interval = text.replace("± ", "±\N{NO-BREAK SPACE}").partition(" ")
    return _Cell(kind, text, interval, sort_value(value), is_first)


# The whole page, from the findings to the last table.


def section_id(name: str) -> str:
    """Return the anchor of an outcome's section.

    Examples
    --------
    >>> section_id("Table 1")
    'part-table-1'
    """
    return "part-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@dataclass(frozen=True, slots=True)
class _Section:
    """An outcome on the page: question, pictures, what came out, tables."""

    anchor: str
    outcome: ExperimentResult
    figures: list[Markup]
    tables: list[_TableView]


def write_report(
    path: Path,
    *,
    title: str,
    findings: Sequence[KeyFinding],
    outcomes: Sequence[ExperimentResult],
    facts: Sequence[tuple[str, str]],
    warnings: Sequence[str],
    figures: Mapping[str, Markup] | None = None,
    lead: str = "",
) -> None:
    """Write a report that opens in any browser without a network; the same input gives the same bytes.

    Parameters
    ----------
    path : Path
        Replaced if it exists.
    title : str
        Of the page.
    findings : sequence of KeyFinding
        The main findings; their evidence are names of outcomes.
    outcomes : sequence of ExperimentResult
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
    explored = any(isinstance(one, Chart) and one.exploration for outcome in outcomes for one in outcome.pictures)
    plotly = plotly_script() if explored else None
    scripts = [verbatim(name) for name in ("report.js", *(["explore.js"] if plotly else []))]
    text = filled(
        "report.html",
        title=title,
        lead=lead,
        style=verbatim("report.css"),
        scripts=scripts,
        script_digests=[*(script_digest(one.encode()) for one in scripts), *([plotly.digest] if plotly else [])],
        plotly=plotly,
        findings=findings,
        titles={outcome.name: outcome.title for outcome in outcomes},
        section_id=section_id,
        facts=facts,
        warnings=warnings,
        sections=[_section(outcome, figures) for outcome in outcomes],
    )
    with replacing(path, force=True) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def _section(outcome: ExperimentResult, figures: Mapping[str, Markup] | None) -> _Section:
    shown = [figures[one.name] if figures else picture_figure(one) for one in outcome.pictures]
    return _Section(
        section_id(outcome.name),
        outcome,
        shown,
        [_TableView(table) for table in outcome.tables if not table.in_files_alone],
    )


# All pictures of a report, drawn on all cores: as a file of their own and, where there is a page, as a figure of it.


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture as PNG, and as HTML for light and dark; without a page, that is empty."""

    png: bytes
    figure: Markup


def draw_pictures(
    outcomes: Sequence[ExperimentResult], *, for_page: bool, cores: int, progress: Progress | None = None
) -> dict[str, Drawn]:
    """Draw every picture of a report once; by the picture's name. Figures are drawn for a page alone."""
    pictures = [picture for outcome in outcomes for picture in outcome.pictures]
    found = {}
    for index, drawn in map_in_processes(_draw_for_page if for_page else _draw, pictures, cores=cores):
        found[pictures[index].name] = drawn
        if progress:
            progress(1)
    return found


def _draw(picture: Picture) -> Drawn:
    stream = io.BytesIO()
    draw_picture(picture, stream)
    return Drawn(stream.getvalue(), Markup())


def _draw_for_page(picture: Picture) -> Drawn:
    return Drawn(_draw(picture).png, picture_figure(picture))
