"""The report as a web page: one file that loads nothing else, from templates with sentences written by hand.

Each part has a template ``templates/parts/NAME.html``, in which ``{{ table("table3", "A caption") }}`` shows a table,
``{{ figure("figure4", "A caption") }}`` a figure, ``{{ facts.worst }}`` a number, and ``tables`` and ``figures`` are
the names of all that there are. A part without a template shows everything.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from nearveil.evaluation.stats import Mean, Share
from nearveil.io.atomic import replacing
from nearveil.report.style import LIGHT
from nearveil.report.tables import cells_of, format_value, headings_of

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure
    from pandas import DataFrame

VERDICT_COLUMN = "verdict"
# Beyond this size a drawing becomes an image; many dots are the reason.
_LARGEST_SVG_BYTES = 150_000
_PNG_PER_INCH, _PAGE_PER_INCH, _WEBP_QUALITY = 110, 96, 60
# Numbers in more columns than these have their intervals on a line of their own.
_WIDE_COLUMNS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """What a page shows of a part."""

    name: str
    title: str
    tables: Mapping[str, DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def write_page(
    path: Path,
    *,
    title: str,
    sections: Sequence[Section],
    verdicts: DataFrame | None = None,
    facts: Sequence[tuple[str, str]] = (),
    warnings: Sequence[str] = (),
    data: Mapping[str, int] | None = None,
) -> None:
    """Write a page that opens in any browser without a network.

    Parameters
    ----------
    path : Path
        Replaced if it exists.
    title : str
        Of the page.
    sections : sequence of Section
        In this order.
    verdicts : DataFrame, optional
        Claims with a verdict each, before everything else.
    facts : sequence of (str, str)
        What the page was made with: versions, seed, runs, data.
    warnings : sequence of str
        What a reader must know first.
    data : mapping, optional
        Files with raw results beside the page, and how many runs are in each.
    """
    script = verbatim("report.js")
    text = filled(
        "report.html",
        title=title,
        style=verbatim("report.css"),
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        verdicts=None if verdicts is None else table_markup(verdicts),
        sections=[(section, _body(section)) for section in sections],
        facts=facts,
        warnings=warnings,
        data=data or {},
    )
    with replacing(path, force=True) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def _body(section: Section) -> Markup:
    """Fill the template of a part."""

    def table(name: str, caption: str = "") -> Markup:
        return table_markup(section.tables[name], caption)

    def figure(name: str, caption: str = "") -> Markup:
        return figure_markup(section.figures[name], caption or f"{section.title}: {name}")

    return filled(
        (f"parts/{section.name}.html", "part.html"),
        table=table,
        figure=figure,
        facts=section.facts,
        tables=list(section.tables),
        figures=list(section.figures),
        title=section.title,
    )


# Tables.


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    kind: str
    interval: str = ""
    rows: int = 1


def table_markup(frame: DataFrame, caption: str = "") -> Markup:
    """Return a table for a page; labels that repeat down the first column are written once."""
    columns = [cells_of(frame.iloc[:, number].tolist()) for number in range(frame.shape[1])]
    kinds = [_kind_of(frame.iloc[:, number].tolist()) for number in range(frame.shape[1])]
    names = [name for _, name in headings_of(frame)]
    rows = []
    for number in range(len(frame)):
        row = []
        for column, kind, name in zip(columns, kinds, names, strict=True):
            text, _, interval = column[number].replace("± ", "±\N{NO-BREAK SPACE}").partition(" ")
            whole = kind == "text" or not interval
            row.append(_Cell(column[number] if whole else text, _verdict(column[number], name) or kind,
                             "" if whole else interval))  # fmt: skip
        rows.append(row)
    _join_repeated(rows, kinds)
    headings = headings_of(frame)
    groups = [group for group, _ in headings]
    return filled(
        "table.html",
        caption=caption,
        headings=list(zip(names, kinds, strict=True)),
        groups=[(group, groups.count(group)) for group in dict.fromkeys(groups)] if any(groups) else [],
        rows=rows,
        is_wide=kinds.count("number") > _WIDE_COLUMNS,
    )


def _kind_of(values: Sequence[object]) -> str:
    return "text" if any(isinstance(value, str) for value in values) else "number"


def _verdict(text: str, column: str) -> str:
    """Return the class of a verdict, which has a sign and a color."""
    if column != VERDICT_COLUMN:
        return ""
    found = ("reproduced under", "reproduced", "not reproduced", "disproved")
    kinds = ("partly", "yes", "no", "disproved")
    return "verdict " + next((kind for start, kind in zip(found, kinds, strict=True) if text.startswith(start)), "open")


def _join_repeated(rows: list[list[_Cell]], kinds: Sequence[str]) -> None:
    """Let the first of equal cells in the first column span the others."""
    if not rows or kinds[0] != "text":
        return
    start = 0
    for number in range(1, len(rows) + 1):
        if number < len(rows) and rows[number][0].text == rows[start][0].text:
            continue
        rows[start][0] = _Cell(rows[start][0].text, "text", rows=number - start)
        for joined in rows[start + 1 : number]:
            del joined[0]
        start = number


# Figures.


def figure_markup(figure: Figure, caption: str) -> Markup:
    """Return a figure drawn once: as SVG whose colors follow the page's, or as an image if it has too many dots."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    svg = stream.getvalue()
    drawing = _themed(svg[svg.index("<svg") :]) if len(svg) <= _LARGEST_SVG_BYTES else None
    image = _image(figure) if drawing is None else ""
    width, height = (round(inches * _PAGE_PER_INCH) for inches in figure.get_size_inches())
    return filled("figure.html", drawing=drawing, image=image, width=width, height=height, caption=caption)


