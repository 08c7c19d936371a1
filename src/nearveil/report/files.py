"""An outcome as files: each table as CSV and Markdown, each picture as PNG."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from nearveil.errors import OutputError
from nearveil.evaluation.results import Chart, Column, DotPlot, ExperimentResult, Picture, Table, Value
from nearveil.evaluation.stats import Mean, Share
from nearveil.io.atomic import replacing
from nearveil.report.charts import Format, draw_chart
from nearveil.report.dot_plot import draw_dot_plot
from nearveil.report.maps import draw_map
from nearveil.report.text_table import markdown_table

_MEAN_ENDINGS = (" ±95",)
_SHARE_ENDINGS = (" 95 low", " 95 high")


def write_outcome(outcome: ExperimentResult, folder: Path, *, drawn: Mapping[str, bytes] | None = None) -> list[Path]:
    """Write everything that an outcome has into a folder, which is made if need be; replace what is there.

    ``drawn`` has pictures by name that were drawn before.

    Returns
    -------
    list of Path
        ``<table>.csv`` and ``<table>.md`` for each table, ``<picture>.png`` for each picture.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder {folder} cannot be created: {error.strerror}; choose another") from None
    written = []
    for table in outcome.tables:
        for ending, text in ((".csv", table_csv(table)), (".md", table_markdown(outcome, table))):
            written.append(folder / (table.name + ending))
            with replacing(written[-1], force=True) as partial:
                partial.write_text(text, encoding="utf-8", newline="")
    for picture in outcome.pictures:
        written.append(folder / f"{picture.name}.png")
        with replacing(written[-1], force=True) as partial:
            if drawn is None:
                draw_picture(picture, partial)
            else:
                partial.write_bytes(drawn[picture.name])
    return written


def draw_picture(
    picture: Picture, path: Path | BinaryIO, *, dark: bool = False, format: Format = "png", titled: bool = True
) -> None:
    """Draw a chart, a dot plot or a map; see `draw_chart`."""
    if isinstance(picture, Chart):
        draw_chart(picture, path, dark=dark, format=format, titled=titled)
    elif isinstance(picture, DotPlot):
        draw_dot_plot(picture, path, dark=dark, format=format, titled=titled)
    else:
        draw_map(picture, path, dark=dark, format=format, titled=titled)


def format_value(value: Value, form: str) -> str:
    """Write a value as people read it; nothing for None.

    Examples
    --------
    >>> [format_value(value, ".3f") for value in (Mean(0.4642, 0.0101), 0.5, 13931, "none", None)]
    ['0.464 ± 0.010', '0.500', '13931', 'none', '']
    >>> format_value(Share(0.95, 0.7513, 0.9987), ".3f")
    '0.950 (0.751–0.999)'
    >>> format_value(13931, ",d")
    '13,931'
    """
    if isinstance(value, Mean):
        parts = (value.value,) if value.half_width is None else (value.value, value.half_width)
        return " ± ".join(_format_number(part, form) for part in parts)
    if isinstance(value, Share):
        share, low, high = (_format_number(part, form) for part in (value.value, value.low, value.high))
        return f"{share} ({low}–{high})"
    if value is None or isinstance(value, str):
        return value or ""
    return _format_number(value, form)


def _format_number(number: int | float, form: str) -> str:
    if not isinstance(number, float) and form[-1:] in ("f", "e", "g", "%"):
        # A count has no decimals, whatever else its column holds.
        return format(number, "," if "," in form else "d")
    if isinstance(number, float) and form.endswith("d"):
        return format(number, form.removesuffix("d") + ".0f")
    return format(number, form).replace("inf", "∞")


def table_cells(table: Table, *, in_terminal: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the headers and cells of a table as people read them; all of them, or those for a terminal."""
    shown = [number for number, column in enumerate(table.columns) if column.in_terminal or not in_terminal]
    headers = [full_name(table.columns[number]) for number in shown]
    rows = [[format_value(row[number], table.columns[number].form) for number in shown] for row in table.rows]
    return headers, rows


def full_name(column: Column) -> str:
    """Return the name of a column with that of its group.

    Examples
    --------
    >>> full_name(Column("recall@10", group="brightkite"))
    'brightkite: recall@10'
    """
    return f"{column.group}: {column.name}" if column.group else column.name


def table_csv(table: Table) -> str:
    """Return a table as CSV for machines: all digits, and the intervals in columns of their own.

    Means have half their interval in a column ``±95``, shares the ends of theirs in ``95 low`` and ``95 high``.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    headers: list[str] = []
    endings: list[tuple[str, ...]] = []
    for number, column in enumerate(table.columns):
        kinds = {type(row[number]) for row in table.rows}
        endings.append(_SHARE_ENDINGS if Share in kinds else _MEAN_ENDINGS if Mean in kinds else ())
        headers += [full_name(column) + ending for ending in ("", *endings[-1])]
    writer.writerow(headers)
    for row in table.rows:
        parts = (_raw(value, len(ending)) for value, ending in zip(row, endings, strict=True))
        writer.writerow(part for some in parts for part in some)
    return stream.getvalue()


def _raw(value: Value, interval: int) -> list[str]:
    """A value, and as many parts of its interval as its column has."""
    parts: Sequence[object]
    if isinstance(value, Share):
        parts = (float(value.value), float(value.low), float(value.high))
    elif isinstance(value, Mean):
        parts = (float(value.value), None if value.half_width is None else float(value.half_width))
    else:
        parts = (float(value) if isinstance(value, float) else value,)
    cells = ["" if part is None else str(part) for part in parts]
    return cells + [""] * (1 + interval - len(cells))


def table_markdown(outcome: ExperimentResult, table: Table) -> str:
    """Return a table as Markdown, with the protocol and what came out."""
    headers, rows = table_cells(table)
    lines = markdown_table([_in_cell(each) for each in headers], [[_in_cell(each) for each in row] for row in rows])
    parts = [f"# {outcome.title}", table.caption, lines.rstrip("\n"), table.protocol]
    parts.append("\n".join(f"- {remark}" for remark in outcome.remarks))
    return "\n\n".join(part for part in parts if part) + "\n"


def _in_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").splitlines())
