"""The report as a web page: one file that loads nothing else, from templates with sentences written by hand.

Each part has a template ``templates/parts/NAME.html``, in which ``{{ table("table3", "A caption") }}`` shows a table,
``{{ figure("figure4", "A caption") }}`` a figure, ``{{ facts.worst }}`` a number, and ``tables`` and ``figures`` are
the names of all that there are. A part without a template shows everything.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from nearveil.evaluation.stats import Mean, Share
from nearveil.io.atomic import replacing
from nearveil.report.style import save_png
from nearveil.report.tables import cells_of, format_value, headings_of

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure
    from pandas import DataFrame

_PAGE_PER_INCH = 96
# With more columns of numbers than these, intervals are on a line of their own.
_WIDE_COLUMNS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """What a page shows of a part, or the ``problem`` for which it shows nothing."""

    name: str
    title: str
    tables: Mapping[str, DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


def write_page(
    path: Path, *, sections: Sequence[Section], verdicts: DataFrame | None, private: bool = False, **about: Any
) -> None:
    """Write a page that opens in any browser without a network: verdicts first, and then every section.

    ``about`` is its ``title``, and what the template says of how it was made.
    """
    text = filled(
        "report.html",
        verdicts=None if verdicts is None else table_markup(verdicts),
        sections=[(section, _body(section)) for section in sections],
        **about,
    )
    with replacing(path, force=True, private=private) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def _body(section: Section) -> Markup:
    if section.problem:
        return Markup("<p>Not measured: {}.</p>").format(section.problem)
    return filled(
        (f"parts/{section.name}.html", "part.html"),
        table=lambda name, caption="": table_markup(section.tables[name], caption),
        figure=lambda name, caption="": figure_markup(section.figures[name], caption or f"{section.title}: {name}"),
        facts=section.facts,
        tables=list(section.tables),
        figures=list(section.figures),
    )


def table_markup(frame: DataFrame, caption: str = "") -> Markup:
    """Return a table for a page; labels that repeat down the first column are written once."""
    headings = headings_of(frame)
    columns, kinds = [], []
    for number, (_, name) in enumerate(headings):
        values = frame.iloc[:, number].tolist()
        kinds.append("text" if any(isinstance(value, str) for value in values) else "number")
        columns.append(_column(cells_of(values), name, kinds[-1], joined=number == 0 and kinds[-1] == "text"))
    groups = [(group, len(list(members))) for group, members in groupby(group for group, _ in headings)]
    return filled(
        "table.html",
        caption=caption,
        headings=[(name, kind) for (_, name), kind in zip(headings, kinds, strict=True)],
        groups=groups if any(group for group, _ in groups) else [],
        rows=[[cell for cell in row if cell] for row in zip(*columns, strict=True)],
        is_wide=kinds.count("number") > _WIDE_COLUMNS,
    )


def _column(texts: Sequence[str], name: str, kind: str, *, joined: bool) -> list[dict[str, Any] | None]:
    """Return the cells of a column; where they are ``joined``, the first of equal ones spans the others."""
    cells: list[dict[str, Any] | None] = []
    for text, same in groupby(texts) if joined else ((text, [text]) for text in texts):
        rows = len(list(same))
        # A number can be broken before its interval, not within; words stay as they are.
        number, _, interval = text.replace("± ", "±\N{NO-BREAK SPACE}").partition(" ")
        if kind == "text":
            number, interval = text, ""
        cell = {"text": number, "interval": interval, "column": name, "kind": kind, "rows": rows}
        cells += [cell, *[None] * (rows - 1)]
    return cells


def figure_markup(figure: Figure, caption: str) -> Markup:
    """Return a figure as an image within the page."""
    stream = io.BytesIO()
    save_png(figure, stream)
    data = base64.b64encode(stream.getvalue()).decode()
    return filled("figure.html", data=data, width=round(figure.get_figwidth() * _PAGE_PER_INCH), caption=caption)


# Templates, in which every value is escaped unless it says that it is markup.


def filled(name: str | Sequence[str], **values: Any) -> Markup:
    """Return a template of the folder ``templates``, or the first of several that exists, with these values in it."""
    names = [name] if isinstance(name, str) else list(name)
    return Markup(_templates().select_template(names).render(values))  # noqa: S704  # it is escaped already


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
        # Numbers in sentences look as they do in tables.
        finalize=lambda value: format_value(value) if isinstance(value, Mean | Share | float) else value,
    )
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return templates