def _themed(svg: str) -> Markup:
    """Replace colors of the light theme by names that the page gives a color, light or dark."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    # The page's own letters.
    svg = re.sub(r"font: ([\w. ]*?)([\d.]+px) [^;\"]*", r"font: \1\2 var(--letters)", svg)
    names = {LIGHT.page: "page", LIGHT.panel: "panel", LIGHT.grid: "grid", LIGHT.land: "land", LIGHT.water: "water",
             LIGHT.shore: "shore"} | {color: name for name, color in LIGHT.palette.items()}  # fmt: skip
    for color, name in names.items():
        svg = re.sub(color, f"var(--{name})", svg, flags=re.IGNORECASE)
    return Markup(re.sub(r"\n\s*", "\n", svg))  # noqa: S704  # matplotlib has escaped it


def _image(figure: Figure) -> str:
    from PIL import Image  # noqa: PLC0415 - comes with matplotlib

    drawn, packed = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=_PNG_PER_INCH)
    Image.open(drawn).convert("RGB").save(packed, "webp", quality=_WEBP_QUALITY, method=6)
    return f"data:image/webp;base64,{base64.b64encode(packed.getvalue()).decode()}"


# Templates, in which every value is escaped unless it says that it is markup.


def filled(name: str | Sequence[str], **values: Any) -> Markup:
    """Return a template of the folder ``templates``, or the first of several that exists, with these values in it."""
    names = [name] if isinstance(name, str) else list(name)
    return Markup(_templates().select_template(names).render(values))  # noqa: S704  # it is escaped already


def verbatim(name: str) -> Markup:
    """Return a style or a script of the folder ``templates`` as it stands."""
    folder = resources.files("nearveil.report").joinpath("templates")
    return Markup(folder.joinpath(name).read_text(encoding="utf-8"))  # noqa: S704  # a file of this package


@cache
def _templates() -> Environment:
    # Only needed where a page is written.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    templates = Environment(
        loader=PackageLoader("nearveil.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return templates


def _shown(value: object) -> object:
    """Write measured numbers in sentences as in tables."""
    return format_value(value) if isinstance(value, Mean | Share | float) else value
